"""Who may do what, and input no client should send."""
import concurrent.futures
import json
import socket
import time
import urllib.parse

import pytest

from kcx_node import NodeFailed


# -- token ---------------------------------------------------------------------

@pytest.mark.parametrize("method,path", [
    ("POST", "/v1/jobs"), ("GET", "/v1/jobs"), ("GET", "/v1/jobs/1"), ("GET", "/v1/jobs/1/log"),
    ("POST", "/v1/jobs/1/cancel"), ("GET", "/v1/workers"), ("GET", "/v1/stats"), ("GET", "/v1/node"),
    ("POST", "/v1/node/drain"), ("POST", "/v1/node/faults"),
])
def test_nothing_works_without_a_token(node, method, path):
    body = {"command": "true"} if method == "POST" else None
    for token in (False, "wrong", node.token[:-1], node.token + "x"):
        response = node.request(method, path, body, token=token)
        response.problem(401, "unauthorized")
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert node.jobs() == []


def test_health_needs_no_token(node):
    assert node.request("GET", "/healthz", token=False).status == 200
    assert node.request("GET", "/readyz", token=False).status == 200


def test_a_scheme_other_than_bearer_is_refused(node):
    headers = {"Authorization": "Basic " + node.token}
    node.request("GET", "/v1/jobs", headers=headers, token=False).problem(401)


def test_the_token_stays_the_same_over_a_restart(node):
    token = node.token
    node.restart()
    assert node.token == token and node.request("GET", "/v1/jobs", token=token).status == 200


def test_the_token_is_neither_logged_nor_in_the_environment_of_a_job(node):
    job = node.run("env; cat /proc/$PPID/cmdline /proc/self/environ")
    assert node.token not in node.log(job["id"])
    assert node.token not in node.output()


def test_the_environment_of_the_node_does_not_reach_jobs(make_node):
    node = make_node().start(env={"SECRET_X": "hunter2-of-the-node"})
    job = node.run("env")
    assert "SECRET_X" not in node.log(job["id"]) and "hunter2" not in node.log(job["id"])
    assert "PATH=" in node.log(job["id"])


# -- browsers ------------------------------------------------------------------

@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_a_foreign_web_page_reaches_neither_port(node, headers):
    assert node.request("GET", "/v1/jobs", headers=headers).status in (400, 403, 421)
    assert node.request("POST", "/v1/jobs", {"command": "true"}, headers=headers).status in (400, 403, 421)
    assert node.request("GET", "/actors", headers=headers, base=node.inspect, token=False).status in (400, 403, 421)
    assert node.jobs() == []


def test_other_addresses_than_loopback_need_an_explicit_word(make_node):
    with pytest.raises(NodeFailed) as failure:
        make_node(http="0.0.0.0:0").start()
    assert "insecure" in failure.value.output and "0.0.0.0:0" in failure.value.output


# -- bad input -----------------------------------------------------------------

@pytest.mark.parametrize("body,pointer", [
    ({}, ""), ({"command": []}, "/command"), ({"command": ["a", 1]}, "/command/1"), ({"command": ""}, "/command"),
    ({"command": "true", "comand": 1}, "/comand"), ({"command": "true", "priority": 101}, "/priority"),
    ({"command": "true", "priority": "high"}, "/priority"), ({"command": "true", "env": {"A=B": "x"}}, "/env/A=B"),
    ({"command": "true", "env": {"A": 1}}, "/env/A"), ({"command": "true", "env": {"KCX_JOB_ID": "7"}}, "/env/KCX_JOB_ID"), ({"command": "true", "queue": "../x"}, "/queue"),
    ({"command": "true", "queue": "q\0"}, "/queue"), ({"command": "true", "time_limit_s": -1}, "/time_limit_s"),
    ({"command": "a\0b"}, "/command"), ({"steps": []}, "/steps"), ({"steps": [{"name": "x"}]}, "/steps/0/command"),
    ({"command": "true", "steps": [{"command": "true"}]}, "/steps"),
    ({"command": "true", "on_interrupt": "maybe"}, "/on_interrupt"),
    ({"command": "true", "run_at": "0000-01-01T00:00:00+23:59"}, "/run_at"),
    ({"command": "true", "run_at": "9999-12-31T23:59:60Z"}, "/run_at"),
])
def test_a_bad_field_is_named_by_its_pointer(node, body, pointer):
    problem = node.submit_raw(body).problem(422, "invalid_input")
    pointers = [error["pointer"] for error in problem["errors"]]
    assert any(p == pointer or pointer == "" for p in pointers), problem
    assert all(error["detail"] for error in problem["errors"])
    assert node.jobs() == []


@pytest.mark.parametrize("body", [
    b"", b"{", b"nonsense", b'{"command": "true"} x', b"\xff\xfe", b'{"command": "\xff"}', b"[" * 100000,
], ids=["empty", "cut", "a word", "more behind", "bytes", "no UTF-8", "100,000 deep"])
def test_a_body_that_is_no_json_is_refused(node, body):
    response = node.submit_raw(body)
    assert response.status in (400, 422), (response.status, response.body)
    response.problem(response.status)
    assert node.jobs() == []


@pytest.mark.parametrize("path,status", [
    ("/v1/jobs/999999", 404), ("/v1/jobs/abc", 404), ("/v1/jobs/-1", 404), ("/v1/jobs/99999999999999999999", 404),
    ("/v1/jobs/999999/log", 404), ("/v1/nothing", 404), ("/", 404), ("/v1/jobs?limit=0", 400),
    ("/v1/jobs?limit=x", 400), ("/v1/jobs?state=dancing", 400), ("/v1/jobs?state=", 400), ("/v1/jobs?cursor=%00", 400),
    ("/v1/jobs/../../etc/passwd", 404),
])
def test_a_wrong_address_is_a_problem_document(node, path, status):
    response = node.request("GET", path)
    assert response.status in (status, 400, 404), (response.status, response.body)
    response.problem(response.status)


def test_a_wrong_method_names_the_right_ones(node):
    response = node.request("DELETE", "/v1/workers")
    response.problem(405)
    assert "GET" in response.headers["Allow"]


def test_a_wrong_content_type_is_refused(node):
    node.submit_raw(b"command=true", headers={"Content-Type": "application/x-www-form-urlencoded"}).problem(415)


def send_raw(node, data):
    """Sends bytes as they are and gives the status of the answer, or None if the node just closed."""
    address = urllib.parse.urlsplit(node.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        try:
            connection.sendall(data)
        except OSError:
            pass  # the node may answer and close while we still send
        try:
            answer = connection.recv(65536)
        except OSError:
            return None
    return int(answer.split()[1]) if answer else None


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(node):
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {urllib.parse.urlsplit(node.url).netloc}\r\nAuthorization: Bearer {node.token}\r\n" \
           "Content-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n"
    assert send_raw(node, head.encode()) == 413


def test_without_a_token_no_body_is_waited_for(node):
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {urllib.parse.urlsplit(node.url).netloc}\r\n" \
           "Content-Type: application/json\r\nContent-Length: 30000000\r\n\r\n"
    assert send_raw(node, head.encode()) == 401, "answered from the header alone"


def memory_peak(node):
    """The most memory the node ever had, in bytes."""
    for line in open(f"/proc/{node.pid}/status", encoding="ascii"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.mark.parametrize("token", [True, False], ids=["with a token", "without one"])
def test_a_body_of_a_gigabyte_fills_no_memory(node, token):
    node.run("true")
    before = memory_peak(node)
    address = urllib.parse.urlsplit(node.url)
    fields = [f"Host: {address.netloc}", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    fields += [f"Authorization: Bearer {node.token}"] if token else []
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(("POST /v1/jobs HTTP/1.1\r\n" + "\r\n".join(fields) + "\r\n\r\n").encode())
        try:
            for _ in range(1024):
                connection.sendall(piece)
        except OSError:
            pass  # refused long before the end
        try:
            answer = connection.recv(4096)
        except OSError:
            answer = b""
    assert not answer or answer.split()[1] == (b"413" if token else b"401"), answer
    assert memory_peak(node) - before < 100 << 20
    assert node.run("true")["state"] == "succeeded"


def test_others_are_answered_while_a_large_body_is_read(node):
    job = {"command": "true", "run_at": "2100-01-01T00:00:00Z", "env": {"A": "x" * 2000}}
    body = json.dumps([job] * 5000).encode()
    longest = 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        began = time.monotonic()
        sending = pool.submit(node.request, "POST", "/v1/jobs", body)
        while not sending.done():
            asked = time.monotonic()
            assert node.request("GET", "/healthz", token=False).status == 200
            longest = max(longest, time.monotonic() - asked)
        took = time.monotonic() - began
    assert sending.result().status == 201
    assert longest < max(0.5, took / 4), (longest, took)


def test_the_inspection_port_does_not_tell_where_the_token_lies(node):
    for path in ("/", "/actors", "/metrics"):
        assert str(node.data) not in node.request("GET", path, base=node.inspect, token=False).body.decode()


@pytest.mark.parametrize("data", [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(10000)) + b"\r\n",
    b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nxyz",
], ids=["TLS hello", "HTTP/9.9", "10,000 headers", "1 MB target", "two lengths"])
def test_no_request_can_end_the_node(node, data):
    status = send_raw(node, data)
    assert status is None or 400 <= status < 500 or status == 505, status
    assert node.run("true")["state"] == "succeeded"


def test_a_huge_key_is_refused(node):
    response = node.submit_raw(json.dumps({"command": "true", "k" * 1_000_000: 1}).encode())
    assert response.status in (413, 422)
    assert len(response.body) < 100_000, "the answer does not repeat the key"
