"""SIGHUP: what of the settings changes while the node runs, what does not, and what a mistake in them does."""
import signal

import pytest

from kcx_node import wait_until


@pytest.fixture
def configured(make_node, tmp_path):
    """A node with a file of settings, and how to replace them."""
    file = tmp_path / "node.ini"
    file.write_text("slots = 1\n")
    node = make_node(config=file, slots=None)
    node.start()

    def reload(text, told):
        """Gives the file this text, sends the signal and waits until the log has the words."""
        seen = len(node.output())
        file.write_text(text)
        node.process.send_signal(signal.SIGHUP)
        return wait_until(lambda: told in node.output()[seen:] and node.output()[seen:], what=told)

    return node, reload


def test_settings_that_can_change_are_in_force_after_sighup(configured):
    node, reload = configured
    job = node.run("true")
    reload("slots = 3\nkeep = all:1s\n", "SIGHUP: changed slots, keep")
    wait_until(lambda: len(node.workers()) == 3, what="three workers")
    assert node.get("/v1/node")["slots"] == 3
    assert "dropped" not in node.output()
    wait_until(lambda: node.request("GET", f"/v1/jobs/{job['id']}").status == 410, timeout=90, what="the job is removed")
    reload("slots = 3\nmin-free = 1T\n", "SIGHUP: changed min-free, keep")
    node.submit_raw({"command": "true"}).problem(507, "storage_full")
    reload("slots = 3\nlog-level = debug\n", "SIGHUP: changed min-free, log-level")
    assert node.run("true")["state"] == "succeeded"


def test_settings_that_need_a_restart_are_named_and_stay(configured):
    node, reload = configured
    told = reload("slots = 1\nreaders = 5\n", "SIGHUP: no setting changed")
    assert "SIGHUP: readers differs, but changes only when the node is started again" in told
    assert len(node.actors("reader")) == 2


def test_a_mistake_in_the_settings_changes_nothing(configured):
    node, reload = configured
    told = reload("slots = 2\nlog-level = loud\n", "SIGHUP: nothing changed")
    assert 'node.ini:2: option --log-level cannot be "loud"; allowed is debug, info, warning or error' in told
    assert node.get("/v1/node")["slots"] == 1
    assert node.run("true")["state"] == "succeeded"
