"""Groups: jobs that run one after another, or at most N at once."""
import re

import pytest

from kcx_node import processes_matching, unique_sleep, wait_until


def spans(path):
    """The largest number of jobs at once, and their order of start, from lines "+name" and "-name"."""
    now = most = 0
    order = []
    for line in path.read_text().split():
        now += 1 if line[0] == "+" else -1
        most = max(most, now)
        if line[0] == "+":
            order.append(line[1:])
    return most, order


def traced(path, name, seconds=0.05):
    return f"echo +{name} >> {path}; sleep {seconds}; echo -{name} >> {path}"


def test_jobs_of_a_group_run_one_by_one_in_order(start_node, tmp_path):
    node = start_node(slots=4)
    trace = tmp_path / "trace"
    jobs = node.submit_many([{"command": traced(trace, i), "group": "deploy", "priority": i} for i in range(12)])
    assert {node.wait(job["id"])["state"] for job in jobs} == {"succeeded"}
    assert spans(trace) == (1, [str(i) for i in range(12)])


def test_a_limit_lets_as_many_run_at_once(start_node, tmp_path):
    node = start_node(slots=4)
    trace = tmp_path / "trace"
    jobs = node.submit_many([{"command": traced(trace, i, 0.5), "group": "g", "group_limit": 3} for i in range(9)])
    assert {node.wait(job["id"])["state"] for job in jobs} == {"succeeded"}
    assert spans(trace)[0] == 3


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_one_claim_takes_as_many_of_a_group_as_its_limit_admits(start_node, limit):
    node = start_node(slots=1)
    (worker,) = node.workers()
    node.post(f"/v1/workers/{worker['name']}/cordon")
    jobs = [job["id"] for job in node.submit_many([{"command": "true", "group": "g", "group_limit": limit}] * 50)]
    taken = node.post("/v1/claims", {"max": 60})["items"]
    assert [item["id"] for item in taken] == jobs[:limit]
    assert node.post("/v1/claims", {"max": 60})["items"] == []
    if limit < 50:
        held = node.get(f"/v1/jobs/{jobs[limit]}/why")["reasons"][0]
        assert (held["kind"], held["held"], held["limit"]) == ("group", limit, limit)
        node.post(f"/v1/claims/{taken[-1]['token']}/complete", {"exit_code": 0})
        assert [item["id"] for item in node.post("/v1/claims?wait=20s", {"max": 60})["items"]] == [jobs[limit]]
    if limit == 7:  # a node that was started anew knows them all, too
        node.restart()
        node.post(f"/v1/workers/{worker['name']}/cordon")
        for item in taken[:3]:
            node.post(f"/v1/claims/{item['token']}/complete", {"exit_code": 0})
        assert [item["id"] for item in node.post("/v1/claims?wait=20s", {"max": 60})["items"]] == jobs[8:11]


def test_idle_slots_get_several_jobs_of_a_group_at_once(start_node):
    node = start_node(slots=4)
    jobs = node.submit_many([{"command": "sleep 1000", "group": "g", "group_limit": 3}] * 5)
    for job in jobs[:3]:
        node.wait_for_state(job["id"], "running")
    assert [node.job(job["id"])["state"] for job in jobs[3:]] == ["queued"] * 2
    (dispatcher,) = node.actors("dispatcher")
    assert dispatcher["status"]["lost_races"] == 0
    node.cancel(jobs[0]["id"])
    node.wait_for_state(jobs[3]["id"], "running")
    node.post("/v1/jobs/cancel", {"group": "g"})


def test_a_full_group_delays_nobody_else_and_nothing_spins(start_node, fifo):
    node = start_node(slots=2)
    blocker = node.submit(f"read x < {fifo.path}", group="g")
    node.wait_for_state(blocker["id"], "running")
    waiting = node.submit_many([{"command": "true", "group": "g"}] * 200)
    others = node.submit_many([{"command": "true"}] * 10 + [{"command": "true", "group": "h"}] * 5)
    assert {node.wait(job["id"])["state"] for job in others} == {"succeeded"}
    (dispatcher,) = node.actors("dispatcher")
    assert dispatcher["status"]["lost_races"] < 30
    handled = dispatcher["handled"]
    assert node.run("true")["state"] == "succeeded"
    assert node.actors("dispatcher")[0]["handled"] - handled < 50
    assert {job["state"] for job in node.jobs(group="g", state="queued")} == {"queued"}
    fifo.release()
    assert {node.wait(job["id"])["state"] for job in waiting} == {"succeeded"}


def test_a_head_that_ends_without_running_does_not_hold_up_its_group(node, fifo):
    blocker = node.submit(f"read x < {fifo.path}", group="g")
    node.wait_for_state(blocker["id"], "running")
    head = node.submit("true", group="g")
    impatient = node.submit("true", group="g", wait_limit_s=0.1)
    last = node.submit("true", group="g")
    assert node.cancel(head["id"]).status == 200
    assert node.wait(impatient["id"])["state"] == "timed_out"
    fifo.release()
    assert node.wait(last["id"])["state"] == "succeeded"


def test_a_crash_leaks_no_place_of_a_group(make_node):
    node = make_node().start()
    first = node.submit("echo up; sleep 100", group="g")
    second = node.submit("true", group="g")
    wait_until(lambda: "up" in node.log(first["id"]), what="the first has started for certain")
    node.kill9()
    node.start()
    assert node.wait(first["id"])["state"] == "interrupted"
    assert node.wait(second["id"])["state"] == "succeeded"


def test_a_new_dispatcher_goes_on_with_the_groups(start_node, fifo):
    node = start_node(fault_injection=True)
    first = node.submit(f"read x < {fifo.path}", group="g")
    node.wait_for_state(first["id"], "running")
    waiting = node.submit_many([{"command": "true", "group": "g"}] * 3)
    node.inject_fault("dispatcher")
    wait_until(lambda: node.actors("dispatcher") and node.actors("dispatcher")[0]["restarts"] == 1,
               what="a new dispatcher")
    assert node.run("true")["state"] == "succeeded"
    assert {node.job(job["id"])["state"] for job in waiting} == {"queued"}
    fifo.release()
    assert {node.wait(job["id"])["state"] for job in waiting} == {"succeeded"}


def test_a_newer_job_supersedes_the_waiting_ones(node, fifo):
    running = node.submit(f"read x < {fifo.path}", group="g")
    node.wait_for_state(running["id"], "running")
    older = node.submit_many([{"command": "true", "group": "g"}] * 3)
    newest = node.submit("true", group="g", supersede="queued")
    for job in older:
        end = node.wait(job["id"])
        assert (end["state"], end["reason"]) == ("cancelled", "cancelled_by")
        assert re.search(rf"superseded by job {newest['id']}\b", end["message"])
    assert node.job(running["id"])["state"] == "running"
    fifo.release()
    assert node.wait(newest["id"])["state"] == "succeeded"
    assert node.job(running["id"])["state"] == "succeeded"


def test_a_newer_job_supersedes_a_running_one_and_starts_when_it_is_gone(node):
    sleep = unique_sleep()
    older = node.submit(sleep, group="g")
    wait_until(lambda: processes_matching(sleep), what="the older one runs")
    newest = node.submit("true", group="g", supersede="running")
    assert node.wait(newest["id"])["state"] == "succeeded"
    assert node.job(older["id"])["state"] == "cancelled"
    assert not processes_matching(sleep)


def test_kcx_submits_and_lists_jobs_of_a_group(node):
    job = node.cli("submit", "--group", "g", "--group-limit", 2, "--supersede", "queued", "--", "true").stdout.strip()
    assert node.wait(int(job))["group"] == "g"
    node.run("true")
    listed = node.cli("--json", "list", "--group", "g")
    assert f'"id": {job},' in listed.stdout or f'"id":{job},' in listed.stdout
    assert len(node.jobs(group="g")) == 1


def test_kcx_cancels_all_of_a_group_and_nothing_else(node, fifo):
    first = node.submit(f"read x < {fifo.path}", group="g")
    node.wait_for_state(first["id"], "running")
    waiting = [node.submit("true", group="g")["id"] for _ in range(2)]
    other = node.submit("true", run_at="2999-01-01T00:00:00Z")
    done = node.cli("cancel", "--group", "g", "--state", "queued")
    assert done.returncode == 0 and "2 jobs cancelled" in done.stdout, done
    assert [node.job(job)["state"] for job in waiting] == ["cancelled"] * 2
    fifo.release()
    assert node.wait(first["id"])["state"] == "succeeded"
    assert node.job(other["id"])["state"] == "scheduled"


def test_why_names_the_group(start_node, fifo):
    node = start_node(slots=4)
    jobs = [node.submit(f"read x < {fifo.path}", group="deploy") for _ in range(3)]
    node.wait_for_state(jobs[0]["id"], "running")
    why = node.get(f"/v1/jobs/{jobs[2]['id']}/why")
    (reason,) = why["reasons"]
    assert (reason["kind"], reason["group"], reason["held"], reason["limit"]) == ("group", "deploy", 1, 1), why
    assert reason["next"] == jobs[1]["id"] and "deploy" in why["text"]
    for job in jobs:
        node.wait_for_state(job["id"], "running")
        fifo.release()
        assert node.wait(job["id"])["state"] == "succeeded"
