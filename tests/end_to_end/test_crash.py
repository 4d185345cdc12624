"""kill -9 of the node, and what a restart finds."""
import json
import os
import signal
import time

import pytest

from kcx_node import headless, headless_processes, processes_matching, unique_sleep, wait_until


def test_a_running_job_is_interrupted_by_a_crash_of_the_node(start_node):
    node = start_node()
    sleep = unique_sleep()
    job = node.submit(f"echo begun; {sleep}")
    assert next(node.follow(job["id"])) == "begun"
    node.kill9()
    wait_until(lambda: processes_matching(sleep) == [], what="the job's tree is gone without a node")
    node.start()
    job = node.wait(job["id"])
    assert (job["state"], job["reason"], job["attempt"]) == ("interrupted", "node_restarted", 1)
    assert job["finished_at"] is not None
    assert node.log(job["id"]).startswith("begun"), "the log up to the crash is kept"
    assert node.run("true")["state"] == "succeeded"


def test_a_job_that_asks_for_it_is_queued_again_and_never_runs_twice_at_once(start_node, tmp_path):
    node = start_node()
    job = node.submit(f"cd {tmp_path}; exec 9> lock; flock -n 9 || echo twice >> twice; echo run >> runs; "
                      "test $(wc -l < runs) -ge 2 || sleep 600", on_interrupt="requeue")
    runs = tmp_path / "runs"
    wait_until(lambda: runs.exists() and runs.read_text() == "run\n", what="the first run")
    node.kill9()
    node.start()
    job = node.wait(job["id"])
    assert (job["state"], job["interrupts"]) == ("succeeded", 1)
    assert runs.read_text() == "run\nrun\n"
    assert not (tmp_path / "twice").exists()


def test_a_job_that_kills_its_node_is_not_queued_again_for_ever(start_node, tmp_path):
    node = start_node(slots=1)
    runs = tmp_path / "runs"
    job = node.submit(f"echo run >> {runs}; sleep 600", on_interrupt="requeue")
    for count in range(1, 5):
        wait_until(lambda: runs.exists() and len(runs.read_text().split()) == count, what=f"run {count}")
        node.kill9()
        node.start()
    job = node.wait(job["id"])
    assert (job["state"], job["reason"], job["interrupts"]) == ("interrupted", "node_restarted", 3)
    assert len(runs.read_text().split()) == 4, "three times again by default"


def test_queued_jobs_keep_their_order_over_a_crash(start_node, tmp_path):
    node = start_node(slots=1)
    out = tmp_path / "order"
    blocker = node.submit("sleep 600")
    node.wait_for_state(blocker["id"], "running")
    jobs = node.submit_many([{"command": f"echo {n} >> {out}"} for n in range(15)])
    node.kill9()
    node.start()
    node.wait(jobs[-1]["id"])
    assert out.read_text().split() == [str(n) for n in range(15)]
    assert node.job(blocker["id"])["state"] == "interrupted"


def test_ids_are_not_used_again_after_a_crash(start_node):
    node = start_node()
    before = [node.run("true")["id"] for _ in range(3)]
    node.kill9()
    node.start()
    assert node.submit("true")["id"] > max(before)


def test_a_cancel_that_was_under_way_is_not_forgotten(start_node):
    node = start_node()
    sleep = unique_sleep()
    job = node.submit(f"trap '' TERM; echo up; {sleep}; {sleep}", cancel_grace_s=60)
    assert next(node.follow(job["id"])) == "up"
    assert node.cancel(job["id"]).status == 202
    node.kill9()
    node.start()
    assert node.wait(job["id"])["state"] == "cancelled"
    wait_until(lambda: processes_matching(sleep) == [])


def test_a_finished_job_and_its_log_are_the_same_after_a_crash(start_node):
    node = start_node()
    job = node.run("seq 1 100; exit 4")
    log = node.log(job["id"])
    node.kill9()
    node.start()
    assert node.job(job["id"]) == job
    assert node.log(job["id"]) == log


@pytest.mark.parametrize("place", ["plain", "linked"])
def test_what_dropped_its_mark_is_ended_before_the_job_runs_again(start_node, tmp_path, place):
    (tmp_path / "plain").mkdir()
    (tmp_path / "linked").symlink_to("plain")
    node = start_node(slots=1, data=tmp_path / place / "data")
    sleep = unique_sleep()
    job = node.submit("env -i setsid $SLEEP & echo up; wait", env={"SLEEP": sleep}, on_interrupt="requeue")
    assert next(node.follow(job["id"])) == "up"
    left = wait_until(lambda: processes_matching(sleep), what="the process is up")
    runner = node.workers()[0]["runner_pid"]
    # Node and runner at one moment: neither can end the other's processes.
    os.kill(node.pid, signal.SIGSTOP)
    os.kill(runner, signal.SIGKILL)
    node.kill9()
    node.start()
    assert not set(left) & set(processes_matching(sleep)), "never two live copies"
    job = node.wait_for_state(job["id"], "running")
    assert job["attempt"] == 2


def test_what_lost_its_main_thread_is_ended_before_the_job_runs_again(start_node):
    node = start_node(slots=1)
    name = unique_sleep()
    job = node.submit(["sh", "-c", '"$@" & wait', "sh"] + headless(name), on_interrupt="requeue")
    left = wait_until(lambda: headless_processes(name), what="the main thread has ended")
    runner = node.workers()[0]["runner_pid"]
    os.kill(node.pid, signal.SIGSTOP)
    os.kill(runner, signal.SIGKILL)
    node.kill9()
    assert set(left) <= set(processes_matching(name)), "nobody is there to end it"
    found = {each["check"]: each for each in json.loads(node.cli("--json", "node", "doctor").stdout)["checks"]}
    assert str(left[0]) in found["left-over processes"]["detail"].split(), found
    node.start()
    assert not set(left) & set(processes_matching(name)), "never two live copies"
    job = node.wait_for_state(job["id"], "running")
    assert job["attempt"] == 2


def test_a_node_that_lost_a_runner_ends_what_lost_its_main_thread(start_node):
    node = start_node(slots=1)
    name = unique_sleep()
    job = node.submit(["sh", "-c", '"$@" & wait', "sh"] + headless(name))
    wait_until(lambda: headless_processes(name), what="the main thread has ended")
    os.kill(node.workers()[0]["runner_pid"], signal.SIGKILL)
    assert node.wait(job["id"])["reason"] == "worker_crashed"
    assert processes_matching(name) == []
    assert node.run("true")["state"] == "succeeded"
    assert node.terminate() == 0


# Whoever looks for it finds a process that is gone already: each starts its successor and ends.
CHAIN = """import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
beat, stop = sys.argv[1:]
while not os.path.exists(stop):
    if os.fork():
        os._exit(0)
    os.setsid()
    os.utime(beat)
"""


class Chain:
    """A chain of short-lived processes in sessions of their own, started by a job."""

    def __init__(self, directory):
        self.beat, self.stop = directory / "beat", directory / "stop"
        self.beat.touch()
        self.born = self.beat.stat().st_mtime_ns
        self.command = f'cd /; setsid /usr/bin/python3 -c "$CHAIN" {self.beat} {self.stop} & sleep 1000'

    def is_up(self):
        return self.beat.stat().st_mtime_ns > self.born

    def lives(self):
        seen = self.beat.stat().st_mtime_ns
        time.sleep(0.2)  # Hundreds of its processes; what does not happen cannot be awaited.
        return self.beat.stat().st_mtime_ns > seen


@pytest.fixture
def chain(tmp_path):
    chain = Chain(tmp_path)
    yield chain
    chain.stop.touch()


@pytest.mark.parametrize("on_interrupt,state", [("fail", "interrupted"), ("requeue", "queued")])
@pytest.mark.parametrize("time_around", range(3))
def test_a_chain_of_forks_is_ended_before_a_job_runs(start_node, chain, on_interrupt, state, time_around):
    node = start_node(slots=1)
    job = node.submit(chain.command, env={"CHAIN": CHAIN}, on_interrupt=on_interrupt)
    wait_until(chain.is_up, what="the chain runs")
    node.request("POST", "/v1/queues/default/pause")
    runner = node.workers()[0]["runner_pid"]
    os.kill(node.pid, signal.SIGSTOP)
    os.kill(runner, signal.SIGKILL)
    node.kill9()
    assert chain.lives(), "nobody is there to end it"
    node.start()
    assert not chain.lives()
    assert node.job(job["id"])["state"] == state


def test_a_node_that_lost_a_runner_ends_a_chain_of_forks(start_node, chain):
    node = start_node(slots=1)
    job = node.submit(chain.command, env={"CHAIN": CHAIN})
    wait_until(chain.is_up, what="the chain runs")
    os.kill(node.workers()[0]["runner_pid"], signal.SIGKILL)
    assert node.wait(job["id"])["reason"] == "worker_crashed"
    assert not chain.lives()


def test_an_older_database_that_is_put_back_gives_no_id_twice(start_node):
    node = start_node(slots=1)
    node.run("echo first")
    assert node.terminate() == 0
    backup = (node.data / "kcx.db").read_bytes()
    node.start()
    later = [node.run("echo later")["id"] for _ in range(3)]
    assert node.terminate() == 0
    for name in ("kcx.db", "kcx.db-wal", "kcx.db-shm"):
        (node.data / name).unlink(missing_ok=True)
    (node.data / "kcx.db").write_bytes(backup)
    node.start()
    job = node.run("echo new")
    assert job["id"] > max(later)
    assert job["state"] == "succeeded" and node.log(job["id"]) == "new\n"
