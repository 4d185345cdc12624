"""scripts/quickstart, but for set-up and build: the programs are there already."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from kcx_node import BUILD, PATIENCE, ROOT, unique_sleep, processes_matching, wait_until


@pytest.fixture
def checkout(tmp_path):
    """A root with the script, a set-up and a build that only say that they ran, and a directory for what it makes."""
    root = tmp_path / "checkout"
    (root / "scripts").mkdir(parents=True)
    (root / "build").mkdir()
    (root / "made").mkdir()
    (root / "build" / "release").symlink_to(BUILD)
    for name in ("quickstart", "common.sh"):
        shutil.copy(ROOT / "scripts" / name, root / "scripts" / name)
    for name in ("setup", "build"):
        (root / "scripts" / name).write_text(f"#!/bin/sh\necho {name} ran\n")
        (root / "scripts" / name).chmod(0o755)
    return root


def start(checkout, *args):
    return subprocess.Popen([checkout / "scripts" / "quickstart", *args], cwd=checkout, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            env={**os.environ, "TMPDIR": str(checkout / "made")})


def run(checkout, *args):
    script = start(checkout, *args)
    out, _ = script.communicate(timeout=PATIENCE * 2)
    return script.returncode, out


def job_file(checkout, document):
    file = checkout / "job.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


def test_a_job_of_ones_own_runs_without_a_word_of_commits(checkout):
    code, out = run(checkout, "--job", job_file(checkout, {"command": "echo mine; exit 0"}))
    assert code == 0 and "setup ran" in out and "mine\n" in out and "commit" not in out, out
    assert list((checkout / "made").iterdir()) == []


def test_what_a_failed_job_leaves_is_named(checkout):
    code, out = run(checkout, "--job", job_file(checkout, {"command": "exit 3"}))
    (left,) = (checkout / "made").iterdir()
    assert code == 3 and f"what it left is in {left}\n" in out, out


@pytest.mark.parametrize("arguments,words", [(["--job"], "--job needs a file"), (["--jbo"], "--help tells"),
                                             (["--job", "none.json"], "cannot read the job file")])
def test_wrong_usage_is_told_before_anything_is_set_up(checkout, arguments, words):
    code, out = run(checkout, *arguments)
    assert code == 1 and words in out and "ran" not in out, out


@pytest.mark.parametrize("document", ["{", "[{}]", "", "{} {}"])
def test_a_file_that_is_no_job_is_told_before_anything_is_set_up(checkout, document):
    code, out = run(checkout, "--job", job_file(checkout, document))
    assert code == 1 and "no JSON object" in out and "ran" not in out, out


def test_its_help_tells_its_options(checkout):
    code, out = run(checkout, "--help")
    assert code == 0 and "--job FILE.json" in out and "--keep" in out and "ran" not in out, out


def test_interrupted_it_leaves_nothing(checkout):
    sleep = unique_sleep()
    script = start(checkout, "--job", job_file(checkout, {"command": sleep}))
    wait_until(lambda: processes_matching(sleep), what="the job runs")
    os.killpg(script.pid, signal.SIGINT)
    script.communicate(timeout=PATIENCE * 2)
    assert script.returncode == 130
    assert list((checkout / "made").iterdir()) == [] and processes_matching(sleep) == []


def test_kept_data_is_named(checkout):
    script = start(checkout, "--keep", "--job", job_file(checkout, {"command": "true"}))
    out = ""
    while "keeps running" not in out:
        line = script.stdout.readline()
        assert line, out
        out += line
    os.killpg(script.pid, signal.SIGINT)
    rest, _ = script.communicate(timeout=PATIENCE * 2)
    (kept,) = (checkout / "made").iterdir()
    assert f"the data stays in {kept}\n" in rest and pathlib.Path(kept, "node", "kcx.db").exists(), out + rest
