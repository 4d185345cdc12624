"""Many jobs of all kinds with cancels, killed runners and restarts at random: afterwards nothing is left over.

KCX_SOAK_JOBS sets how many (default 20,000), KCX_SOAK_SEED the dice."""
import os
import pathlib
import random
import signal
import time

import pytest

from kcx_node import FINAL, processes_matching, unique_sleep, wait_until

JOBS = int(os.environ.get("KCX_SOAK_JOBS", "20000"))
SEED = int(os.environ.get("KCX_SOAK_SEED", "1"))
BATCH = 100


def kinds(sleep):
    """What the jobs do, and which final states each may end in when it is neither cancelled nor interrupted."""
    return [
        ({"command": "true"}, {"succeeded"}),
        ({"command": ["true"]}, {"succeeded"}),
        ({"command": "exit 7"}, {"failed"}),
        ({"command": "kill -KILL $$"}, {"failed"}),
        ({"command": ["/no/such/program"]}, {"failed"}),
        ({"command": "seq 1 20000"}, {"succeeded"}),
        ({"command": "seq 1 20000 >&2", "log_limit_bytes": 4096}, {"succeeded"}),
        ({"command": "mkdir -p a/b/c; echo x > a/b/c/file; ln -s / link; chmod 0 a/b"}, {"succeeded"}),
        ({"command": f"({sleep} &) ; exit 0", "cancel_grace_s": 0.1}, {"succeeded"}),
        ({"command": f"setsid sh -c '{sleep} & {sleep}' & exit 0", "cancel_grace_s": 0.1}, {"succeeded"}),
        ({"command": f"trap '' TERM; {sleep}", "time_limit_s": 0.1, "cancel_grace_s": 0.05}, {"timed_out"}),
        ({"command": sleep, "no_output_limit_s": 0.1, "cancel_grace_s": 0.1}, {"timed_out"}),
        ({"command": "sleep 0.05", "on_interrupt": "requeue"}, {"succeeded"}),
        ({"steps": [{"command": "echo 1"}, {"command": "false", "continue_on_error": True},
                    {"command": "exit 3"}, {"command": "echo clean", "always": True}]}, {"failed"}),
        ({"command": 'echo "$S"', "secrets": {"S": "a-secret-of-the-soak"}}, {"succeeded"}),
    ]


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


class Soak:
    def __init__(self, node):
        self.node = node
        self.dice = random.Random(SEED)
        self.sleep = unique_sleep()
        self.kinds = kinds(self.sleep)
        self.expected = {}
        self.actions = {"cancel": 0, "runner": 0, "kill": 0, "restart": 0}

    def submit(self):
        picked = [self.dice.choice(self.kinds) for _ in range(BATCH)]
        for job, (_, states) in zip(self.node.submit_many([spec for spec, _ in picked]), picked):
            self.expected[job["id"]] = states

    def disturb(self):
        action = self.dice.choices(["cancel", "runner", "kill", "restart", None], [8, 2, 1, 1, 4])[0]
        if action is None:
            return
        self.actions[action] += 1
        if action == "cancel":
            for job_id in self.dice.sample(sorted(self.expected), min(10, len(self.expected))):
                assert self.node.cancel(job_id).status in (200, 202, 409)
        elif action == "runner":
            worker = self.dice.choice(self.node.workers())
            if worker["runner_pid"]:
                os.kill(worker["runner_pid"], signal.SIGKILL)
        elif action == "kill":
            self.node.kill9()
            self.node.start()
        else:
            assert self.node.terminate() == 0
            self.node.start()

    def settle(self):
        wait_until(lambda: not self.node.jobs(state="queued,scheduled,running,cancelling", limit=1), timeout=1200,
                   what="all jobs are final")


def check_states(soak):
    jobs = {job["id"]: job for job in soak.node.jobs(limit=500)}
    assert set(soak.expected) <= set(jobs), "no job is lost"
    for job_id, allowed in soak.expected.items():
        job = jobs[job_id]
        assert job["state"] in FINAL
        if job["reason"] in ("worker_crashed", "node_restarted", "node_stopped", "cancelled_by"):
            continue
        assert job["state"] in allowed, (job["command"], job["state"], job["reason"], job["message"])


def check_nothing_left(soak, resting):
    node = soak.node
    assert processes_matching(soak.sleep) == [], "no process"
    assert list((node.data / "workspaces").iterdir()) == [], "no workspace"
    wait_until(lambda: descriptors(node.pid) <= resting["descriptors"] + 10, what="no descriptor")
    runners = [w["runner_pid"] for w in node.workers()]
    assert all(descriptors(pid) <= 16 for pid in runners), [descriptors(pid) for pid in runners]
    assert resident_kib(node.pid) < max(3 * resting["resident"], resting["resident"] + 200_000), "no memory"
    assert all(resident_kib(pid) < 60_000 for pid in runners)
    for path in node.data.rglob("*"):
        if path.is_file() and path.name != "kcx.db-wal":
            assert b"a-secret-of-the-soak" not in path.read_bytes(), path


@pytest.mark.long
def test_nothing_is_left_over_after_a_soak(start_node):
    soak = Soak(start_node(slots=4, drain_timeout="1s", stop_grace="0.2s", log_level="error"))
    soak.node.run("true")
    resting = {"descriptors": descriptors(soak.node.pid), "resident": resident_kib(soak.node.pid)}
    began = time.monotonic()
    while len(soak.expected) < JOBS:
        soak.submit()
        soak.disturb()
        # Never far ahead of the workers, so that cancels and crashes meet jobs that run.
        wait_until(lambda: len(soak.node.jobs(state="queued")) < 2 * BATCH, timeout=600, what="the queue is short")
    soak.settle()
    print(f"{len(soak.expected)} jobs in {time.monotonic() - began:.0f} s, {soak.actions}")
    check_states(soak)
    check_nothing_left(soak, resting)
    assert soak.node.terminate() == 0
    assert processes_matching(str(soak.node.data)) == []
