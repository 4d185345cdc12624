"""Actors that throw and runners that die: who notices, and what becomes of the job."""
import os
import signal

import pytest

from kcx_node import processes_matching, unique_sleep, wait_until


def worker_of(node, job_id):
    return next(w for w in node.workers() if w["job"] == job_id)


def assert_failed_once_by_its_worker(node, job, sleep):
    job = node.wait(job["id"])
    assert (job["state"], job["reason"]) == ("failed", "worker_crashed")
    assert processes_matching(sleep) == [], "marked only when the tree is gone"
    finals = [entry for entry in job["history"] if entry["state"] == "failed"]
    assert len(finals) == 1, job["history"]
    jobs = [node.run("true") for _ in range(4)]
    assert {j["state"] for j in jobs} == {"succeeded"}, "a new worker takes the next job"
    assert node.job(job["id"]) == job


def start_a_tree(node):
    sleep = unique_sleep()
    job = node.submit(f"setsid sh -c '{sleep} & {sleep}' & trap '' TERM; echo up; {sleep}", cancel_grace_s=0.5)
    assert next(node.follow(job["id"])) == "up"
    wait_until(lambda: len(processes_matching(sleep)) >= 3, what="the tree is up")
    return job, sleep


def test_a_worker_that_throws_fails_its_job_exactly_once(start_node):
    node = start_node(slots=1, fault_injection=True)
    job, sleep = start_a_tree(node)
    node.inject_fault("worker", 1)
    assert_failed_once_by_its_worker(node, job, sleep)


def test_a_killed_runner_fails_its_job_exactly_once(start_node):
    node = start_node(slots=1)
    job, sleep = start_a_tree(node)
    os.kill(worker_of(node, job["id"])["runner_pid"], signal.SIGKILL)
    assert_failed_once_by_its_worker(node, job, sleep)


def test_jobs_that_kill_their_runner_never_end_the_node(start_node):
    node = start_node(slots=2)
    bystander = node.submit(unique_sleep())
    node.wait_for_state(bystander["id"], "running")
    job = node.submit("kill -9 $PPID; sleep 60", max_attempts=7, backoff_s=0, retry_on=["worker_crashed"])
    job = node.wait(job["id"], timeout=90)
    assert (job["state"], job["reason"], job["attempt"]) == ("failed", "worker_crashed", 7)
    assert node.job(bystander["id"])["state"] == "running", "others are not disturbed"
    assert node.run("true")["state"] == "succeeded"


def test_a_node_with_a_stopped_runner_can_still_be_stopped(start_node):
    node = start_node(slots=1)
    sleep = unique_sleep()
    job = node.submit(f"echo up; {sleep}")
    assert next(node.follow(job["id"])) == "up"
    os.kill(worker_of(node, job["id"])["runner_pid"], signal.SIGSTOP)
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping:" in node.output(), what="the drain has begun")
    node.process.send_signal(signal.SIGTERM)
    assert node.ended(60) == 0
    assert processes_matching(sleep) == []


def test_a_stopped_runner_is_given_up_and_its_job_with_it(start_node, fifo):
    node = start_node(slots=1)
    sleep = unique_sleep()
    job = node.submit(f"echo up; read x < {fifo.path}; kill -STOP $PPID; $SLEEP", env={"SLEEP": sleep})
    assert next(node.follow(job["id"])) == "up"
    fifo.release()
    wait_until(lambda: processes_matching(sleep), what="the runner is stopped")
    assert node.request("POST", f"/v1/jobs/{job['id']}/cancel").status == 202
    job = node.wait(job["id"], timeout=120)
    assert job["state"] == "cancelled"
    assert processes_matching(sleep) == []
    assert node.run("true")["state"] == "succeeded"


def test_signals_that_mean_nothing_are_ignored(node):
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
        node.process.send_signal(number)
    assert node.run("true")["state"] == "succeeded"
    assert node.process.poll() is None
    assert node.request("GET", "/readyz").status == 200


def test_a_killed_idle_runner_is_replaced(start_node):
    node = start_node(slots=1)
    node.run("true")
    pid = node.workers()[0]["runner_pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: node.workers()[0]["runner_pid"] not in (pid, None), what="a new runner")
    assert node.run("true")["state"] == "succeeded"


def test_a_job_that_asks_for_it_is_queued_again_when_its_worker_crashes(start_node, tmp_path):
    node = start_node(slots=1, fault_injection=True)
    runs = tmp_path / "runs"
    job = node.submit(f"echo run >> {runs}; test $(wc -l < {runs}) -ge 2 || sleep 600", on_interrupt="requeue",
                      cancel_grace_s=0.2)
    wait_until(lambda: runs.exists() and runs.read_text() == "run\n", what="the first run")
    node.inject_fault("worker", 1)
    job = node.wait(job["id"])
    assert (job["state"], job["interrupts"]) == ("succeeded", 1)


def test_a_worker_supervisor_that_throws_leaves_nothing_of_its_jobs(start_node):
    node = start_node(slots=1, fault_injection=True)
    job, sleep = start_a_tree(node)
    node.inject_fault("worker_supervisor")
    assert_failed_once_by_its_worker(node, job, sleep)


def test_a_worker_supervisor_that_throws_leaves_no_files_of_its_jobs(start_node):
    node = start_node(slots=2, fault_injection=True)
    jobs = [node.submit("touch file; echo up; sleep 600") for _ in range(2)]
    for job in jobs:
        assert next(node.follow(job["id"])) == "up"
    node.inject_fault("worker_supervisor")
    for job in jobs:
        assert node.wait(job["id"])["reason"] == "worker_crashed"
    wait_until(lambda: list((node.data / "workspaces").iterdir()) == [], what="the workspaces are removed")
    assert node.run("true")["state"] == "succeeded"


def test_other_workers_go_on_when_one_crashes(start_node, fifo):
    node = start_node(slots=2, fault_injection=True)
    steady = node.submit(f"read x < {fifo.path}; echo steady")
    node.wait_for_state(steady["id"], "running")
    job, sleep = start_a_tree(node)
    index = int(worker_of(node, job["id"])["name"].rsplit("/", 1)[1])
    node.inject_fault("worker", index)
    assert node.wait(job["id"])["reason"] == "worker_crashed"
    assert processes_matching(sleep) == []
    fifo.release()
    assert node.wait(steady["id"])["state"] == "succeeded"


@pytest.mark.parametrize("actor", ["reader", "dispatcher", "scheduler", "log_hub", "database", "http_bridge",
                                   "inspector", "worker_supervisor"])
def test_an_actor_that_throws_is_replaced_and_the_node_goes_on(start_node, actor):
    node = start_node(fault_injection=True)
    assert node.run("true")["state"] == "succeeded"
    before = {a["id"] for a in node.actors(actor)}
    assert before, f"no actor is named {actor}"
    node.inject_fault(actor)

    def replaced():
        try:
            after = {a["id"] for a in node.actors(actor)}
        except (OSError, AssertionError):
            return False  # the inspection port itself may be the one that restarts
        return len(after) == len(before) and after != before
    wait_until(replaced, what=f"a new {actor}")

    def submitted():
        response = node.submit_raw({"command": "echo again"})
        return response.json() if response.status == 201 else None
    job = wait_until(submitted, what="a submission is accepted again")
    assert node.wait(job["id"])["state"] == "succeeded"
    assert node.log(job["id"]) == "again\n"


def test_a_reader_that_throws_disturbs_no_running_job(start_node, fifo):
    node = start_node(fault_injection=True)
    job = node.submit(f"read x < {fifo.path}; echo unharmed")
    node.wait_for_state(job["id"], "running")
    before = {a["id"] for a in node.actors("reader")}
    node.inject_fault("reader")
    wait_until(lambda: {a["id"] for a in node.actors("reader")} != before, what="a new reader")
    fifo.release()
    assert node.wait(job["id"])["state"] == "succeeded"
    assert node.log(job["id"]) == "unharmed\n"


def test_too_many_restarts_end_the_node_with_a_clear_error(start_node):
    node = start_node(fault_injection=True)

    def inject():
        try:
            node.request("POST", "/v1/node/faults", {"actor": "scheduler", "index": 1}, timeout=5)
        except OSError:
            pass  # the node is ending
        return node.process.poll() is not None
    wait_until(inject, what="the node gives up")
    assert node.ended() not in (0, -signal.SIGABRT, -signal.SIGSEGV)
    assert "scheduler" in node.output() and "restart" in node.output()


def test_faults_cannot_be_injected_unless_the_node_allows_it(node):
    response = node.request("POST", "/v1/node/faults", {"actor": "worker", "index": 1})
    assert response.status in (403, 404)
    response.problem(response.status)
