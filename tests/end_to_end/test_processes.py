"""What a job's processes find, and that none of them outlives its job."""
import os
import pathlib
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import pytest

from kcx_node import (BUILD, NodeFailed, headless, headless_processes, processes_matching, unique_sleep,
                      wait_until)

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
OWN_PIDS = ["unshare", "-pf", "--mount-proc", "--kill-child"]


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


@pytest.mark.parametrize("how", ["cancel", "time limit", "left behind"])
def test_a_process_whose_main_thread_has_ended_is_ended_with_its_job(start_node, how):
    node = start_node(slots=1)
    name = unique_sleep()
    command = headless(name)
    if how == "left behind":
        command = ["sh", "-c", '"$@" & sleep 1', "sh"] + command
    job = node.submit(command, cancel_grace_s=0.5, **({"time_limit_s": 1} if how == "time limit" else {}))
    wait_until(lambda: headless_processes(name), what="the main thread has ended")
    if how == "cancel":
        assert node.cancel(job["id"]).status == 202
    job = node.wait(job["id"])
    assert job["state"] == {"cancel": "cancelled", "time limit": "timed_out", "left behind": "succeeded"}[how]
    assert processes_matching(name) == []
    assert node.run("true")["state"] == "succeeded", "the slot is free again"


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


@pytest.mark.skipif(subprocess.run([*OWN_PIDS, "true"], stderr=subprocess.DEVNULL).returncode != 0,
                    reason="needs the right to make a PID namespace")
def test_a_node_that_is_process_1_leaves_no_zombie(make_node):
    node = make_node(prefix=OWN_PIDS, slots=8).start()
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
    assert re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]+-[0-9a-f]+", node_id)
    assert found == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": workspace, "LANG": "C.UTF-8",
        "CI": "true", "KCX_JOB_ID": str(job["id"]), "KCX_ATTEMPT": "1", "KCX_WORKSPACE": workspace,
        "KCX_JOB_NAME": "look", "KCX_PROJECT": "group/repo", "KCX_QUEUE": "default", "KCX_STEP": "look",
        "KCX_STEP_INDEX": "0", "KCX_OUTPUT": f"{workspace}.out", "MINE": "yes"}


def test_a_process_has_nothing_of_the_node_but_its_three_streams(node):
    job = node.run("ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0; umask; ulimit -Sn; "
                   "grep -E 'Sig(Blk|Ign)' /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$")
    lines = node.log(job["id"]).splitlines()
    assert lines[0].startswith("0 1 2 ") and lines[0].split()[4:] == ["/dev/null"], lines[0]  # 3 is ls's own
    assert lines[1] == "0022"
    assert lines[2] == "1024", "however many descriptors the node took for itself"
    assert [int(line.split()[1], 16) for line in lines[3:5]] == [0, 0]
    assert lines[5] == lines[6], "a session of its own"


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


# -- limits --------------------------------------------------------------------

def test_limits_are_set_for_every_process_and_shown(start_node):
    node = start_node(cgroups="false")
    assert node.get("/v1/node")["limits"] == "limits are those of setrlimit: the option cgroups is off"
    limits = {"memory_bytes": 1 << 30, "cpu_s": 60, "open_files": 99, "processes": 5000, "file_bytes": 4096}
    job = node.run("sh -c 'ulimit -v; ulimit -t; ulimit -n; ulimit -f'; prlimit -p $$ --nproc -o SOFT --noheadings",
                   limits=limits)
    assert node.log(job["id"]).split() == [str(1 << 20), "60", "99", "8", "5000"]
    assert job["limits"] == {**limits, "cpus": None}
    job = node.run("true", limits={"cpus": 1.5})
    assert job["limits"]["cpus"] == 1.5 and "limits.cpus is not enforced" in node.log(job["id"])


def test_a_limit_that_is_passed_ends_the_process_by_its_signal(node):
    job = node.run("exec head -c 100000 /dev/zero > file", limits={"file_bytes": 4096})
    assert (job["state"], job["reason"], job["signal"]) == ("failed", "signal", "SIGXFSZ")
    job = node.run("exec sh -c 'while :; do :; done'", limits={"cpu_s": 1})
    assert (job["reason"], job["signal"]) in (("signal", "SIGXCPU"), ("signal", "SIGKILL"))


@pytest.mark.parametrize("limits,pointer", [
    ({"memory": 1}, "/limits/memory"), ({"cpu_s": 0}, "/limits/cpu_s"), ({"open_files": "x"}, "/limits/open_files"),
    (7, "/limits"),
])
def test_a_wrong_limit_is_refused_by_its_pointer(node, limits, pointer):
    problem = node.submit_raw({"command": "true", "limits": limits}).problem(422, "invalid_input")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


# -- steps ---------------------------------------------------------------------

def test_a_step_has_a_time_limit_of_its_own(node):
    sleep = unique_sleep()
    job = node.run(steps=[{"name": "slow", "command": sleep, "time_limit_s": 0.3},
                          {"name": "left out", "command": "true"},
                          {"name": "clean", "command": "echo cleaned", "always": True, "time_limit_s": 30}],
                   cancel_grace_s=0.2)
    assert (job["state"], job["reason"]) == ("timed_out", "time_limit")
    assert [s["state"] for s in job["steps"]] == ["timed_out", "skipped", "succeeded"]
    assert [s["time_limit_s"] for s in job["steps"]] == [0.3, None, 30.0]
    assert "cleaned" in node.log(job["id"])
    assert processes_matching(sleep) == []


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


def test_a_cancel_during_a_clean_up_step_is_told_in_the_log(node):
    job = node.submit(steps=[{"command": "true"}, {"command": "echo up; sleep 0.5", "always": True}])
    assert next(node.follow(job["id"])) == "up"
    node.cancel(job["id"])
    assert node.wait(job["id"])["state"] == "cancelled"
    assert "cancelled, ending the job after this step" in node.log(job["id"])


@pytest.mark.parametrize("first,state,code", [("sleep 0.5", "succeeded", 0), ("exit 4", "failed", 4)])
def test_a_clean_up_step_is_not_bound_by_the_time_limit_of_the_job(node, first, state, code):
    job = node.run(steps=[{"name": "work", "command": first},
                          {"name": "clean", "command": "sleep 1.5; echo cleaned", "always": True}], time_limit_s=1)
    assert (job["state"], job["exit_code"]) == (state, code)
    assert [s["state"] for s in job["steps"]] == [state, "succeeded"]
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


def test_what_lies_in_the_place_of_a_workspace_is_removed_and_not_followed(node, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("data")
    node.run(f'cd ..; rmdir "$KCX_WORKSPACE" && ln -s {outside} "$KCX_WORKSPACE"')
    node.run('cd ..; rmdir "$KCX_WORKSPACE" && touch "$KCX_WORKSPACE"')
    assert list((node.data / "workspaces").iterdir()) == []
    assert (outside / "precious").read_text() == "data"
    assert "removed" not in node.output()


@root_only
def test_an_output_file_that_cannot_be_removed_is_told_of(node):
    job = node.run('touch file; mount --bind file "$KCX_OUTPUT"')
    left = node.data / "workspaces" / f"{job['id']}-1.out"
    if job["state"] != "succeeded":
        pytest.skip("needs the right to mount")
    try:
        line = next(line for line in node.output().splitlines() if "removed" in line)
        assert f"not all files of job {job['id']} were removed" in line and str(left) in line and "busy" in line
    finally:
        subprocess.run(["umount", left], check=True)


# -- accounts ------------------------------------------------------------------

@pytest.fixture
def open_directory():
    """A directory that other accounts can pass through, as those of a test cannot be."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="kcx-user-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def node_of_account(make_node, open_directory):
    """Makes a node that runs as this account, from a copy: the account may not get to where the tests are built."""
    def make(user, *limits):
        os.chown(open_directory, user, user)
        for program in ("kcx-node", "kcx-runner"):
            shutil.copy(BUILD / program, open_directory / program)
        node = make_node(prefix=["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *limits],
                         data=open_directory / "data")
        node.program = open_directory / "kcx-node"
        return node
    return make


WHO = 'id -un; id -Gn; pwd; stat -c "%U %a" . "$HOME"; echo "$USER $LOGNAME"; touch file && cd / && cd "$HOME" && ls'


@root_only
def test_a_job_runs_as_its_user_in_a_workspace_of_its_own(make_node, open_directory):
    node = make_node(data=open_directory / "data").start()
    job = node.run(WHO, user="nobody")
    lines = node.log(job["id"]).splitlines()
    assert job["state"] == "succeeded", lines
    assert (lines[0], lines[1]) == ("nobody", "nogroup") and lines[2].startswith(str(node.data))
    assert lines[3:] == ["nobody 700", "nobody 700", "nobody nobody", "file"]
    assert job["user"] == "nobody"
    for secret in ("admin.token", "kcx.db", "logs", "."):
        refused = node.run(["ls" if secret in ("logs", ".") else "cat", str(node.data / secret)], user="nobody")
        assert refused["state"] == "failed" and "Permission denied" in node.log(refused["id"]), secret
    assert list((node.data / "workspaces").iterdir()) == []


@root_only
def test_a_node_of_root_can_run_all_jobs_as_one_account(make_node, open_directory):
    node = make_node(data=open_directory / "data", job_user="nobody").start()
    assert "runs as root" not in node.output()
    assert node.log(node.run("id -un; touch x")["id"]) == "nobody\n"
    assert node.log(node.run("id -un", user="daemon")["id"]) == "daemon\n"


@root_only
def test_a_node_of_root_warns_unless_jobs_have_an_account(node):
    assert "runs as root" in node.output() and "job-user" in node.output()


def test_an_unknown_account_is_refused_where_it_is_named(make_node, node):
    job = node.run("true", user="no-such-account")
    assert (job["state"], job["reason"]) == ("failed", "spawn_failed") and "no-such-account" in job["message"]
    node.submit_raw({"command": "true", "user": "../x"}).problem(422, "invalid_input")
    with pytest.raises(NodeFailed) as failure:
        make_node(job_user="no-such-account").start()
    assert failure.value.code == 2
    assert "no-such-account" in failure.value.output and "--job-user" in failure.value.output


@root_only
def test_a_node_that_may_have_too_few_threads_says_so(node_of_account):
    # An account of its own, which has no other process: a limit of processes counts them all, and does not bind root.
    with pytest.raises(NodeFailed) as failure:
        node_of_account(54321, "prlimit", "--nproc=20").start()
    assert failure.value.code == 1 and "threads could be started" in failure.value.output, failure.value.output


@root_only
def test_a_node_that_is_not_root_cannot_change_the_account(node_of_account):
    node = node_of_account(pwd.getpwnam("nobody").pw_uid).start()
    assert "runs as root" not in node.output()
    assert node.log(node.run("id -un")["id"]) == "nobody\n"
    assert stat.S_IMODE(node.data.stat().st_mode) == 0o700
    job = node.run("id -un", user="daemon")
    assert (job["state"], job["reason"]) == ("failed", "spawn_failed") and "root" in job["message"]
    assert node.run("id -un", user="nobody")["state"] == "succeeded"
