"""kcx run and submit with several jobs from a file."""
import json
import re
import signal
import subprocess

import pytest

from kcx_node import BUILD, ROOT, processes_matching, unique_sleep, wait_until
from proxy import Proxy


def write(path, text):
    path.write_text(text)
    return path


def states(node):
    """Name to state of all jobs."""
    return {job["name"]: job["state"] for job in node.jobs()}


def start_run(node, *args):
    return subprocess.Popen([BUILD / "kcx", "--data", node.data, "run", *args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=node.directory)


def documented_pipelines():
    return re.findall(r"^```yaml pipeline\n(.*?)^```$", (ROOT / "docs/pipelines.md").read_text(), re.M | re.S)


def test_the_pipeline_that_hands_on_artifacts_and_outputs_runs(node, tmp_path):
    done = node.cli("run", "--logs", "all", write(tmp_path / "ci.yaml", documented_pipelines()[1]))
    assert done.returncode == 0, done
    assert states(node) == {"build": "succeeded", "test": "succeeded"}


def test_the_pipeline_of_the_documentation_runs(node, tmp_path):
    text = documented_pipelines()[0]
    done = node.cli("run", write(tmp_path / "hello.yaml", text))
    assert done.returncode == 0, done
    assert states(node) == {"build": "succeeded", "test (gcc, debug)": "succeeded", "test (gcc, release)": "succeeded",
                            "test (clang, release)": "succeeded", "report": "succeeded", "alarm": "skipped"}
    assert re.search(r"^test \(gcc, debug\) +2 +succeeded", done.stdout, re.M), done.stdout
    assert "5 succeeded, 1 skipped" in done.stdout
    logs = {job["name"]: node.log(job["id"]) for job in node.jobs(state="succeeded")}
    assert logs["test (gcc, release)"] == "gcc release\ngcc release -O3\n"
    assert logs["test (clang, release)"] == "clang release\nclang release without flags\n"


def test_the_example_that_builds_kcx_is_a_pipeline(node):
    done = node.cli("run", "--dry-run", "--env", "COMMIT=abc", ROOT / "docs/examples/build_kcx.yaml")
    assert done.returncode == 0, done
    jobs = json.loads(done.stdout)
    assert [job["name"] for job in jobs] == ["style", "storage", "programs (release)", "programs (asan)", "report"]
    assert all(job["env"]["COMMIT"] == "abc" for job in jobs)
    # What the node says to it: all fields are right.
    assert len(node.submit_many([{**job, "run_at": "2999-01-01T00:00:00Z"} for job in jobs])) == 5


def test_a_failure_gives_its_code_its_log_and_skips_what_needs_it(node, tmp_path):
    file = write(tmp_path / "ci.json", json.dumps({"jobs": {
        "build": {"command": "echo broken here; exit 7"},
        "test": {"needs": "build", "command": "true"},
        "other": {"command": "true"},
        "alarm": {"needs": [{"job": "build", "if": "failure"}], "command": "true"}}}))
    done = node.cli("run", file)
    assert done.returncode == 7, done
    assert "build | broken here\n" in done.stdout
    assert states(node) == {"build": "failed", "test": "skipped", "other": "succeeded", "alarm": "succeeded"}
    assert "2 succeeded, 1 failed, 1 skipped" in done.stdout


def test_a_pipeline_with_a_mistake_submits_nothing_and_names_the_line(node, tmp_path):
    file = write(tmp_path / "ci.yaml", "jobs:\n  a: {command: x}\n  b:\n    command: y\n    weight: 0\n    nonsense: 1\n")
    done = node.cli("run", file)
    assert done.returncode == 4, done
    assert f"{file}:5: /jobs/b/weight (b): " in done.stderr and f"{file}:6: /jobs/b/nonsense (b): " in done.stderr
    done = node.cli("submit", write(tmp_path / "no.yaml", "jobs:\n  a: {command: x, needs: [z]}\n"))
    assert done.returncode == 2 and "no.yaml:2: /jobs/a/needs/0: " in done.stderr, done
    assert node.jobs() == []


def test_submit_prints_the_numbers_of_a_pipeline(node, tmp_path):
    file = write(tmp_path / "ci.yaml", "jobs:\n  a: {command: 'true'}\n  b: {needs: a, command: 'true'}\n")
    done = node.cli("submit", "--project", "web", file)
    assert done.stdout == "1\n2\n", done
    assert node.wait(2)["state"] == "succeeded"
    assert {job["project"] for job in node.jobs()} == {"web"}


def test_secrets_reach_each_job_and_are_masked(node, tmp_path):
    file = write(tmp_path / "ci.yaml", 'secrets: [TOKEN]\njobs:\n  a: {command: \'echo "<$TOKEN>"; [ "$TOKEN" = tr0ub4dor ]\'}\n')
    refused = node.cli("run", file)
    assert refused.returncode == 2 and "TOKEN" in refused.stderr and node.jobs() == []
    done = node.cli("run", "--logs", "all", file, env={"TOKEN": "tr0ub4dor"})
    assert done.returncode == 0 and "a | <***>" in done.stdout and "tr0ub4dor" not in done.stdout + done.stderr, done
    write(tmp_path / "token", "tr0ub4dor\n")
    assert node.cli("run", "--secret-file", f"TOKEN={tmp_path / 'token'}", file).returncode == 0
    single = node.cli("run", "--secret", "TOKEN", "--", "sh", "-c", "echo $TOKEN", env={"TOKEN": "tr0ub4dor"})
    assert single.returncode == 0 and "tr0ub4dor" not in single.stdout, single


def test_ctrl_c_cancels_every_job(node, tmp_path):
    sleep = unique_sleep()
    file = write(tmp_path / "ci.yaml",
                 f"defaults: {{cancel_grace_s: 1}}\njobs:\n  a: {{command: {sleep}}}\n  b: {{needs: a, command: 'true'}}\n")
    client = start_run(node, file)
    wait_until(lambda: node.jobs(state="running"), what="a job runs")
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=30)
    assert client.returncode == 130
    assert states(node) == {"a": "cancelled", "b": "cancelled"} and "2 cancelled" in out
    wait_until(lambda: processes_matching(sleep) == [])


def test_a_pipeline_goes_on_over_a_restart_of_the_node(node, tmp_path, fifo):
    file = write(tmp_path / "ci.yaml", f"""
defaults: {{on_interrupt: requeue}}
jobs:
  a: {{command: "read x < {fifo.path}"}}
  b: {{needs: a, command: echo done}}
""")
    client = start_run(node, file)
    wait_until(lambda: node.jobs(state="running"), what="a job runs")
    node.kill9()
    node.start()
    node.wait_for_state(1, "running")
    fifo.release()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, (out, err)
    assert "lost the node" in err and "reached the node again" in err
    assert states(node) == {"a": "succeeded", "b": "succeeded"}


def test_a_terminal_shows_the_jobs_live_and_a_table_that_fits(node, tmp_path):
    file = write(tmp_path / "ci.yaml", "name: live\njobs:\n  first: {command: sleep 0.4}\n"
                 "  second with a name that is much too long to fit into sixty columns: {needs: first, command: sleep 0.3}\n")
    code, shown = node.cli_on_terminal("run", file)
    assert code == 0, shown
    assert "live: 0 of 2 ended after" in shown and "blocked  needs first" in shown
    assert "\x1b[A" in shown and "\x1b[J" in shown
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", shown)
    table = plain[plain.rindex("JOB "):].splitlines()
    assert all(len(line) <= 60 for line in table), table
    assert "\x1b[32m" in shown
    _, shown = node.cli_on_terminal("list", env={"NO_COLOR": "1"})
    assert "\x1b" not in shown


@pytest.mark.parametrize("file", [False, True])
def test_a_submission_whose_answer_is_lost_is_there_once(node, tmp_path, file):
    proxy = Proxy(node.url, lambda number, _: number > 1)
    what = [write(tmp_path / "ci.yaml", "jobs: {a: {command: 'true'}, b: {command: 'true'}}\n")] if file else ["--", "true"]
    done = node.cli("submit", *what, data=False, env={"KCX_URL": proxy.url, "KCX_TOKEN": node.token})
    proxy.close()
    assert done.returncode == 0 and proxy.accepted >= 2, done
    assert done.stdout.split() == (["1", "2"] if file else ["1"])
    assert len(node.jobs()) == (2 if file else 1)
