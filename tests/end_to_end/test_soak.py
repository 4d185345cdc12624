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
        ({"command": 'echo "$S"; echo "s=$S" >> $KCX_OUTPUT', "secrets": {"S": "a-secret-of-the-soak"}}, {"succeeded"}),
        ({"command": "mkdir a; seq 1 1000 > a/list; ln -s / a/link; echo k=v >> $KCX_OUTPUT", "artifacts": ["a", "*.no"]},
         {"succeeded"}),
    ]


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def uncompressed(logs):
    """Files of logs that are yet to be compressed, or were not finished."""
    return [path for path in logs.rglob("*")
            if path.suffix == ".part" or (path.suffix in (".log", ".idx") and path.stat().st_size > 4096)]


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

    def unfinished(self):
        counts = self.node.get("/v1/stats")["jobs"]
        return sum(count for state, count in counts.items() if state not in FINAL)

    def settle(self):
        wait_until(lambda: self.unfinished() == 0, timeout=1200, what="all jobs are final")


def check_states(soak):
    jobs = {job["id"]: job for job in soak.node.jobs(limit=200)}
    assert set(soak.expected) <= set(jobs), "no job is lost"
    for job_id, allowed in soak.expected.items():
        job = jobs[job_id]
        assert job["state"] in FINAL
        if job["reason"] in ("worker_crashed", "node_restarted", "node_stopped", "cancelled_by"):
            continue
        assert job["state"] in allowed, (job["command"], job["state"], job["reason"], job["message"])
        if job["artifacts"]:
            assert job["artifacts_kept"]["files"] == 1 and job["outputs"] == {"k": "v"}, job


def check_nothing_left(soak, resting):
    node = soak.node
    assert processes_matching(soak.sleep) == [], "no process"
    assert list((node.data / "workspaces").iterdir()) == [], "no workspace"
    kept = sum(job["artifacts_kept"]["files"] for job in node.jobs(limit=200))
    # A runner may die between putting them in their place and telling of it.
    assert len(list((node.data / "artifacts").glob("*/a/list"))) >= kept, "no artifact is lost"
    assert list((node.data / "artifacts").glob("*.part")) == [], "no half of a set"
    # One that a crash left half done is done again.
    wait_until(lambda: not uncompressed(node.data / "logs"), timeout=300, what="every log is compressed")
    wait_until(lambda: descriptors(node.pid) <= resting["descriptors"] + 10, what="no descriptor")
    runners = [w["runner_pid"] for w in node.workers()]
    assert all(descriptors(pid) <= 16 for pid in runners), [descriptors(pid) for pid in runners]
    assert resident_kib(node.pid) < max(3 * resting["resident"], resting["resident"] + 200_000), "no memory"
    assert all(resident_kib(pid) < 60_000 for pid in runners)


def check_no_secret(data):
    """Of a stopped node: until its last checkpoint the database file still holds what was erased since the one before."""
    for path in data.rglob("*"):
        if path.is_file():
            assert b"a-secret-of-the-soak" not in path.read_bytes(), path


@pytest.mark.long
def test_nothing_is_left_over_after_a_soak(start_node):
    soak = Soak(start_node(slots=4, drain_timeout="1s", stop_grace="0.2s", log_level="error",
                           compress_logs_after="2s"))
    soak.node.run("true")
    resting = {"descriptors": descriptors(soak.node.pid), "resident": resident_kib(soak.node.pid)}
    began = time.monotonic()
    while len(soak.expected) < JOBS:
        soak.submit()
        soak.disturb()
        # Never far ahead of the workers, so that cancels and crashes meet jobs that run.
        wait_until(lambda: soak.unfinished() < 2 * BATCH, timeout=600, what="the queue is short")
    soak.settle()
    print(f"{len(soak.expected)} jobs in {time.monotonic() - began:.0f} s, {soak.actions}")
    check_states(soak)
    check_nothing_left(soak, resting)
    assert soak.node.terminate() == 0
    assert processes_matching(str(soak.node.data)) == []
    check_no_secret(soak.node.data)
