"""The scripts of a developer: what each tells of itself."""
import subprocess

import pytest

from kcx_node import PATIENCE, ROOT


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("name", ["quickstart", "setup", "build", "test", "check", "fuzz", "bench_start"])
def test_a_script_asked_for_help_tells_its_usage_and_does_nothing_else(tmp_path, name, option):
    done = subprocess.run([ROOT / "scripts" / name, option], cwd=tmp_path, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stderr == "", done
    assert f"scripts/{name}" in done.stdout and "==" not in done.stdout, done


def test_help_is_found_behind_other_options():
    done = subprocess.run([ROOT / "scripts" / "check", "format", "--help"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "scripts/check NAME" in done.stdout, done
