"""Every code that docs/http_api.md lists is met on a real node, by the shortest way that leads to it."""
import concurrent.futures
import contextlib
import http.client
import os
import re
import socket
import sqlite3
import tempfile
import urllib.parse

import pytest

from kcx_node import ROOT, Node, Response, unique_sleep, wait_until
from test_contract import about_ended_claim, request, token_with
from test_storage import Lock

# Of one body, and of all that a node takes at the same time.
LARGEST_BODY, ALL_BODIES = 32 << 20, 256 << 20


def documented():
    """The codes that have a section, with the status that it names."""
    problems = (ROOT / "docs" / "http_api.md").read_text().split("\n## Problems\n")[1]
    return {code: int(status) for code, status in re.findall(r"^### (\w+) \((\d+)\)$", problems, re.M)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A node for all codes that leave it as it is. A request to it is begun and never ended: that one times out while
    the other codes are met."""
    node = Node(tmp_path_factory.mktemp("codes") / "node", fault_injection=True).start()
    try:
        with connected(node) as node.half_sent:
            node.half_sent.sendall(b"GET /v1/node HTTP/1.1\r\n")
            yield node
    finally:
        node.clean_up()
        print(node.output()[-8000:])


# -- requests that no HTTP library sends ------------------------------------------------------------------------------

def connected(node):
    address = urllib.parse.urlsplit(node.url)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def head(node, line, *fields):
    lines = [line, f"Host: {urllib.parse.urlsplit(node.url).netloc}", f"Authorization: Bearer {node.token}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def answer_on(connection):
    raw = http.client.HTTPResponse(connection)
    raw.begin()
    return Response(raw)


def with_head(line, *fields):
    def send(node):
        with connected(node) as connection:
            connection.sendall(head(node, line, *fields))
            return answer_on(connection)
    return send


# -- ways that leave the node as it is --------------------------------------------------------------------------------

def with_too_narrow_a_token(node):
    return node.request("POST", "/v1/jobs", {"command": "true"}, token=token_with(node, ["read"]))


def with_a_used_up_token(node):
    token = token_with(node, ["read"], rate_limit=1)
    assert node.request("GET", "/v1/node", token=token).status == 200
    return node.request("GET", "/v1/node", token=token)


def with_a_used_key(node):
    key = {"Idempotency-Key": "used"}
    assert node.submit_raw({"command": "true"}, headers=key).status == 201
    return node.submit_raw({"command": "false"}, headers=key)


def about_a_removed_job(node):
    job = node.run("true")["id"]
    assert node.request("DELETE", f"/v1/jobs/{job}").status == 204
    return node.request("GET", f"/v1/jobs/{job}")


def log_files(node, job):
    """The log of its only attempt: the text, and the index that lies beside it."""
    found = {path.suffix: path for path in (node.data / "logs").rglob(f"{job}-1.*")}
    return found[".log"], found[".idx"]


def read_log(node, job, **headers):
    return node.request("GET", f"/v1/jobs/{job}/log", headers=headers)


def with_a_range_behind_the_log(node):
    return read_log(node, node.run("echo hello")["id"], Range="bytes=100-")


def with_a_log_that_lost_bytes(node):
    job = node.run("echo hello")["id"]
    _, index = log_files(node, job)
    os.truncate(index, index.stat().st_size // 2)
    return read_log(node, job)


def with_a_log_that_cannot_be_opened(node):
    job = node.run("echo hello")["id"]
    log, _ = log_files(node, job)
    log.unlink()
    log.symlink_to("/etc/hostname")  # which is never followed
    return read_log(node, job)


@contextlib.contextmanager
def held_up(node):
    """While somebody else writes to the file, a submission keeps the database from answering anything."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with Lock(node):
            yield pool.submit(node.submit_raw, {"command": "true"})


def with_a_held_file(node):
    with held_up(node) as submission:
        return submission.result()


def with_a_database_that_does_not_answer(node):
    with held_up(node) as submission:
        answer = wait_until(lambda: (r := node.request("GET", "/readyz", base=node.inspect)).status != 200 and r,
                            what="the database is held up")
    assert submission.result().status == 201
    return answer


WAYS = {
    "malformed_request": with_head("GET /v1/node HTTP/1.1", "Host: and another"),
    "malformed_body": request("POST", "/v1/jobs", b"{"),
    "invalid_parameter": request("GET", "/v1/jobs?limit=0"),
    "unauthorized": lambda node: node.request("GET", "/v1/jobs", token=False),
    "forbidden": with_too_narrow_a_token,
    "foreign_origin": request("GET", "/v1/jobs", Origin="http://evil.example"),
    "not_found": request("GET", "/v1/jobs/999999"),
    "unknown_path": request("GET", "/v1/nothing"),
    "method_not_allowed": request("DELETE", "/v1/workers"),
    "conflict": lambda node: node.cancel(node.run("true")["id"]),
    "stale_attempt": about_ended_claim("renew"),
    "gone": about_a_removed_job,
    "body_too_large": with_head("POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                                f"Content-Length: {LARGEST_BODY + 1}"),
    "target_too_long": request("GET", "/" + "a" * 10_000),
    "unsupported_media_type": request("POST", "/v1/jobs", b"x", Content_Type="text/plain"),
    "range_not_satisfiable": with_a_range_behind_the_log,
    "expectation_failed": request("GET", "/v1/jobs", Expect="a miracle"),
    "misdirected_request": request("GET", "/v1/jobs", Host="evil.example"),
    "invalid_input": request("POST", "/v1/jobs", {}),
    "idempotency_conflict": with_a_used_key,
    "rate_limited": with_a_used_up_token,
    "header_too_large": request("GET", "/v1/jobs", **{f"X_{n}": "y" for n in range(200)}),
    "system_failed": with_a_log_that_cannot_be_opened,
    "storage_busy": with_a_held_file,
    "storage_failed": with_a_log_that_lost_bytes,
    "timeout": with_a_database_that_does_not_answer,
    "unsupported_version": with_head("GET /v1/node HTTP/2.0"),
    # Last, as it takes the node longest.
    "request_timeout": lambda node: answer_on(node.half_sent),
}


# -- ways that need a node of their own -------------------------------------------------------------------------------

def with_a_database_that_refuses_a_write(start_node):
    node = start_node()
    with contextlib.closing(sqlite3.connect(node.data / "kcx.db", timeout=10)) as database:
        database.execute("CREATE TRIGGER closed BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'closed'); END")
    return node.submit_raw({"command": "true"})


def with_a_removed_database(start_node):
    node = start_node()
    (node.data / "kcx.db").unlink()
    return node.submit_raw({"command": "true"})


def while_the_node_drains(start_node):
    node = start_node()
    job = node.submit(unique_sleep())["id"]
    node.wait_for_state(job, "running")
    node.post("/v1/node/drain", status=202)
    return node.submit_raw({"command": "true"})


def with_a_part_that_restarts(start_node):
    node = start_node(fault_injection=True)
    job = node.submit("true", run_at="2100-01-01T00:00:00Z")["id"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = pool.submit(node.request, "GET", f"/v1/jobs/{job}?wait=60s")
        wait_until(lambda: node.actors("http_bridge")[0]["status"]["waiting"] == 1, what="the request waits")
        node.inject_fault("http_bridge")
        return asking.result()


def with_room_for_no_further_body(start_node):
    node = start_node()
    with contextlib.ExitStack() as connections:
        for _ in range(ALL_BODIES // LARGEST_BODY):
            connection = connections.enter_context(connected(node))
            connection.sendall(head(node, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                                    f"Content-Length: {LARGEST_BODY}", "Expect: 100-continue"))
            assert connection.recv(100).startswith(b"HTTP/1.1 100 "), "its room is reserved"
        return node.submit_raw({"command": "true"})


def with_a_disk_that_is_never_free_enough(start_node):
    # No disk in memory has the terabyte that is asked for.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as disk:
        node = start_node(data=disk + "/data", min_free="1T")
        try:
            return node.submit_raw({"command": "true"})
        finally:
            node.clean_up()


WAYS_OF_THEIR_OWN = {
    "internal": with_a_database_that_refuses_a_write,
    "storage_unusable": with_a_removed_database,
    "draining": while_the_node_drains,
    "outcome_unknown": with_a_part_that_restarts,
    "overloaded": with_room_for_no_further_body,
    "storage_full": with_a_disk_that_is_never_free_enough,
}


# -- the tests --------------------------------------------------------------------------------------------------------

def assert_tells(answer, code):
    document = answer.problem(documented()[code], code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert len(document["detail"].split()) >= 3, document


def test_every_documented_code_has_a_way_here():
    assert sorted([*WAYS, *WAYS_OF_THEIR_OWN]) == sorted(documented())


@pytest.mark.parametrize("code", WAYS_OF_THEIR_OWN)
def test_a_code_of_a_node_in_trouble_is_met(shared, start_node, code):
    assert_tells(WAYS_OF_THEIR_OWN[code](start_node), code)


@pytest.mark.parametrize("code", WAYS)
def test_a_code_is_met(shared, code):
    assert_tells(WAYS[code](shared), code)
