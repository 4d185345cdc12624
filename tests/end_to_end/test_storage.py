"""The disk and the database file: held by others, damaged."""
import os
import sqlite3
import threading
import time

import pytest

from kcx_node import NodeFailed


class Lock:
    """Another process' write lock on the database file."""

    def __init__(self, node):
        self.connection = sqlite3.connect(node.data / "kcx.db", timeout=10, isolation_level=None,
                                          check_same_thread=False)

    def __enter__(self):
        self.connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, *_):
        self.connection.execute("ROLLBACK")
        self.connection.close()


# -- a busy file ---------------------------------------------------------------

def test_a_file_that_is_held_for_moments_delays_and_fails_nobody(node):
    began = time.monotonic()
    running = node.submit("sleep 0.5; echo done")
    node.wait_for_state(running["id"], "running")
    with Lock(node):
        release = threading.Timer(2, lambda: None)
        release.start()
        answers = []
        submitter = threading.Thread(target=lambda: answers.append(node.submit_raw({"command": "true"})))
        submitter.start()
        release.join()
    submitter.join()
    assert answers[0].status == 201 and time.monotonic() - began > 2
    assert node.wait(running["id"])["state"] == "succeeded", "the completion waited"
    assert node.wait(answers[0].json()["id"])["state"] == "succeeded"
    assert "database is locked" not in node.output()


def test_a_file_that_is_held_long_refuses_with_retry_after_and_loses_nothing(start_node):
    node = start_node(slots=1)
    running = node.submit("sleep 0.5; echo done")
    node.wait_for_state(running["id"], "running")
    waiting = node.submit("echo waited")
    with Lock(node):
        refused = node.submit_raw({"command": "true"})
        document = refused.problem(503)
        assert document["code"] in ("storage_busy", "outcome_unknown") and refused.headers["Retry-After"]
        assert "database is locked" not in refused.body.decode()
        time_of_reads = time.monotonic()
        assert node.job(running["id"])["id"] == running["id"], "reading goes on"
        assert time.monotonic() - time_of_reads < 5
    assert node.wait(running["id"])["state"] == "succeeded", "no completion is lost"
    assert node.wait(waiting["id"])["state"] == "succeeded"
    assert node.log(running["id"]) == "done\n"
    assert "database is locked" not in node.output()


# -- a damaged file ------------------------------------------------------------

def test_damage_in_any_page_is_refused_at_start_and_nothing_is_written(node):
    jobs = node.submit_many([{"command": "true", "metadata": {"n": n, "text": "x" * 2000}} for n in range(100)])
    node.wait(jobs[-1]["id"])
    assert node.terminate() == 0
    database = node.data / "kcx.db"
    with open(database, "r+b") as file:
        for page in range(8, database.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    before = database.read_bytes()
    with pytest.raises(NodeFailed) as failure:
        node.start()
    assert str(database) in failure.value.output and "damaged" in failure.value.output
    assert len(failure.value.output.strip().splitlines()) == 1 or "warning" in failure.value.output
    assert database.read_bytes() == before
