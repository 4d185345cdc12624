"""Idempotency-Key: a submission that is sent again is not stored again."""
from concurrent.futures import ThreadPoolExecutor

import pytest


def send(node, key, spec):
    return node.submit_raw(spec, headers={"Idempotency-Key": key})


def same(first, again):
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"


def test_a_repeat_gets_the_first_answer_whatever_became_of_the_job(node):
    first = send(node, "k1", {"command": "true", "name": "once"})
    assert first.status == 201 and "Idempotency-Replayed" not in first.headers
    assert node.wait(first.json()["id"])["state"] == "succeeded"
    same(first, send(node, "k1", {"name": "once", "command": "true"}))
    assert len(node.jobs(name="once")) == 1
    several = send(node, "k2", [{"command": "true", "name": "many"}] * 3)
    same(several, send(node, "k2", [{"command": "true", "name": "many"}] * 3))
    assert len(node.jobs(name="many")) == 3


def test_another_body_is_refused(node):
    send(node, "k", {"command": "true"})
    send(node, "k", {"command": "false"}).problem(422, "idempotency_conflict")
    send(node, "k", [{"command": "true"}]).problem(422, "idempotency_conflict")
    assert len(node.jobs()) == 1
    assert send(node, "another", {"command": "false"}).status == 201


def test_a_refused_submission_does_not_use_up_its_key(node):
    send(node, "k", {"command": ""}).problem(422, "invalid_input")
    assert send(node, "k", {"command": "true"}).status == 201


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_a_key_that_is_none_is_refused(node, key):
    send(node, key, {"command": "true"}).problem(400, "invalid_parameter")
    assert node.jobs() == []


def test_the_answer_survives_kill_9(make_node):
    node = make_node().start()
    first = send(node, "k", {"command": "sleep 100"})
    node.kill9()
    node.start()
    same(first, send(node, "k", {"command": "sleep 100"}))
    send(node, "k", {"command": "true"}).problem(422, "idempotency_conflict")
    assert len(node.jobs()) == 1


def test_many_repeats_at_once_store_one_job(node):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: send(node, "k", {"command": "true"}), range(48)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert len(node.jobs()) == 1


def test_kcx_submits_once_under_a_key(node):
    first = node.cli("submit", "--idempotency-key", "k", "--", "true")
    assert first.returncode == 0
    assert node.cli("submit", "--idempotency-key", "k", "--", "true").stdout == first.stdout
    assert node.cli("submit", "--idempotency-key", "k", "--", "false").returncode == 4
