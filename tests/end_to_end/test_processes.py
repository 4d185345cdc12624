"""What a job's processes find, and that none of them outlives its job."""
import os
import pathlib
import re
import signal
import time

import pytest

from kcx_node import processes_matching, unique_sleep, wait_until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


# -- ending a tree -------------------------------------------------------------

def start_and_cancel(node, command, text, count, **spec):
    """Cancels the job once `count` processes with `text` run; gives the finished job and how long the end took."""
    job = node.submit(command, **spec)
    wait_until(lambda: len(processes_matching(text)) >= count, what="the tree is up")
    began = time.monotonic()
    assert node.cancel(job["id"]).status == 202
    job = node.wait(job["id"])
    assert processes_matching(text) == [], "a job is final only when its tree is gone"
    return job, time.monotonic() - began


def test_a_child_that_the_shell_waits_for_is_ended_with_it(node):
    sleep = unique_sleep()
    job, took = start_and_cancel(node, ["bash", "-c", f"{sleep} & wait"], f"{sleep}", 2, cancel_grace_s=2)
    assert job["state"] == "cancelled" and took < 3


def test_leaving_the_session_is_no_escape(node):
    sleep = unique_sleep()
    job, took = start_and_cancel(node, f"setsid sh -c '{sleep} & {sleep}1'; true", sleep, 3, cancel_grace_s=2)
    assert job["state"] == "cancelled" and took < 3


def test_a_job_that_ignores_term_is_cancelling_until_its_grace_is_over(node):
    sleep = unique_sleep()
    # Two blanks, so that the shell's own command line does not look like the sleep's.
    job = node.submit(f"trap '' TERM; echo up; {sleep.replace(' ', '  ')}; exit 0", cancel_grace_s=1)
    assert next(node.follow(job["id"])) == "up"
    (pid,) = wait_until(lambda: processes_matching(sleep), what="the sleep runs")
    assert node.cancel(job["id"]).json()["state"] == "cancelling"
    while (now := node.job(job["id"]))["state"] == "cancelling":
        pass
    assert (now["state"], now["reason"]) == ("cancelled", "cancelled_by")
    assert not pathlib.Path(f"/proc/{pid}").exists(), "final only when the tree is reaped"
    assert 1 <= now["duration_s"] < 5


@pytest.mark.parametrize("grace,cleaned", [(5, True), (0.5, False)])
def test_the_grace_period_bounds_how_long_a_job_may_clean_up(node, grace, cleaned):
    sleep = unique_sleep()
    job = node.submit(f"trap 'sleep 1; echo cleaned; exit 3' TERM; echo up; {sleep}", cancel_grace_s=grace)
    assert next(node.follow(job["id"])) == "up"
    wait_until(lambda: len(processes_matching(sleep)) >= 2, what="the sleep runs")
    node.cancel(job["id"])
    job = node.wait(job["id"])
    assert job["state"] == "cancelled"
    assert ("cleaned" in node.log(job["id"]).splitlines()) == cleaned
    assert job["exit_code"] == (3 if cleaned else None)


@root_only
def test_a_node_that_is_process_1_leaves_no_zombie(make_node):
    node = make_node(prefix=["unshare", "-pf", "--mount-proc", "--kill-child"], slots=8).start()
    jobs = node.submit_many([{"command": "(sleep 1 &)"}] * 200)
    for job in jobs:
        assert node.wait(job["id"])["state"] == "succeeded"
    (child,) = pathlib.Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    namespace = os.readlink(f"/proc/{child}/ns/pid")

    def zombies():
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace and \
                        (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    found.append(entry.name)
            except OSError:
                continue
        return found
    wait_until(lambda: not zombies(), timeout=5, what="every orphan is reaped")
    assert node.run("true")["state"] == "succeeded"


# -- what a job finds ----------------------------------------------------------

def test_the_environment_is_the_documented_one_and_nothing_else(make_node):
    node = make_node().start(env={"SECRET_X": "1", "LD_PRELOAD": "", "FOO": "bar"})
    job = node.run(["env"], env={"MINE": "yes"}, name="look", project="group/repo")
    found = variables(node.log(job["id"]))
    workspace = found["KCX_WORKSPACE"]
    node_id = found.pop("KCX_NODE_ID")
    assert re.fullmatch(r"[0-9a-f]{32}", node_id)
    assert found == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": workspace, "LANG": "C.UTF-8",
        "CI": "true", "KCX_JOB_ID": str(job["id"]), "KCX_ATTEMPT": "1", "KCX_WORKSPACE": workspace,
        "KCX_JOB_NAME": "look", "KCX_PROJECT": "group/repo", "KCX_QUEUE": "default", "KCX_STEP": "look",
        "KCX_STEP_INDEX": "0", "MINE": "yes"}


def test_a_process_has_nothing_of_the_node_but_its_three_streams(node):
    job = node.run("ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0; umask; "
                   "grep -E 'Sig(Blk|Ign)' /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$")
    lines = node.log(job["id"]).splitlines()
    assert lines[0].startswith("0 1 2 ") and lines[0].split()[4:] == ["/dev/null"], lines[0]  # 3 is ls's own
    assert lines[1] == "0022"
    assert [int(line.split()[1], 16) for line in lines[2:4]] == [0, 0]
    assert lines[4] == lines[5], "a session of its own"


def test_standard_input_is_empty_at_once(node):
    began = time.monotonic()
    job = node.run("cat; echo done")
    assert (job["state"], node.log(job["id"])) == ("succeeded", "done\n")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("spec,words", [
    ({"command": ["true"], "working_dir": "/no/such/directory"}, "No such file or directory"),
    ({"command": ["/no/such/program"]}, "No such file or directory"),
    ({"command": ["no-such-program"]}, "No such file or directory"),
    ({"command": ["/etc/passwd"]}, "Permission denied"),
    ({"steps": [{"command": ["/no/such/program"]}]}, "No such file or directory"),
], ids=["directory", "path", "name", "run bit", "step"])
def test_what_cannot_start_fails_at_once_with_the_systems_words(start_node, spec, words):
    node = start_node(slots=1)
    pid = node.run("true") and node.workers()[0]["runner_pid"]
    job = node.run(**spec)
    assert (job["state"], job["reason"], job["exit_code"], job["signal"]) == ("failed", "spawn_failed", None, None)
    assert words in job["message"] and words in node.log(job["id"])
    assert job["duration_s"] is None or job["duration_s"] < 1
    assert node.run("true")["state"] == "succeeded"
    assert node.workers()[0]["runner_pid"] == pid, "worker and runner live on"


def test_signal_and_exit_code_are_told_apart(node):
    by_signal = node.run("kill -SEGV $$")
    assert (by_signal["reason"], by_signal["signal"], by_signal["exit_code"]) == ("signal", "SIGSEGV", None)
    by_code = node.run("exit 137")
    assert (by_code["reason"], by_code["signal"], by_code["exit_code"]) == ("exit_code", None, 137)
    sleep = unique_sleep()
    job = node.submit(sleep.split())
    (pid,) = wait_until(lambda: processes_matching(sleep), what="the job runs")
    os.kill(pid, signal.SIGKILL)
    killed = node.wait(job["id"])
    assert (killed["state"], killed["reason"], killed["signal"], killed["exit_code"]) == (
        "failed", "signal", "SIGKILL", None)


# -- steps ---------------------------------------------------------------------

def test_a_clean_up_step_runs_after_a_cancel(node):
    sleep = unique_sleep()
    job = node.submit(steps=[{"name": "work", "command": f"echo up; {sleep}"},
                             {"name": "clean", "command": "echo cleaned", "always": True}], cancel_grace_s=0.5)
    assert next(node.follow(job["id"])) == "up"
    node.cancel(job["id"])
    job = node.wait(job["id"])
    assert job["state"] == "cancelled"
    assert [s["state"] for s in job["steps"]] == ["cancelled", "succeeded"]
    assert "cleaned" in node.log(job["id"])


# -- workspaces ----------------------------------------------------------------

@pytest.mark.parametrize("keep,code,kept", [("never", 1, False), ("on_failure", 0, False), ("on_failure", 1, True),
                                            ("always", 0, True)])
def test_a_workspace_is_kept_as_asked(node, keep, code, kept):
    job = node.run(f"echo text > file; pwd; exit {code}", keep_workspace=keep)
    workspace = pathlib.Path(node.log(job["id"]).strip())
    assert (workspace / "file").exists() == kept


def test_removing_a_workspace_follows_no_link_out_of_it(node, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("data")
    job = node.run(f"ln -s {outside} link; mkdir -p a/b; ln -s {outside} a/b/link; chmod 0 a/b; chmod 0 a; pwd")
    workspace = pathlib.Path(node.log(job["id"]).strip())
    assert not workspace.exists()
    assert (outside / "precious").read_text() == "data"
