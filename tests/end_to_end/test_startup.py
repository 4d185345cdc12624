"""Starting and stopping a node: what is refused, in which words, and what is left untouched."""
import hashlib
import json
import os
import re
import signal
import socket
import sqlite3
import stat

import pytest

from kcx_node import ROOT, NodeFailed, processes_matching, unique_sleep, wait_until


def refused(node, **options):
    with pytest.raises(NodeFailed) as failure:
        node.start(**options)
    assert failure.value.code not in (0, -signal.SIGABRT, -signal.SIGSEGV), failure.value.output
    return failure.value.output


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- ready and stop ------------------------------------------------------------

def test_a_node_needs_no_configuration_and_says_where_it_listens(node):
    facts = json.loads((node.data / "node.json").read_text())
    assert facts["pid"] == node.pid and re.fullmatch(r"\d+\.\d+\.\d+.*", facts["version"])
    # node.json is there a moment before the lines are.
    wait_until(lambda: facts["http"] in node.output() and facts["inspect"] in node.output(), what="the addresses")
    assert stat.S_IMODE((node.data / "admin.token").stat().st_mode) == 0o600
    assert stat.S_IMODE(node.data.stat().st_mode) & 0o066 == 0, "only its owner sees what is in the data directory"
    assert stat.S_IMODE((node.data / "kcx.db").stat().st_mode) == 0o600


def test_sigterm_stops_an_idle_node_with_exit_code_0(node):
    node.run("true")
    assert node.terminate() == 0
    assert processes_matching(str(node.data)) == []


def test_sigterm_lets_a_running_job_finish(node, fifo):
    job = node.submit(f"read x < {fifo.path}; echo finished")
    node.wait_for_state(job["id"], "running")
    node.process.send_signal(signal.SIGTERM)

    def draining():
        response = node.submit_raw({"command": "true"})
        return response.status == 503 and response
    response = wait_until(draining, what="new work is refused")
    response.problem(503, "draining")
    assert "Retry-After" in response.headers
    fifo.release()
    assert node.ended() == 0
    node.start()
    job = node.job(job["id"])
    assert (job["state"], job["attempt"]) == ("succeeded", 1)


def test_a_second_sigterm_ends_the_drain_now(node):
    sleep = unique_sleep()
    job = node.submit(f"echo up; {sleep}", cancel_grace_s=0.5)
    assert next(node.follow(job["id"])) == "up"
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 503, what="the drain")
    assert node.terminate() == 0
    assert processes_matching(sleep) == []
    node.start()
    assert node.job(job["id"])["state"] == "interrupted"


def test_a_job_submitted_before_a_clean_stop_runs_after_it(start_node, fifo):
    node = start_node(slots=1)
    blocker = node.submit(f"read x < {fifo.path}")
    node.wait_for_state(blocker["id"], "running")
    waiting = node.submit("echo late")
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 503, what="the drain")
    fifo.release()
    assert node.ended() == 0
    node.start()
    assert node.wait(waiting["id"])["state"] == "succeeded"


# -- one node per data directory -----------------------------------------------

def test_a_second_node_on_the_same_data_is_refused_by_name_of_the_first(node, make_node):
    second = make_node(data=node.data)
    with pytest.raises(NodeFailed) as failure:
        second.start()
    assert failure.value.code != 0
    assert str(node.pid) in failure.value.output and str(node.data) in failure.value.output
    assert node.run("true")["state"] == "succeeded", "the first is not disturbed"
    assert json.loads((node.data / "node.json").read_text())["pid"] == node.pid


def test_a_port_that_is_taken_is_refused_by_name(make_node):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        output = refused(make_node(), http=address)
    assert address in output and "in use" in output


# -- wrong options -------------------------------------------------------------

@pytest.mark.parametrize("option,value", [
    ("slots", "0"), ("slots", "many"), ("slots", "-1"), ("http", "nonsense"), ("http", "127.0.0.1:99999"),
    ("inspect", "127.0.0.1:x"), ("config", "/no/such/file.ini"), ("data", "/proc/nothing"),
    ("runner", "/no/such/runner"), ("runner", "/etc/passwd"),
])
def test_a_wrong_option_is_refused_by_name_and_value(make_node, option, value):
    output = refused(make_node(), **{option: value})
    assert option in output and value in output, output


def test_an_unknown_option_is_refused(make_node):
    assert "--no-such-option" in refused(make_node(), no_such_option="1")


@pytest.mark.parametrize("line,words", [
    ("slots = none", ["slots", "none"]), ("no-such-key = 1", ["no-such-key"]), ("http = 127.0.0.1:0:0", ["http"]),
])
def test_a_wrong_line_of_the_configuration_is_refused(make_node, tmp_path, line, words):
    config = tmp_path / "node.ini"
    config.write_text(line + "\n")
    options = {"config": config, line.split()[0]: None}
    output = refused(make_node(), **options)
    assert all(word in output for word in words), output


def test_the_documented_configuration_is_accepted_as_it_is(make_node):
    node = make_node(config=ROOT / "config" / "node.ini").start()
    assert node.run("true")["state"] == "succeeded"


# -- the database is not ours --------------------------------------------------

def test_a_newer_schema_is_refused_and_not_touched(node):
    node.run("true")
    assert node.terminate() == 0
    database = node.data / "kcx.db"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    before = digest(database)
    output = refused(node)
    assert "9999" in output and str(database) in output
    assert digest(database) == before


def test_a_damaged_database_is_refused_and_not_touched(node):
    node.run("true")
    assert node.terminate() == 0
    database = node.data / "kcx.db"
    with open(database, "r+b") as file:
        file.write(os.urandom(4096))
    before = digest(database)
    output = refused(node)
    assert str(database) in output
    assert digest(database) == before
