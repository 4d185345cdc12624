"""Limits of whole jobs by the kernel's cgroup v2: on machines that have its controllers, which needs root."""
import os
import pathlib
import sys

import pytest

from kcx_node import unique_sleep, wait_until


def cgroup_root():
    """Where cgroup v2 is mounted; None if it is not."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, after = line.split(" - ", 1)
        if after.startswith("cgroup2 "):
            return pathlib.Path(before.split()[4])
    return None


@pytest.fixture
def delegated(request):
    """A cgroup as systemd would make it for a unit with Delegate=yes, with the controller that the test names."""
    controller, root = request.param, cgroup_root()
    if os.geteuid() != 0:
        pytest.skip("cgroups are made by root")
    if root is None or controller not in (root / "cgroup.controllers").read_text(encoding="utf-8").split():
        pytest.skip(f"the {controller} controller of cgroup v2 is not to be had on this machine")
    (root / "cgroup.subtree_control").write_text(f"+{controller}", encoding="utf-8")
    path = root / f"kcx-test-{os.getpid()}"
    path.mkdir()
    yield path
    wait_until(lambda: "populated 0" in (path / "cgroup.events").read_text(encoding="utf-8"), what="its processes to end")
    for each in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True):
        each.rmdir()
    path.rmdir()


def start_in(make_node, cgroup, **options):
    """A node that lives in that cgroup alone."""
    enter = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(cgroup)]
    node = make_node(prefix=enter, **options).start()
    assert node.get("/v1/node")["limits"].startswith("limits of whole jobs by cgroup v2: ")
    return node


@pytest.mark.parametrize("delegated", ["pids"], indirect=True)
def test_the_processes_of_a_job_are_counted_together(delegated, make_node):
    node = start_in(make_node, delegated)
    seconds = unique_sleep()
    script = f"(for i in 1 2 3 4 5 6 7 8 9; do sleep {seconds} & done; echo all) 2>&1; kill $(jobs -p) 2>/dev/null; true"
    assert "all" in node.log(node.run(script)["id"])
    job = node.run(f"(for i in 1 2 3 4 5 6 7 8 9; do sleep {seconds} & done; echo all) 2>&1",
                   limits={"processes": 5})
    log = node.log(job["id"])
    assert "all" not in log and "fork" in log
    assert not list((delegated / "kcx-jobs").glob("*/")), "its cgroup goes with it"


@pytest.mark.parametrize("delegated", ["cpu"], indirect=True)
def test_the_cpus_of_a_job_are_bounded_together(delegated, make_node):
    node = start_in(make_node, delegated)
    busy = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
    program = f"{sys.executable} -c '{busy}'"
    job = node.submit(f"{program} & {program} & wait; times", limits={"cpus": 0.5})
    stat = lambda: next((delegated / "kcx-jobs").glob("*/cpu.stat"), None)
    wait_until(stat, what="the job's cgroup")
    held_back = lambda: any(
        line.startswith("nr_throttled ") and int(line.split()[1]) > 0
        for line in (stat().read_text(encoding="utf-8").splitlines() if stat() else []))
    wait_until(held_back, what="the kernel to hold the job back")
    assert node.wait(job["id"])["state"] == "succeeded"


@pytest.mark.parametrize("delegated", ["memory"], indirect=True)
def test_the_memory_of_a_job_is_counted_together(delegated, make_node):
    node = start_in(make_node, delegated)
    hold = f"{sys.executable} -c 'import time; x = b\"x\" * (60 << 20); time.sleep(1)'"
    job = node.run(f"{hold} & {hold}; wait", limits={"memory_bytes": 100 << 20})
    assert "limits.memory_bytes was reached" in node.log(job["id"])
    alone = node.run(hold, limits={"memory_bytes": 100 << 20})
    assert alone["state"] == "succeeded", "each has room alone"
