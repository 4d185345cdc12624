"""Workers elsewhere: claims over HTTP, leases, and the worker of the documentation."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
import urllib.parse

import pytest

from kcx_node import ROOT, wait_until


@pytest.fixture
def far(start_node):
    """A node whose own worker takes nothing."""
    return without_own(start_node(slots=1))


def without_own(node):
    for worker in node.workers():
        node.post(f"/v1/workers/{worker['name']}/cordon")
    return node


def claim(node, wait=None, **wanted):
    return node.post("/v1/claims" + (f"?wait={wait}" if wait else ""), wanted)["items"]


def one(node, **wanted):
    (item,) = claim(node, **wanted)
    return item


def renew(node, item):
    return node.post(f"/v1/claims/{item['token']}/renew")


def complete(node, item, query="", **body):
    return node.post(f"/v1/claims/{item['token']}/complete{query}", body)


def refused(node, path, body=None, method="POST", status=409, code="stale_attempt"):
    return node.request(method, path, body).problem(status, code)


# -- the life of a claim ----------------------------------------------------------------------------------------------


def test_a_claimed_job_is_confirmed_and_completed(far):
    job = far.submit(["make", "all"], env={"A": "1"}, secrets={"TOKEN": "s3cr3t"}, labels=["arm"], metadata={"x": 1})
    assert claim(far, worker="other") == []
    item = one(far, worker="arm-1", labels=["arm", "linux"], lease_s=20)
    assert (item["id"], item["attempt"], item["lease_s"]) == (job["id"], 1, 20)
    assert item["command"] == ["make", "all"] and item["env"] == {"A": "1"}
    assert item["secrets"] == {"TOKEN": "s3cr3t"} and item["metadata"] == {"x": 1}
    seen = far.job(job["id"])
    assert (seen["state"], seen["worker"], seen["started_at"]) == ("running", "arm-1", None)
    assert renew(far, item) == {"token": item["token"], "lease_s": 20, "cancel": False}
    assert far.job(job["id"])["started_at"] is not None
    done = complete(far, item, exit_code=3, message="no rule", duration_s=1.5)
    assert (done["state"], done["reason"], done["repeated"]) == ("failed", "exit_code", False)
    assert complete(far, item, exit_code=3)["repeated"]
    seen = far.job(job["id"])
    assert (seen["state"], seen["exit_code"], seen["duration_s"], seen["message"]) == ("failed", 3, 1.5, "no rule")
    assert [line["state"] for line in seen["history"]] == ["queued", "running", "failed"]
    assert [line["worker"] for line in seen["history"]] == [None, "arm-1", "arm-1"]
    refused(far, f"/v1/claims/{item['token']}/complete", {"exit_code": 0})
    refused(far, f"/v1/claims/{item['token']}/renew")


def test_a_waiting_claim_is_answered_when_a_job_comes(far):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(claim, far, "30s", worker="w")
        wait_until(lambda: far.actors("dispatcher")[0]["status"]["waiting_remote_workers"] == 1)
        job = far.submit("true")
        began = time.monotonic()
        (item,) = waiting.result()
        assert item["id"] == job["id"] and time.monotonic() - began < 5
    # It was inserted as claimed: one commit, and the database actor did it.
    assert far.actors("database")[0]["status"]["handed_over"] == 1
    assert complete(far, item)["state"] == "succeeded"
    began = time.monotonic()
    assert claim(far, "300ms") == []
    assert time.monotonic() - began >= 0.3


def test_complete_claims_the_next_in_the_same_request(far):
    jobs = far.submit_many([{"command": "true"} for _ in range(4)])
    item = one(far)
    done = complete(far, item, "?next=2", claim={"worker": "w", "lease_s": 5})
    assert done["state"] == "succeeded"
    assert [each["id"] for each in done["claims"]] == [job["id"] for job in jobs[1:3]]
    assert {each["lease_s"] for each in done["claims"]} == {5}
    # A refused report claims nothing.
    refused(far, f"/v1/claims/{item['token']}/complete?next=1", {"exit_code": 9})
    assert far.job(jobs[3]["id"])["state"] == "queued"
    last = complete(far, done["claims"][0], "?next=5")["claims"]
    assert [each["id"] for each in last] == [jobs[3]["id"]]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(complete, far, last[0], "?next=1&wait=30s")
        wait_until(lambda: far.job(jobs[3]["id"])["state"] == "succeeded")
        late = far.submit("true")
        assert [each["id"] for each in waiting.result()["claims"]] == [late["id"]]


def test_many_claims_are_renewed_and_ended_at_once(far):
    jobs = far.submit_many([{"command": "true", "on_interrupt": "requeue"} for _ in range(6)])
    items = claim(far, max=6)
    assert [item["id"] for item in items] == [job["id"] for job in jobs]
    tokens = [item["token"] for item in items]
    told = far.post("/v1/claims/renew", {"tokens": tokens + ["999.1.abc"]})["items"]
    assert [each["token"] for each in told[:6]] == tokens and told[6]["code"] == "stale_attempt"
    ends = [{"token": tokens[0]}, {"token": tokens[1], "signal": 9}, {"token": "999.1.abc"}]
    told = far.post("/v1/claims/complete?next=1", {"items": ends})
    assert [each.get("state", each.get("code")) for each in told["items"]] == ["succeeded", "failed", "not_found"]
    assert told["claims"] == []
    fails = [{"token": tokens[2], "reason": "time_limit"}, {"token": tokens[3], "reason": "spawn_failed", "message": "gone"}]
    assert [each["state"] for each in far.post("/v1/claims/fail", {"items": fails})["items"]] == ["timed_out", "failed"]
    assert [each["state"] for each in far.post("/v1/claims/release", {"tokens": tokens[4:]})["items"]] == ["queued"] * 2
    assert far.job(jobs[1]["id"])["signal"] == "SIGKILL"
    assert far.job(jobs[3]["id"])["message"] == "gone"
    again = claim(far, max=9)
    assert [(item["id"], item["attempt"]) for item in again] == [(job["id"], 2) for job in jobs[4:]]


def test_a_cancel_reaches_the_worker_with_its_renewal(far):
    job = far.submit("sleep 100")
    item = one(far)
    assert not renew(far, item)["cancel"]
    assert far.cancel(job["id"]).status == 202
    assert renew(far, item)["cancel"]
    assert far.job(job["id"])["state"] == "cancelling"
    assert complete(far, item, exit_code=0)["state"] == "cancelled"


def test_an_unconfirmed_claim_given_back_uses_no_attempt(far):
    job = far.submit("true")
    assert far.post(f"/v1/claims/{one(far)['token']}/release")["state"] == "queued"
    seen = far.job(job["id"])
    assert (seen["reason"], seen["interrupts"]) == ("not_started", 0)
    item = one(far)
    renew(far, item)
    assert far.post(f"/v1/claims/{item['token']}/release")["state"] == "interrupted"


# -- leases -----------------------------------------------------------------------------------------------------------


def test_a_claim_that_was_ended_without_a_renewal_had_started(far):
    job = far.submit("true", wait_limit_s=0.5, max_attempts=2, backoff_s=1)["id"]
    assert complete(far, one(far), exit_code=1)["state"] == "scheduled"
    (again,) = claim(far, wait="20s")
    assert (again["id"], again["attempt"]) == (job, 2)
    complete(far, again, exit_code=0)
    assert far.wait(job)["state"] == "succeeded"


def test_a_lease_that_runs_out_is_decided_by_the_job(far):
    never, fails, again = far.submit_many(
        [{"command": "true"}, {"command": "true"}, {"command": "true", "on_interrupt": "requeue"}])
    items = claim(far, max=3, lease_s=1)
    for item in items[1:]:
        renew(far, item)
    assert far.wait_for_state(never["id"], "queued")["reason"] == "not_started"
    assert far.wait_for_state(fails["id"], "interrupted")["reason"] == "lease_expired"
    seen = far.wait_for_state(again["id"], "queued")
    assert (seen["reason"], seen["cause"], seen["interrupts"]) == ("requeued", "lease_expired", 1)
    for item in items:
        refused(far, f"/v1/claims/{item['token']}/complete")
        refused(far, f"/v1/claims/{item['token']}/log", b"late", "PUT")
    assert [(item["id"], item["attempt"]) for item in claim(far, max=3)] == [(never["id"], 2), (again["id"], 2)]


def test_leases_begin_anew_after_a_restart(far):
    jobs = far.submit_many([{"command": "true"}, {"command": "true"}])
    items = claim(far, max=2, lease_s=3)
    renew(far, items[0])
    far.kill9()
    time.sleep(3.5)  # Longer than the lease: nobody could renew it.
    far.start()
    without_own(far)
    assert {far.job(job["id"])["state"] for job in jobs} == {"running"}
    assert renew(far, items[0])["lease_s"] == 3
    assert complete(far, items[0])["state"] == "succeeded"
    assert far.wait_for_state(jobs[1]["id"], "queued")["reason"] == "not_started"


def test_renewing_keeps_a_long_job_single(far, tmp_path):
    lines = tmp_path / "lines"
    job = far.submit(f"echo once >> {lines}; sleep 5; echo done", on_interrupt="requeue")
    item = one(far, lease_s=2)
    with subprocess.Popen(["sh", "-c", item["command"]], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            renew(far, item)
            assert claim(far) == []
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
    assert complete(far, item, exit_code=process.returncode)["state"] == "succeeded"
    assert lines.read_text() == "once\n"
    assert far.job(job["id"])["attempt"] == 1


def test_a_cancelled_job_whose_worker_is_gone_ends_with_its_lease(far):
    job = far.submit("true", on_interrupt="requeue")
    renew(far, one(far, lease_s=1))
    far.cancel(job["id"])
    assert far.wait(job["id"])["state"] == "cancelled"


def waiting_claim(far):
    address = urllib.parse.urlsplit(far.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("POST", "/v1/claims?wait=60s", b'{"lease_s":60}',
                       {"Authorization": f"Bearer {far.token}", "Content-Type": "application/json"})
    wait_until(lambda: far.actors("dispatcher")[0]["status"]["waiting_remote_workers"] == 1)
    return connection


def test_what_a_client_that_broke_off_was_granted_comes_back(far):
    connection = waiting_claim(far)
    # A connection that is reset, which the node looks for every second and tells nobody.
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    time.sleep(2.5)
    job = far.submit("true")
    # Well before its lease of a minute is over.
    wait_until(lambda: far.job(job["id"])["reason"] == "not_started", 10)
    assert one(far, wait="10s")["id"] == job["id"]


def test_what_a_client_that_is_gone_was_granted_comes_back(far):
    # Closed, as a killed process leaves it: the node sees no more than of one that is half closed and waits.
    waiting_claim(far).close()
    job = far.submit("true")
    wait_until(lambda: far.job(job["id"])["reason"] == "not_started", 10)
    assert one(far, wait="10s")["id"] == job["id"]


def test_a_client_that_closed_its_sending_side_keeps_what_it_is_granted(far):
    connection = waiting_claim(far)
    connection.sock.shutdown(socket.SHUT_WR)
    job = far.submit("true")
    item, = json.loads(connection.getresponse().read())["items"]
    assert item["id"] == job["id"] and complete(far, item)["state"] == "succeeded"


def test_a_claim_that_waits_gets_nothing_once_its_token_is_revoked(far):
    token = far.post("/v1/tokens", {"name": "arm", "scopes": ["work"]}, status=201)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(far.request, "POST", "/v1/claims?wait=60s", {"lease_s": 60}, token=token["token"])
        wait_until(lambda: far.actors("dispatcher")[0]["status"]["waiting_remote_workers"] == 1)
        assert far.request("DELETE", f"/v1/tokens/{token['id']}").status == 204
        waiting.result(10).problem(401, "unauthorized")
    job = far.submit("true", secrets={"TOKEN": "s3cr3t"})
    # What the dispatcher still grants that claim comes back, and is there for another.
    item = one(far, wait="10s")
    assert item["id"] == job["id"] and complete(far, item)["state"] == "succeeded"


def test_a_report_of_a_step_that_is_none_is_refused_whole(far):
    job = far.submit(steps=[{"command": "true"}, {"command": "true"}])
    item = one(far)
    path = f"/v1/claims/{item['token']}"
    assert far.request("PUT", f"{path}/log", b"one\n").status == 200
    wrong = {"steps": [{"index": 0, "state": "succeeded"}, {"index": 7, "state": "failed"}]}
    told = far.request("POST", f"{path}/complete", wrong).problem(422, "invalid_input")
    assert [each["pointer"] for each in told["errors"]] == ["/steps/1/index"]
    assert [step["state"] for step in far.job(job["id"])["steps"]] == ["pending", "pending"]
    refusal, = far.post("/v1/claims/fail", {"items": [{"token": item["token"], **wrong}]})["items"]
    assert refusal["code"] == "invalid_input" and "step 7" in refusal["detail"]
    assert far.job(job["id"])["state"] == "running" and far.log(job["id"]) == "one\n"
    right = [{"index": 0, "state": "succeeded"}, {"index": 1, "state": "failed", "exit_code": 2}]
    assert complete(far, item, exit_code=2, steps=right)["state"] == "failed"
    assert [step["state"] for step in far.job(job["id"])["steps"]] == ["succeeded", "failed"]
    assert far.log(job["id"]) == "one\n"


# -- the same rules as for the node's own workers ---------------------------------------------------------------------


def test_claims_go_by_project_priority_group_queue_and_pause(far):
    for project, count in (("a", 3), ("b", 1)):
        far.submit_many([{"command": "true", "project": project, "name": f"{project}{i}"} for i in range(count)])
    far.submit("true", project="a", name="urgent", priority=50)
    assert [item["name"] for item in claim(far, max=9)] == ["urgent", "b0", "a0", "a1", "a2"]
    far.submit_many([{"command": "true", "group": "g", "name": f"g{i}"} for i in range(2)])
    (first,) = claim(far, max=9)
    assert first["name"] == "g0" and claim(far) == []
    complete(far, first)
    assert [item["name"] for item in claim(far, max=9)] == ["g1"]
    far.submit("true", queue="night", name="n")
    far.submit("true", queue="day", name="d")
    assert [item["name"] for item in claim(far, queues=["night"], max=9)] == ["n"]
    far.post("/v1/queues/day/pause")
    assert claim(far, max=9) == []
    far.post("/v1/queues/day/resume")
    assert [item["name"] for item in claim(far, "5s", max=9)] == ["d"]


def test_weights_count_against_what_the_worker_has_free(far):
    heavy = far.submit("true", weight=3)
    light = far.submit("true")
    assert claim(far, max=2, capacity=4) == []  # kept for the heavy one, whose turn it is
    assert [item["id"] for item in claim(far, max=4)] == [heavy["id"], light["id"]]
    whole = far.submit("true", weight=50)
    assert [item["id"] for item in claim(far, max=2)] == [whole["id"]]


def test_a_remote_worker_counts_for_why(far):
    job = far.submit("true", labels=["arm"])
    assert far.get(f"/v1/jobs/{job['id']}/why")["reasons"][0]["kind"] == "labels"
    assert claim(far, labels=["arm"], queues=["none"]) == []
    assert far.get(f"/v1/jobs/{job['id']}/why")["reasons"][0]["kind"] != "labels"


def test_what_goes_straight_to_a_waiting_claim_overtakes_no_heavy_job(far):
    heavy = far.submit("true", queue="y", weight=3)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(claim, far, "30s", queues=["y"], max=1, capacity=5)
        wait_until(lambda: far.actors("dispatcher")[0]["status"]["waiting_remote_workers"] == 1)
        light = far.submit("true", queue="y")
        assert far.job(light["id"])["state"] == "queued"
        why = far.get(f"/v1/jobs/{heavy['id']}/why")
        assert [each["kind"] for each in why["reasons"]] == ["weight"], why
        assert why["text"] == "It takes 3 slots and 1 of 5 are free."
        far.post(f"/v1/jobs/{heavy['id']}/cancel")
        assert [item["id"] for item in asked.result()] == [light["id"]]


def test_why_counts_only_claims_that_would_take_the_job(far):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(claim, far, "30s", queues=["x"])
        wait_until(lambda: far.actors("dispatcher")[0]["status"]["waiting_remote_workers"] == 1)
        job = far.submit("true", queue="y")
        why = far.get(f"/v1/jobs/{job['id']}/why")
        assert [each["kind"] for each in why["reasons"]] == ["slots"], why
        far.submit("true", queue="x")
        assert len(asked.result()) == 1


def test_a_draining_node_takes_reports_and_gives_no_claims(far, fifo):
    held = far.submit("true")
    item = one(far)
    renew(far, item)
    far.post(f"/v1/workers/{far.workers()[0]['name']}/uncordon")
    runs = far.submit(f"read x < {fifo.path}")
    far.wait_for_state(runs["id"], "running")
    far.post("/v1/node/drain", status=202)
    far.request("POST", "/v1/claims").problem(503, "draining")
    assert complete(far, item, "?next=1")["claims"] == []
    assert far.job(held["id"])["state"] == "succeeded"
    fifo.release()
    assert far.ended() == 0


# -- logs -------------------------------------------------------------------------------------------------------------


def put_log(node, item, text, offset=None):
    path = f"/v1/claims/{item['token']}/log" + (f"?offset={offset}" if offset is not None else "")
    return node.request("PUT", path, text, {"Content-Type": "application/octet-stream"})


def test_a_log_is_sent_in_pieces_followed_and_final(far):
    job = far.submit("true")
    item = one(far)
    assert put_log(far, item, b"one\n").json()["bytes"] == 4
    assert far.job(job["id"])["started_at"] is not None  # a log is a sign of life
    lines = []
    follower = threading.Thread(target=lambda: lines.extend(far.follow(job["id"])))
    follower.start()
    assert put_log(far, item, b"one\ntwo\n").json()["bytes"] == 8  # all of it again
    assert put_log(far, item, b"three\n", 8).json()["bytes"] == 14
    put_log(far, item, b"four\n", 20).problem(409, "conflict")
    assert far.log(job["id"]) == "one\ntwo\nthree\n"
    complete(far, item)
    follower.join()
    assert lines == ["one", "two", "three"]
    assert far.job(job["id"])["log"] == {"bytes": 14, "cut": False}
    put_log(far, item, b"five\n", 14).problem(409, "stale_attempt")
    assert far.log(job["id"]) == "one\ntwo\nthree\n"


def test_a_log_that_comes_while_its_claim_is_given_back_claims_nothing(far):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # Which of the two is first, and how closely the other follows, is chance.
        for _ in range(50):
            job = far.submit("true", on_interrupt="requeue")
            item = one(far)
            sending = pool.submit(put_log, far, item, b"late")
            far.post(f"/v1/claims/{item['token']}/release")
            if sending.result().status != 200:
                sending.result().problem(409, "stale_attempt")
            assert far.job(job["id"])["state"] == "queued", "not held without a lease"
            far.cancel(job["id"])


@pytest.mark.parametrize("end, body", [("complete", {"exit_code": 0}), ("fail", {"reason": "worker_crashed"})])
def test_secrets_in_a_report_are_masked_as_those_of_a_local_job(far, end, body):
    job = far.submit("true", secrets={"TOKEN": "hunter22", "PASS": "key=val"})
    needs = far.submit("true", needs=[{"id": job["id"], "if": "always"}])
    item = one(far)
    outputs = {"a": "my hunter22", "hunter22": "b", "key": "val", "c": "fine"}
    far.post(f"/v1/claims/{item['token']}/{end}", {**body, "message": "no hunter22 here", "outputs": outputs})
    ended = far.job(job["id"])
    assert ended["message"] == "no *** here" and ended["outputs"] == {"c": "fine"}
    env = one(far)["env"]
    assert env[f"KCX_NEED_{job['id']}_c"] == "fine" and "hunter22" not in json.dumps(env), needs


def test_secrets_in_a_sent_log_are_masked_over_piece_borders(far):
    job = far.submit("true", secrets={"TOKEN": "hunter22"})
    item = one(far)
    assert put_log(far, item, b"a hunt").json()["bytes"] == 6
    assert put_log(far, item, b"er22 b\n", 6).json()["bytes"] == 13
    complete(far, item)
    assert far.log(job["id"]) == "a *** b\n"


def test_a_log_goes_on_after_a_restart_and_keeps_its_limit(far):
    job = far.submit("true", log_limit_bytes=4096)
    item = one(far)
    sent = 0
    for piece in range(20):
        if piece == 10:
            far.kill9()
            far.start()
            without_own(far)
        text = (f"piece {piece} ".encode() + b"x" * 500)[:499] + b"\n"
        sent = put_log(far, item, text, sent).json()["bytes"]
    assert sent == 10_000
    complete(far, item)
    log = far.log(job["id"])
    assert log.startswith("piece 0 ") and "piece 19 " in log and "passed its limit" in log
    assert far.job(job["id"])["log"]["cut"]
    assert len(log) < 6000


def test_a_job_that_went_back_has_a_log_per_attempt(far):
    job = far.submit("true", on_interrupt="requeue")
    item = one(far, lease_s=1)
    put_log(far, item, b"first\n")
    far.wait_for_state(job["id"], "queued")
    item = one(far)
    put_log(far, item, b"second\n")
    complete(far, item)
    assert far.log(job["id"], attempt=1) == "first\n"
    assert far.log(job["id"]) == "second\n"


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path, body, pointers", [
    ("/v1/claims", {"max": 0, "lease_s": 0.5, "labels": "x", "queues": ["../x"], "worker": "", "more": 1},
     {"/max", "/lease_s", "/labels", "/queues/0", "/worker", "/more"}),
    ("/v1/claims", [], {""}),
    ("/v1/claims/renew", {}, {"/tokens"}),
    ("/v1/claims/renew", {"tokens": []}, {"/tokens"}),
    ("/v1/claims/renew", {"tokens": ["1.1", 7]}, {"/tokens/0", "/tokens/1"}),
    ("/v1/claims/complete", {"items": [{"exit_code": 300}, {"token": "1.1.1", "exit_code": 1, "signal": 9}]},
     {"/items/0/exit_code", "/items/0/token", "/items/1/signal"}),
    ("/v1/claims/1.1.1/complete", {"exit_code": "0", "claim": {"max": "x"}, "steps": [{"state": "running"}]},
     {"/exit_code", "/claim/max", "/steps/0/index", "/steps/0/state"}),
    ("/v1/claims/1.1.1/fail", {"reason": "tired", "exit_code": 1}, {"/reason", "/exit_code"}),
    ("/v1/claims/1.1.1/release", {"reason": "x"}, {"/reason"}),
])
def test_wrong_fields_are_named(far, path, body, pointers):
    problem = far.request("POST", path, body).problem(422, "invalid_input")
    assert {each["pointer"] for each in problem["errors"]} == pointers, problem


def test_tokens_and_parameters_that_are_none_are_refused(far):
    for token in ("x", "1.1.", "0.1.1", "1.1.zz", "1.1.1.1", "-1.1.1"):
        refused(far, f"/v1/claims/{token}/renew", status=404, code="not_found")
    refused(far, "/v1/claims/7.1.1/renew")
    for query in ("?next=x", "?next=1001", "?wait=1h"):
        refused(far, "/v1/claims/1.1.1/complete" + query, status=400, code="invalid_parameter")
    refused(far, "/v1/claims/1.1.1/log?offset=-1", b"x", "PUT", 400, "invalid_parameter")
    assert far.request("GET", "/v1/claims/1.1.1/renew").status == 405


def test_a_token_says_nothing_about_a_job_of_a_local_worker(node, fifo):
    job = node.submit(f"read x < {fifo.path}; echo whole")
    node.wait_for_state(job["id"], "running")
    refused(node, f"/v1/claims/{job['id']}.1.1/complete", {})
    refused(node, f"/v1/claims/{job['id']}.1.1/renew")
    refused(node, f"/v1/claims/{job['id']}.1.1/log", b"x", "PUT")
    fifo.release()
    assert node.wait(job["id"])["state"] == "succeeded"
    assert node.log(job["id"]) == "whole\n"


# -- workers of many kinds --------------------------------------------------------------------------------------------


def ids_once(path, jobs):
    assert sorted(int(line) for line in path.read_text().split()) == sorted(job["id"] for job in jobs)


def tiny_jobs(node, count, command):
    return [job for _ in range(0, count, 1000) for job in node.submit_many([{"command": command}] * 1000)]


def test_eight_http_workers_run_each_of_5000_jobs_once(far, tmp_path):
    out = tmp_path / "ids"
    jobs = tiny_jobs(far, 5000, "append")

    def work(number):
        who = {"worker": f"w{number}"}
        items = claim(far, max=50, **who)
        with open(out, "a", encoding="ascii") as ids:
            while items:
                for item in items:
                    ids.write(f"{item['id']}\n")
                ids.flush()
                ends = [{"token": item["token"]} for item in items]
                told = far.post("/v1/claims/complete?next=50", {"items": ends, "claim": who})
                assert all(each["state"] == "succeeded" for each in told["items"])
                items = told["claims"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    ids_once(out, jobs)
    assert far.get("/v1/stats")["jobs"]["succeeded"] == 5000


@pytest.mark.long
def test_eight_slots_run_each_of_5000_jobs_once(start_node, tmp_path):
    node = start_node(slots=8)
    out = tmp_path / "ids"
    jobs = tiny_jobs(node, 5000, f"echo $KCX_JOB_ID >> {out}")
    wait_until(lambda: node.get("/v1/stats")["jobs"]["succeeded"] == 5000, 600)
    ids_once(out, jobs)


def test_one_dead_lease_among_ten_thousand_is_found_at_once(far):
    tiny_jobs(far, 10_000, "true")
    dead = far.submit("true", priority=-1)
    for _ in range(10):
        items = claim(far, max=1000, lease_s=3600)
        far.post("/v1/claims/renew", {"tokens": [item["token"] for item in items]})
    item = one(far, lease_s=1)
    assert item["id"] == dead["id"]
    renew(far, item)
    ended = far.wait(dead["id"])
    assert (ended["state"], ended["reason"]) == ("interrupted", "lease_expired")
    assert far.get("/v1/stats")["jobs"]["running"] == 10_000


def documented_worker():
    (block,) = re.findall(r"^```sh worker\n(.*?)^```$", (ROOT / "docs/remote_workers.md").read_text(), re.M | re.S)
    assert len(block.splitlines()) <= 40
    return block


@pytest.fixture
def shell_worker(far, tmp_path):
    """The worker of docs/remote_workers.md, word for word, on node `far`."""
    script = tmp_path / "worker.sh"
    script.write_text(documented_worker())
    with open(tmp_path / "worker.log", "wb") as output:
        process = subprocess.Popen(["bash", script, "shell-1"], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env={**os.environ, "KCX_URL": far.url, "KCX_TOKEN": far.token},
                                   start_new_session=True)
    yield process
    os.killpg(process.pid, 9)
    process.wait()
    print((tmp_path / "worker.log").read_text())


def test_outputs_pass_between_jobs_that_run_elsewhere(far):
    build, test = far.submit_many([{"ref": "build-all", "command": "make"},
                                   {"command": "true", "env": {"A": "1"}, "needs": ["build-all"]}])
    complete(far, one(far), outputs={"version": "1.2", "empty": ""})
    assert far.job(build["id"])["outputs"] == {"version": "1.2", "empty": ""}
    item = one(far)
    assert item["id"] == test["id"]
    assert item["env"] == {"A": "1", "KCX_NEED_build_all_version": "1.2", "KCX_NEED_build_all_empty": ""}
    for wrong, pointer in (({"a b": "x"}, "/outputs/a b"), ({"a": 1}, "/outputs/a"), ({"a": "x" * 65536}, "/outputs"),
                           ({f"k{n}": "" for n in range(101)}, "/outputs"), ([], "/outputs")):
        problem = far.request("POST", f"/v1/claims/{item['token']}/complete", {"outputs": wrong}).problem(422, "invalid_input")
        assert [each["pointer"] for each in problem["errors"]] == [pointer]
    assert complete(far, item)["state"] == "succeeded"


@pytest.mark.usefixtures("shell_worker")
def test_the_documented_worker_lives_on_the_claims(far):
    greeting = far.submit('echo "hello $NAME, $PASS"; echo "two  words" >&2', env={"NAME": "you"},
                          secrets={"PASS": "hunter22"})
    done = far.wait(greeting["id"])
    assert (done["state"], done["worker"]) == ("succeeded", "shell-1")
    assert far.log(greeting["id"]) == "hello you, ***\ntwo  words\n"
    assert far.run(["sh", "-c", "exit $1", "sh", "7"])["exit_code"] == 7
    made = far.run("echo v=1 >> $KCX_OUTPUT; echo 'v=2=3' >> $KCX_OUTPUT; echo none >> $KCX_OUTPUT")
    assert made["outputs"] == {"v": "2=3"}
    user = far.run(f"echo $KCX_NEED_{made['id']}_v", needs=[made["id"]])
    assert far.log(user["id"]) == "2=3\n"
    long = far.submit("trap '' TERM; echo up; sleep 300")
    wait_until(lambda: far.log(long["id"]) == "up\n")
    far.cancel(long["id"])
    assert far.wait(long["id"])["state"] == "cancelled"
    for field, value in {"steps": [{"name": "a", "command": "false"}], "time_limit_s": 1, "no_output_limit_s": 1, "user": "nobody",
                         "limits": {"cpu_s": 1}, "artifacts": ["x"]}.items():
        refused = far.run(**({} if field == "steps" else {"command": "true"}), **{field: value})
        assert refused["state"] == "failed" and f"knows no {field}" in refused["message"], refused
    assert far.run("true")["state"] == "succeeded"
