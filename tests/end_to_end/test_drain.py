"""Drain and stop: who asks, how long it may take, and what becomes of the jobs that run."""
import signal
import subprocess
import time

import pytest

from kcx_node import BUILD, processes_matching, unique_sleep, wait_until


def start_running(node, command="echo up; {sleep}", **spec):
    """A job that has written its first line, and the sleep that it runs."""
    sleep = unique_sleep()
    job = node.submit(command.format(sleep=sleep), **spec)
    assert next(node.follow(job["id"])) == "up"
    wait_until(lambda: node.job(job["id"])["started_at"], what="its start is stored")
    return job, sleep


def drain(node):
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 503, what="the drain")


def test_a_drain_that_is_long_enough_lets_the_job_succeed(start_node):
    node = start_node(drain_timeout="60s")
    job, _ = start_running(node, "echo up; sleep 2; echo done")
    began = time.monotonic()
    drain(node)
    node.submit_raw({"command": "true"}).problem(503, "draining")
    assert node.submit_raw({"command": "true"}).headers["Retry-After"]
    assert node.get("/v1/node")["state"] == "draining"
    assert node.request("GET", "/readyz", token=False).status == 503
    assert node.ended() == 0
    assert time.monotonic() - began < 20
    node.start()
    after = node.job(job["id"])
    assert (after["state"], after["attempt"], after["interrupts"]) == ("succeeded", 1, 0)
    assert node.log(job["id"]) == "up\ndone\n"


def test_who_follows_a_job_hears_its_end_in_a_drain(start_node, fifo):
    node = start_node(drain_timeout="60s")
    command = [BUILD / "kcx", "--data", node.data, "run", "--", "sh", "-c", f"echo up; read x < {fifo.path}; echo down"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout.readline() == "up\n"
        drain(node)
        fifo.release()
        assert follower.stdout.read() == "down\n"
        assert follower.wait(timeout=30) == 0
    assert node.ended() == 0


def test_a_drain_that_is_too_short_interrupts_by_policy_and_ends_in_time(start_node):
    node = start_node(drain_timeout="1s", stop_grace="1s")
    failing, sleep_1 = start_running(node)
    again, sleep_2 = start_running(node, "echo up; test $KCX_ATTEMPT -ge 2 || {sleep}", on_interrupt="requeue")
    began = time.monotonic()
    assert node.terminate() == 0
    assert time.monotonic() - began < 8
    assert processes_matching(sleep_1) == processes_matching(sleep_2) == []
    node.start()
    failing, again = node.wait(failing["id"]), node.wait(again["id"])
    assert (failing["state"], failing["reason"]) == ("interrupted", "node_stopped")
    assert (again["state"], again["attempt"]) == ("succeeded", 2)
    assert [e["reason"] for e in again["history"] if e["state"] == "queued"] == [None, "requeued"]


def test_a_clean_drain_uses_up_no_attempt(start_node):
    node = start_node(slots=1, drain_timeout="0s", stop_grace="1s")
    job, _ = start_running(node, "echo up; test $KCX_ATTEMPT -ge 2 || {sleep}; exit 5", on_interrupt="requeue",
                           max_attempts=2, backoff_s=0)
    assert node.terminate() == 0
    node.start()
    job = node.wait(job["id"])
    # The drained one, and then both that the job asked for.
    assert (job["state"], job["attempt"], job["exit_code"]) == ("failed", 3, 5)


def test_a_second_signal_ends_the_drain_now(start_node):
    node = start_node(drain_timeout="1h", stop_grace="1s")
    job, sleep = start_running(node, "trap '' TERM; echo up; {sleep}; {sleep}")
    drain(node)
    began = time.monotonic()
    assert node.terminate() == 0
    assert time.monotonic() - began < 8
    assert processes_matching(sleep) == []
    node.start()
    job = node.job(job["id"])
    assert (job["state"], job["reason"], job["attempt"]) == ("interrupted", "node_stopped", 1)


def test_a_job_that_is_being_cancelled_ends_as_cancelled_in_a_stop(start_node):
    node = start_node(drain_timeout="0s", stop_grace="0.5s")
    job, sleep = start_running(node, "trap '' TERM; echo up; {sleep}; {sleep}", cancel_grace_s=60,
                               on_interrupt="requeue")
    assert node.cancel(job["id"]).status == 202
    assert node.terminate() == 0
    assert processes_matching(sleep) == []
    node.start()
    assert node.job(job["id"])["state"] == "cancelled"


def test_a_job_that_has_failed_stays_failed_when_its_clean_up_is_stopped(start_node):
    node = start_node(slots=2)
    jobs = [node.submit(steps=[{"command": "exit 3"}, {"command": "echo up; sleep 60", "always": True}],
                        on_interrupt=policy) for policy in ("fail", "requeue")]
    for job in jobs:
        assert next(node.follow(job["id"])) == "up"
    drain(node)
    node.process.send_signal(signal.SIGTERM)
    assert node.ended() == 0
    node.start()
    for job in jobs:
        after = node.job(job["id"])
        assert (after["state"], after["reason"], after["exit_code"], after["attempt"]) == ("failed", "exit_code", 3, 1)
        assert [step["state"] for step in after["steps"]] == ["failed", "interrupted"]


def test_a_drain_over_http_is_the_same(start_node):
    node = start_node(drain_timeout="60s")
    job, _ = start_running(node, "echo up; sleep 1; echo done")
    waiting = node.submit_many([{"command": "echo late", "name": f"{n}"} for n in range(3)])
    assert node.post("/v1/node/drain", status=202)["state"] == "draining"
    node.submit_raw({"command": "true"}).problem(503, "draining")
    assert node.ended() == 0
    node.start()
    assert node.job(job["id"])["state"] == "succeeded"
    for each in waiting:
        assert node.wait(each["id"])["state"] == "succeeded"


def test_a_drain_over_http_has_the_same_deadline(start_node):
    node = start_node(drain_timeout="1s", stop_grace="0.5s")
    job, sleep = start_running(node)
    node.post("/v1/node/drain", status=202)
    assert node.ended() == 0
    assert processes_matching(sleep) == []
    node.start()
    assert (node.job(job["id"])["state"], node.job(job["id"])["reason"]) == ("interrupted", "node_stopped")


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGHUP, signal.SIGTERM]])
def test_an_idle_node_stops_at_once(node, signals):
    node.run("true")
    for number in signals:
        node.process.send_signal(number)
    assert node.ended(10) == 0
    assert processes_matching(str(node.data)) == []
    assert not (node.data / "node.json").exists()


def test_followers_and_long_polls_end_with_the_node(start_node):
    node = start_node(drain_timeout="0s", stop_grace="0.5s")
    job, _ = start_running(node)
    lines = node.follow(job["id"])
    assert next(lines) == "up"
    assert node.terminate() == 0
    # The rest of the log and the end of it: a stop is orderly.
    assert any("node stops" in line for line in lines)
