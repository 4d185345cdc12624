"""The manual pages of the programs."""
import re
import subprocess

import pytest

from kcx_node import BUILD, ROOT


def page(program):
    done = subprocess.run([BUILD / program, "--man"], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


@pytest.mark.parametrize("program", ["kcx", "kcx-node"])
def test_the_page_is_sound_roff(program, tmp_path):
    file = tmp_path / f"{program}.1"
    file.write_text(page(program))
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tascii", str(file)], capture_output=True, text=True,
                          timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def plain(program, tmp_path):
    file = tmp_path / f"{program}.1"
    file.write_text(page(program))
    done = subprocess.run(["groff", "-man", "-Tascii", "-P-c", "-P-b", "-P-u", str(file)], capture_output=True, text=True,
                          timeout=30, check=True)
    return re.sub(r"\s+", " ", done.stdout)


def test_the_page_of_kcx_tells_every_command_and_option(tmp_path):
    shown = plain("kcx", tmp_path)
    completion = subprocess.run([BUILD / "kcx", "completion", "fish"], capture_output=True, text=True, timeout=30,
                                check=True).stdout
    options = set(re.findall(r" -l ([a-z]+[a-z-]*) ", completion))
    assert len(options) > 50 and {f"--{option}" for option in options} <= set(re.findall(r"--[a-z-]+", shown))
    for part in ("NAME kcx - submit CI/CD jobs", "kcx node doctor", "kcx dead-letters requeue", "EXIT STATUS", "128 + N"):
        assert part in shown, part


def test_the_page_of_the_node_tells_every_setting(tmp_path):
    shown = plain("kcx-node", tmp_path)
    for part in ("NAME kcx-node - a work queue for CI/CD jobs", "--drain-timeout DURATION", "SIGHUP", "EXIT STATUS"):
        assert part in shown, part


def test_page_and_documentation_tell_the_same_exit_codes(tmp_path):
    shown = plain("kcx", tmp_path)
    text = (ROOT / "docs/cli.md").read_text().split("## Exit codes")[1].split("\n\n")[1]
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text, re.M)[1:]
    assert len(rows) > 8
    for code, meaning in rows:
        assert f"{code} {meaning}".replace("`", "") in shown, (code, meaning)
