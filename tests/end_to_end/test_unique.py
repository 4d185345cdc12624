"""Unique keys: at most one unfinished job per key."""
from concurrent.futures import ThreadPoolExecutor

from kcx_node import processes_matching, unique_sleep, wait_until


def keyed(policy, command="true"):
    return {"command": command, "unique_key": "deploy", "on_conflict": policy}


def test_a_second_job_of_a_key_is_refused_until_the_first_has_ended(node, fifo):
    first = node.submit(f"read x < {fifo.path}", unique_key="deploy")
    problem = node.submit_raw([{"command": "true", "name": "beside"}, keyed("reject")]).problem(409, "conflict")
    assert [error["pointer"] for error in problem["errors"]] == ["/1/unique_key"]
    assert f"job {first['id']}" in problem["detail"]
    assert node.jobs(name="beside") == []
    fifo.release()
    assert node.wait(first["id"])["state"] == "succeeded"
    assert node.run(**keyed("reject"))["state"] == "succeeded"


def test_a_key_is_kept_over_a_crash(make_node):
    node = make_node(slots=1).start()
    blocker = node.submit("sleep 100")
    node.wait_for_state(blocker["id"], "running")
    first = node.submit(**keyed("reject", "sleep 100"))
    node.kill9()
    node.start()
    response = node.submit_raw(keyed("return"))
    assert response.status == 200
    assert response.headers["Location"] == f"/v1/jobs/{first['id']}"
    assert response.json()["id"] == first["id"]


def test_of_many_at_once_one_is_stored(node, fifo):
    spec = keyed("return", f"read x < {fifo.path}")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: node.submit_raw(spec), range(64)))
    assert sorted(answer.status for answer in answers) == [200] * 63 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    fifo.release()


def test_a_newer_job_replaces_a_running_one(node):
    sleep = unique_sleep()
    first = node.submit(**keyed("reject", sleep))
    wait_until(lambda: processes_matching(sleep), what="the first runs")
    second = node.submit(**keyed("replace"))
    older = node.wait(first["id"])
    assert (older["state"], older["reason"]) == ("cancelled", "cancelled_by")
    assert "replaced" in older["message"]
    assert not processes_matching(sleep)
    assert node.wait(second["id"])["state"] == "succeeded"


def test_kcx_submits_with_a_unique_key(node, fifo):
    first = node.cli("submit", "--unique-key", "k", "--", "sh", "-c", f"read x < {fifo.path}")
    assert first.returncode == 0
    again = node.cli("submit", "--unique-key", "k", "--on-conflict", "return", "--", "true")
    assert again.stdout == first.stdout
    refused = node.cli("submit", "--unique-key", "k", "--", "true")
    assert refused.returncode == 4 and "unique key" in refused.stderr
    fifo.release()
