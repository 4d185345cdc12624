"""Submitting jobs over HTTP and seeing what became of them."""
import datetime
import http.client
import os
import re
import signal
import time
import urllib.parse

import pytest

from kcx_node import processes_matching, unique_sleep, wait_until


def states_of(job):
    return [entry["state"] for entry in job["history"]]


def instant(text):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text), text
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# -- a job's way ---------------------------------------------------------------

def test_a_job_is_accepted_run_and_shown(node):
    response = node.submit_raw({"command": "echo hello; echo world >&2", "name": "greet", "metadata": {"a": [1]}})
    assert response.status == 201
    accepted = response.json()
    assert response.headers["Location"] == f"/v1/jobs/{accepted['id']}"
    job = node.wait(accepted["id"])
    assert (job["state"], job["exit_code"], job["signal"], job["attempt"]) == ("succeeded", 0, None, 1)
    assert (job["name"], job["metadata"]) == ("greet", {"a": [1]})
    assert sorted(node.log(job["id"]).split()) == ["hello", "world"]
    assert job["log"] == {"bytes": 12, "cut": False}
    assert states_of(job)[0] == "queued" and states_of(job)[-2:] == ["running", "succeeded"]
    assert instant(job["created_at"]) <= instant(job["started_at"]) <= instant(job["finished_at"])
    assert 0 <= job["duration_s"] < 10


def test_an_argv_command_knows_no_shell(node):
    job = node.run(["printf", "%s|", "a b", "$HOME", "*"])
    assert node.log(job["id"]) == "a b|$HOME|*|"


def test_an_exit_code_fails_the_job_and_is_kept(node):
    job = node.run("exit 3")
    assert (job["state"], job["reason"], job["exit_code"], job["signal"]) == ("failed", "exit_code", 3, None)


def test_a_signal_and_an_exit_code_that_looks_like_one_are_told_apart(node):
    by_signal = node.run("kill -SEGV $$")
    assert (by_signal["state"], by_signal["reason"]) == ("failed", "signal")
    assert (by_signal["signal"], by_signal["exit_code"]) == ("SIGSEGV", None)
    by_code = node.run("exit 137")
    assert (by_code["reason"], by_code["signal"], by_code["exit_code"]) == ("exit_code", None, 137)


def test_a_job_killed_from_outside_shows_the_signal(node):
    sleep = unique_sleep()
    job = node.submit(sleep.split())
    (pid,) = wait_until(lambda: processes_matching(f"{sleep} "), what="the job runs")
    os.kill(pid, signal.SIGKILL)
    assert node.wait(job["id"])["signal"] == "SIGKILL"


@pytest.mark.parametrize("spec", [
    {"command": ["/no/such/program"]},
    {"command": ["true"], "working_dir": "/no/such/directory"},
    {"command": ["/etc/passwd"]},
], ids=["no such command", "no such directory", "no run bit"])
def test_a_command_that_cannot_start_fails_at_once_with_the_systems_words(node, spec):
    job = node.run(**spec)
    assert (job["state"], job["reason"], job["exit_code"]) == ("failed", "spawn_failed", None)
    assert re.search("No such file or directory|Permission denied", job["message"])
    assert job["duration_s"] is None or job["duration_s"] < 1
    assert node.run("true")["state"] == "succeeded", "the worker lives on"


def test_standard_input_is_empty(node):
    job = node.run("cat; echo done")
    assert (job["state"], node.log(job["id"])) == ("succeeded", "done\n")


def test_each_job_has_a_fresh_workspace_that_is_removed(node):
    first, second = (node.run("ls -A | wc -l; pwd; touch left_over") for _ in range(2))
    (count_1, path_1), (count_2, path_2) = (node.log(job["id"]).split() for job in (first, second))
    assert (count_1, count_2) == ("0", "0")
    assert path_1 != path_2 and path_1.startswith(str(node.data))
    wait_until(lambda: node.run(["test", "!", "-e", path_1])["state"] == "succeeded", what=f"{path_1} is removed")


def test_variables_of_the_job_are_set(node):
    job = node.run('printf %s "$GREETING"', env={"GREETING": 'ä "quoted"\nline'})
    assert node.log(job["id"]) == 'ä "quoted"\nline'


# -- time limit and cancel -----------------------------------------------------

def test_a_time_limit_ends_the_whole_tree(node):
    sleep = unique_sleep()
    job = node.run(f"{sleep} & {sleep}", time_limit_s=0.3, cancel_grace_s=0.3)
    assert (job["state"], job["reason"]) == ("timed_out", "time_limit")
    assert processes_matching(sleep) == []


def test_cancelling_a_running_job_ends_the_whole_tree(node):
    sleep = unique_sleep()
    job = node.submit(f"setsid sh -c '{sleep} & {sleep}' & trap '' TERM; echo up; {sleep}", cancel_grace_s=0.3)
    wait_until(lambda: len(processes_matching(sleep)) >= 3, what="the tree is up")
    response = node.cancel(job["id"])
    assert (response.status, response.json()["state"]) == (202, "cancelling")
    assert node.wait(job["id"])["state"] == "cancelled"
    assert processes_matching(sleep) == [], "a job is final only when its tree is gone"
    again = node.cancel(job["id"])
    assert (again.status, again.json()["state"]) == (200, "cancelled")


def test_a_job_that_exits_0_while_being_cancelled_is_cancelled(node):
    sleep = unique_sleep()
    job = node.submit(f"trap 'echo cleaned; exit 0' TERM; echo up; {sleep} & wait", cancel_grace_s=5)
    assert next(node.follow(job["id"])) == "up"
    assert node.cancel(job["id"]).status == 202
    assert node.wait(job["id"])["state"] == "cancelled"
    assert "cleaned" in node.log(job["id"])


def test_cancelling_a_waiting_job_is_immediate(start_node, fifo):
    node = start_node(slots=1)
    first = node.submit(f"read x < {fifo.path}")
    waiting = node.submit("echo ran")
    response = node.cancel(waiting["id"])
    assert (response.status, response.json()["state"]) == (200, "cancelled")
    node.wait_for_state(first["id"], "running")
    fifo.release()
    assert node.wait(first["id"])["state"] == "succeeded"
    assert node.job(waiting["id"])["started_at"] is None


def test_cancelling_a_finished_job_is_a_conflict(node):
    job = node.run("true")
    node.cancel(job["id"]).problem(409, "conflict")


# -- steps ---------------------------------------------------------------------

def test_steps_run_in_order_in_one_workspace(node):
    job = node.run(steps=[{"name": "write", "command": "echo one > file"},
                          {"name": "read", "command": ["cat", "file"]}])
    assert job["state"] == "succeeded" and job["command"] is None
    assert [(s["index"], s["name"], s["state"], s["exit_code"]) for s in job["steps"]] == [
        (0, "write", "succeeded", 0), (1, "read", "succeeded", 0)]
    assert "one" in node.log(job["id"])


def test_a_failed_step_skips_the_rest_but_not_what_runs_always(node):
    job = node.run(steps=[{"name": "tolerated", "command": "exit 1", "continue_on_error": True},
                          {"name": "breaks", "command": "exit 7"},
                          {"name": "left out", "command": "echo never"},
                          {"name": "clean", "command": "echo cleaned", "always": True}])
    assert [s["state"] for s in job["steps"]] == ["failed", "failed", "skipped", "succeeded"]
    assert (job["state"], job["reason"], job["exit_code"]) == ("failed", "exit_code", 7)
    log = node.log(job["id"])
    assert "cleaned" in log and "never" not in log.replace("echo never", "")


# -- logs ----------------------------------------------------------------------

def test_a_log_can_be_followed_while_the_job_runs(node, fifo):
    job = node.submit(f"echo first; read x < {fifo.path}; echo second")
    lines = node.follow(job["id"])
    assert next(lines) == "first"
    assert node.job(job["id"])["state"] == "running"
    fifo.release()
    assert list(lines) == ["second"]


def test_a_log_is_served_by_range_and_by_tail(node):
    job = node.run("seq 1 1000")
    whole = node.log(job["id"])
    assert whole == "".join(f"{n}\n" for n in range(1, 1001))
    part = node.request("GET", f"/v1/jobs/{job['id']}/log", headers={"Range": "bytes=10-19"})
    assert (part.status, part.body.decode()) == (206, whole[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{len(whole)}"
    assert node.log(job["id"], tail=3) == "998\n999\n1000\n"
    beyond = node.request("GET", f"/v1/jobs/{job['id']}/log", headers={"Range": "bytes=999999-"})
    assert beyond.status == 416


def test_ten_megabytes_in_one_line_arrive_whole(node):
    job = node.run("head -c 10000000 /dev/zero | tr '\\0' a", log_limit_bytes=20_000_000)
    assert job["log"] == {"bytes": 10_000_000, "cut": False}
    assert node.log(job["id"]) == "a" * 10_000_000


# -- order, lists, waiting -----------------------------------------------------

def test_jobs_of_one_slot_run_in_the_order_of_submission(start_node, tmp_path):
    node = start_node(slots=1)
    out = tmp_path / "order"
    jobs = node.submit_many([{"command": f"echo {n} >> {out}"} for n in range(20)])
    assert [job["id"] for job in jobs] == sorted(job["id"] for job in jobs)
    node.wait(jobs[-1]["id"])
    assert out.read_text().split() == [str(n) for n in range(20)]


def test_a_higher_priority_goes_first(start_node, tmp_path, fifo):
    node = start_node(slots=1)
    out = tmp_path / "order"
    gate = node.submit(f"read x < {fifo.path}")
    node.wait_for_state(gate["id"], "running")
    jobs = node.submit_many([{"command": f"echo {p} >> {out}", "priority": p} for p in (0, 5, -5)])
    fifo.release()
    for job in jobs:
        node.wait(job["id"])
    assert out.read_text().split() == ["5", "0", "-5"]


def test_an_array_is_stored_whole_or_not_at_all(node):
    before = len(node.jobs())
    response = node.submit_raw([{"command": "true"}, {"command": 7}, {"command": "true"}])
    problem = response.problem(422, "invalid_input")
    assert problem["errors"][0]["pointer"] == "/1/command"
    assert len(node.jobs()) == before


def test_lists_are_newest_first_filtered_and_paged(node):
    jobs = node.submit_many([{"command": "true", "project": "even" if n % 2 == 0 else "odd"} for n in range(7)])
    for job in jobs:
        node.wait(job["id"])
    ids = [job["id"] for job in jobs]
    assert [job["id"] for job in node.jobs(limit=2)] == ids[::-1]
    assert [job["id"] for job in node.jobs(project="odd", limit=2)] == ids[1::2][::-1]
    assert [job["id"] for job in node.jobs(state="succeeded,failed")] == ids[::-1]
    assert node.jobs(state="failed") == []
    page = node.request("GET", "/v1/jobs?limit=2")
    assert 'rel="next"' in page.headers["Link"] and page.json()["next_cursor"]


@pytest.mark.timing
def test_a_long_poll_ends_when_its_time_is_over_and_at_once_when_the_job_ends(node, fifo):
    job = node.submit(f"read x < {fifo.path}")
    node.wait_for_state(job["id"], "running")
    started = time.monotonic()
    assert node.get(f"/v1/jobs/{job['id']}?wait=300ms")["state"] == "running"
    assert 0.25 <= time.monotonic() - started < 5
    fifo.release()
    started = time.monotonic()
    assert node.get(f"/v1/jobs/{job['id']}?wait=60s")["state"] == "succeeded"
    assert time.monotonic() - started < 10


def test_an_unchanged_job_is_answered_with_304(node):
    job = node.run("true")
    first = node.request("GET", f"/v1/jobs/{job['id']}")
    again = node.request("GET", f"/v1/jobs/{job['id']}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


def test_the_node_tells_of_itself_its_workers_and_its_counts(node):
    node.run("true")
    facts = node.get("/v1/node")
    assert facts["pid"] == node.pid and facts["slots"] == 2 and facts["state"] == "running"
    assert [w["name"] for w in node.workers()] == ["node/1", "node/2"]
    assert "succeeded" in str(node.get("/v1/stats"))


# -- inspection port -----------------------------------------------------------

def test_the_inspection_port_shows_every_actor(node):
    node.run("true")
    names = {actor["name"] for actor in node.actors()}
    assert {"database", "reader", "dispatcher", "worker", "scheduler", "inspector"} <= names
    for actor in node.actors():
        assert actor["received"] >= actor["handled"] >= 0 and actor["mailbox"] >= 0
    assert len(node.actors("worker")) == 2


def test_the_inspection_port_serves_a_page_metrics_and_health(node):
    page = node.request("GET", "/", base=node.inspect, token=False)
    assert page.status == 200 and b"<html" in page.body.lower()
    metrics = node.request("GET", "/metrics", base=node.inspect, token=False)
    assert metrics.status == 200 and metrics.headers["Content-Type"].startswith("text/plain")
    assert b"# TYPE kcx_" in metrics.body
    assert node.request("GET", "/healthz", base=node.inspect, token=False).status == 200


def test_a_long_poll_whose_client_is_gone_frees_its_place(start_node):
    node = start_node(slots=1)
    job = node.submit(unique_sleep())
    address = urllib.parse.urlsplit(node.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("GET", f"/v1/jobs/{job['id']}?wait=5m", headers={"Authorization": f"Bearer {node.token}"})
    waiting = lambda: node.actors("http_bridge")[0]["status"]["waiting"]
    wait_until(lambda: waiting() == 1, what="the poll waits")
    connection.close()
    wait_until(lambda: waiting() == 0, 10, what="the poll has ended")
