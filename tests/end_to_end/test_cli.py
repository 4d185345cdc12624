"""The kcx command."""
import json
import os
import re
import signal
import subprocess

import pytest

from kcx_node import BUILD, processes_matching, unique_sleep, wait_until


@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_run_follows_the_job_and_exits_with_its_code(node, script, code):
    done = node.cli("run", "--", "sh", "-c", f"echo out; {script}")
    assert done.returncode == code, done
    assert "out\n" in done.stdout


def test_run_shows_the_progress_of_steps_from_a_file(node, tmp_path):
    spec = tmp_path / "job.json"
    spec.write_text(json.dumps({"name": "two", "steps": [{"name": "first", "command": "echo one"},
                                                         {"name": "second", "command": "echo two; exit 5"}]}))
    done = node.cli("run", spec)
    assert done.returncode == 5, done
    shown = done.stdout + done.stderr
    assert all(word in shown for word in ("first", "second", "one", "two")), shown


def test_run_tells_time_limit_and_cancel_by_its_exit_code(node):
    assert node.cli("run", "--time-limit", "300ms", "--", "sleep", "60").returncode == 124
    job = node.submit("sleep 600", cancel_grace_s=0.5)
    node.wait_for_state(job["id"], "running")
    assert node.cli("cancel", job["id"]).returncode == 0
    assert node.cli("wait", job["id"]).returncode == 130


def test_wait_tells_an_interrupted_job(node):
    job = node.submit("echo up; sleep 600")
    assert next(node.follow(job["id"])) == "up"
    node.kill9()
    node.start()
    assert node.cli("wait", job["id"]).returncode == 75


def test_submit_prints_the_id_and_status_shows_the_job(node):
    done = node.cli("submit", "--", "true")
    assert done.returncode == 0, done
    job_id = int(done.stdout.split()[-1])
    assert node.cli("wait", job_id).returncode == 0
    shown = node.cli("status", job_id)
    assert shown.returncode == 0 and "succeeded" in shown.stdout


def test_every_command_speaks_json(node):
    job = json.loads(node.cli("--json", "submit", "--", "echo", "hi").stdout)
    node.wait(job["id"])
    assert json.loads(node.cli("--json", "status", job["id"]).stdout)["state"] == "succeeded"
    assert [j["id"] for j in json.loads(node.cli("--json", "list").stdout)["items"]] == [job["id"]]
    assert json.loads(node.cli("--json", "node", "status").stdout)["pid"] == node.pid


def test_logs_prints_the_log_and_follows_it(node, fifo):
    job = node.run("echo hello")
    assert node.cli("logs", job["id"]).stdout == "hello\n"
    running = node.submit("echo begin; sleep 0.3; echo end")
    assert node.cli("logs", "-f", running["id"]).stdout == "begin\nend\n"


def test_list_shows_the_jobs(node):
    job = node.run("true", name="visible")
    shown = node.cli("list").stdout
    assert str(job["id"]) in shown and "visible" in shown and "succeeded" in shown


def test_the_node_is_found_by_environment(node):
    for env in ({"KCX_DATA": str(node.data)}, {"KCX_URL": node.url, "KCX_TOKEN": node.token}):
        done = node.cli("run", "--", "true", data=False, env=env)
        assert done.returncode == 0, done


def test_an_interrupted_run_cancels_the_job(node):
    sleep = unique_sleep()
    client = subprocess.Popen([BUILD / "kcx", "--data", node.data, "run", "--", "sh", "-c", sleep],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: node.jobs(state="running"), what="the job runs")
    os.kill(client.pid, signal.SIGINT)
    assert client.wait(30) == 130
    (job,) = node.jobs()
    assert node.wait(job["id"])["state"] == "cancelled"
    wait_until(lambda: processes_matching(sleep) == [])


def test_artifacts_are_listed_and_copied(node, tmp_path):
    done = node.cli("run", "--artifact", "dist", "--artifact", "*.txt", "--shell",
                    "mkdir -p dist/lib && printf one > 'dist/a b' && seq 100000 > dist/lib/big && echo note > note.txt")
    assert done.returncode == 0, done
    job_id = node.jobs()[0]["id"]
    shown = node.cli("artifacts", job_id).stdout
    assert "dist/a b " in shown and "dist/lib/big" in shown and "575.1 KiB" in shown and "note.txt" in shown, shown
    assert node.cli("artifacts", job_id, "--download", tmp_path / "all").returncode == 0
    assert (tmp_path / "all/dist/a b").read_text() == "one"
    assert (tmp_path / "all/dist/lib/big").read_text() == "".join(f"{n}\n" for n in range(1, 100001))
    (tmp_path / "some").mkdir()
    (tmp_path / "some/note.txt").write_text("old")
    assert node.cli("artifacts", job_id, "dist/lib/", "note.txt", "--download", tmp_path / "some").returncode == 0
    assert sorted(path.name for path in (tmp_path / "some").rglob("*") if path.is_file()) == ["big", "note.txt"]
    assert (tmp_path / "some/note.txt").read_text() == "note\n"
    missing = node.cli("artifacts", job_id, "dis")
    assert missing.returncode == 1 and "nothing of the name dis" in missing.stderr
    (tmp_path / "file").write_text("")
    blocked = node.cli("artifacts", job_id, "--download", tmp_path / "file")
    assert blocked.returncode == 1 and "cannot make" in blocked.stderr, blocked


def test_artifacts_of_any_name_are_copied(node, tmp_path):
    long = "n" * 255
    done = node.cli("run", "--artifact", "*", "--shell", f"touch a {long} z; touch \"$(printf 'b\\377')\" \"$(printf 'b\\376')\"")
    assert done.returncode == 0, done
    assert node.cli("artifacts", node.jobs()[0]["id"], "--download", tmp_path / "all").returncode == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["a", "b\udcfe", "b\udcff", long, "z"]


def test_what_cannot_be_copied_leaves_out_nothing_else(node, tmp_path):
    node.cli("run", "--artifact", "*", "--shell", "touch a b c")
    (tmp_path / "all/b").mkdir(parents=True)
    done = node.cli("artifacts", node.jobs()[0]["id"], "--download", tmp_path / "all")
    assert done.returncode == 1 and "cannot write" in done.stderr and "/b:" in done.stderr, done
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["a", "b", "c"]


def test_without_standard_output_it_says_so(node):
    done = subprocess.run(["bash", "-c", '"$0" list --data "$1" >&-', str(BUILD / "kcx"), str(node.data)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1 and "cannot write standard output: Bad file descriptor" in done.stderr, done


@pytest.mark.parametrize("command", [["wait"], ["logs", "-f"]])
def test_who_waits_without_a_node_is_told(node, command):
    job = node.submit("sleep 600")
    node.wait_for_state(job["id"], "running")
    node.kill9()
    with subprocess.Popen([BUILD / "kcx", *command, str(job["id"]), "--data", str(node.data)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
        assert "the node" in client.stderr.readline()
        client.kill()


def test_workers_are_shown_with_what_they_do(node):
    name = node.workers()[0]["name"]
    assert node.cli("cordon", name).returncode == 0
    shown = node.cli("workers").stdout
    assert f"{name}  idle, cordoned" in shown, shown
    assert "idle, cordoned" in node.cli("node", "status").stdout
    items = json.loads(node.cli("--json", "workers").stdout)["items"]
    assert [worker["name"] for worker in items if worker["cordoned"]] == [name]


def test_errors_have_exit_codes_of_their_own(node):
    assert node.cli("no-such-command").returncode == 2
    assert node.cli("status").returncode == 2
    unknown = node.cli("status", 999)
    assert unknown.returncode == 4 and "999" in unknown.stderr
    refused = node.cli("status", 1, data=False, env={"KCX_URL": node.url, "KCX_TOKEN": "wrong"})
    assert refused.returncode == 4 and refused.stderr
    node.kill9()
    unreachable = node.cli("--patience", "1s", "status", 1)
    assert unreachable.returncode == 3 and unreachable.stderr


@pytest.mark.parametrize("program", ["kcx", "kcx-node"])
@pytest.mark.parametrize("question", ["--help", "--man", "--version"])
def test_an_answer_that_cannot_be_printed_is_a_failure(program, question):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([BUILD / program, question], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                              check=False)
    assert done.returncode == 1 and "No space left on device" in done.stderr, done


def test_a_closed_pipe_is_no_success(node):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([BUILD / "kcx", "--data", node.data, "run", "--", "echo", "out"], stdin=subprocess.DEVNULL,
                          stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert done.returncode == 1 and "cannot write standard output: Broken pipe" in done.stderr, done
    assert node.jobs()[0]["state"] == "succeeded"


def test_tls_on_a_port_that_does_not_speak_it_is_told(node):
    done = node.cli("list", data=False, env={"KCX_URL": node.url.replace("http:", "https:"), "KCX_TOKEN": node.token})
    assert done.returncode == 3 and "does not speak TLS" in done.stderr, done


def test_processor_time_is_limited_in_whole_seconds(node):
    done = node.cli("run", "--limit-cpu", "1", "--shell", "while :; do :; done")
    # Where soft and hard limit are one, the kernel chooses.
    assert done.returncode in (128 + signal.SIGXCPU, 128 + signal.SIGKILL), done
    assert node.cli("run", "--limit-cpu", "500ms", "--", "true").returncode == 2


def test_status_and_summary_tell_who_cancelled_a_job_and_what_a_blocked_one_waits_for(node):
    first = node.submit("sleep 600", cancel_grace_s=0.5)
    second = node.submit("true", needs=[first["id"]], group="g", weight=2, time_limit_s=90)
    node.wait_for_state(first["id"], "running")
    shown = node.cli("status", second["id"]).stdout
    for part in (f"waits for  the end of {first['id']}\n", "group      g\n", "weight     2\n", "time limit 1 min 30 s\n"):
        assert part in shown, shown
    assert node.cli("cancel", first["id"]).returncode == 0
    assert f"job {first['id']}: cancelled by admin" in node.cli("wait", first["id"]).stdout


def test_steps_are_a_status_line_on_a_terminal_and_plain_lines_elsewhere(node, tmp_path):
    spec = tmp_path / "job.yaml"
    spec.write_text("name: two\nsteps:\n  - {name: first, command: sleep 0.5}\n  - {name: second, command: echo out}\n")
    code, shown = node.cli_on_terminal("run", spec, columns=100)
    assert code == 0 and "job 1 two: running" in shown and "step 1/2 first: running" in shown, shown
    assert "\r\x1b[J" in shown and "out\r\n" in shown
    _, shown = node.cli_on_terminal("run", spec, env={"NO_COLOR": "1"})
    assert "step 1/2 first: running" in shown and "\r\x1b[J" in shown and not re.search(r"\x1b\[[0-9;]*m", shown), shown
    done = node.cli("run", spec)
    assert "\x1b" not in done.stdout + done.stderr and done.stdout == "out\n", done
    assert "step 1/2 first: running\nstep 1/2 first: succeeded" in done.stderr, done
