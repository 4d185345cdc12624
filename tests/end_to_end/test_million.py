"""A million waiting jobs: memory, start, and whether anything hides behind them."""
import pathlib
import time

import pytest

from kcx_node import wait_until


def resident_mb(node):
    lines = pathlib.Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def test_a_project_or_label_is_not_hidden_behind_many_jobs(start_node, fifo):
    """More jobs than a window holds, read anew by a restart."""
    node = start_node(slots=1)
    for count in (10_000, 1_000):
        node.submit_many([{"command": "true", "project": "many", "queue": "big", "labels": ["no-such-label"]}] * count)
    held = node.submit(f"read x < {fifo.path}", project="many", queue="big")
    node.wait_for_state(held["id"], "running")
    for count in (10_000, 1_000):
        node.submit_many([{"command": "true", "project": "many", "queue": "big"}] * count)
    node.post("/v1/queues/big/pause")
    other = node.submit("true", project="small")
    node.kill9()
    node.start()
    assert node.wait(other["id"])["state"] == "succeeded"
    node.post("/v1/queues/big/resume")
    small = node.submit("true", project="small")
    assert node.wait(small["id"])["state"] == "succeeded"
    before = node.jobs(project="many", state="succeeded", limit=1000)
    assert len(before) < 100, len(before)
    # Those without the label go on behind those that have it.
    wait_until(lambda: node.get("/v1/stats")["jobs"]["succeeded"] > 20)


@pytest.mark.long
def test_a_million_waiting_jobs_need_little_memory(start_node):
    node = start_node(slots=1)
    node.post("/v1/workers/node/1/cordon")
    node.submit_many([{"command": "true"}] * 1000)
    before = resident_mb(node)
    began = time.monotonic()
    for number in range(100):
        node.submit_many([{"command": "true", "project": f"p{number % 10}"}] * 10_000)
    took = time.monotonic() - began
    growth = resident_mb(node) - before
    print(f"1,000,000 jobs in {took:.0f} s; resident {before:.0f} MB before, {growth:+.1f} MB with them")
    assert node.get("/v1/stats")["jobs"]["queued"] == 1_001_000
    node.kill9()
    began = time.monotonic()
    node.start()
    took = time.monotonic() - began
    fresh = resident_mb(node)
    print(f"start with them: {took:.2f} s, resident {fresh:.0f} MB")
    late = node.submit("true", project="late")
    assert node.wait(late["id"])["state"] == "succeeded"
    assert growth < 100 and fresh < before + 100, (growth, fresh)
    assert took < 10
