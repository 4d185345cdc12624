"""The examples of the documentation are run as they stand."""
import os
import pathlib
import re
import subprocess

import pytest

from kcx_node import BUILD, ROOT

DOCUMENTS = ["README.md"] + sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))


def shell_blocks(document):
    """The code blocks fenced as `sh run`. Other blocks are shown, not run: their job numbers or builds are made up."""
    return re.findall(r"^```sh run\n(.*?)^```$", (ROOT / document).read_text(), re.M | re.S)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if shell_blocks(d)])
def test_the_shell_examples_work(make_node, document):
    node = make_node()
    node.data = node.directory / "kcx-data"
    node.start()
    # The examples are written for the root of a checkout with a node on ./kcx-data.
    (node.directory / "build").mkdir()
    (node.directory / "build" / "release").symlink_to(BUILD)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KCX_")}
    for block in shell_blocks(document):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=node.directory, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    states = {job["state"] for job in node.jobs()}
    assert states == {"succeeded"}, states


@pytest.mark.parametrize("document", DOCUMENTS + ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_links_lead_somewhere(document):
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\((?!https?://)([^)#]+)[^)]*\)", text):
        assert (pathlib.Path(ROOT / document).parent / target).exists(), f"{document} links to {target}"
