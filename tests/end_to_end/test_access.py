"""Tokens with scopes, browser sessions, TLS, events: over HTTP and by the command line, on real binaries."""
import datetime
import gzip
import http.client
import json
import signal
import socket
import ssl
import subprocess
import urllib.parse

import pytest

from kcx_node import NodeFailed, wait_until


# -- tokens ----------------------------------------------------------------------------------------------------------

def test_a_token_lives_through_a_crash_and_ends_when_revoked(node):
    made = node.post("/v1/tokens", {"name": "ci", "scopes": ["read", "submit"]}, status=201)
    token = made["token"]
    assert node.request("POST", "/v1/jobs", {"command": "true"}, token=token).status == 201
    node.request("POST", "/v1/jobs/1/cancel", token=token).problem(403, "forbidden")
    node.kill9()
    node.start()
    assert node.request("GET", "/v1/jobs", token=token).status == 200
    assert node.request("DELETE", f"/v1/tokens/{made['id']}").status == 204
    node.request("GET", "/v1/jobs", token=token).problem(401, "unauthorized")
    node.kill9()
    node.start()
    node.request("GET", "/v1/jobs", token=token).problem(401, "unauthorized")


def test_a_token_is_nowhere_on_the_disk(node):
    token = node.post("/v1/tokens", {"name": "ci", "scopes": ["read"]}, status=201)["token"]
    assert node.request("GET", "/v1/jobs", token=token).status == 200
    for file in node.data.rglob("*"):
        if file.is_file():
            assert token.encode() not in file.read_bytes(), file
    assert token not in node.output()


def test_the_command_line_makes_lists_and_revokes_tokens(node):
    made = node.cli("token", "create", "nightly", "--scope", "read", "--scope", "cancel", "--expires-in", "1h",
                    "--rate-limit", "100")
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    listed = node.cli("token", "list")
    assert "nightly" in listed.stdout and "read,cancel" in listed.stdout and token not in listed.stdout
    assert node.cli("list", "--token", token, "--url", node.url, data=False).returncode == 0
    assert node.cli("token", "list", "--token", token, "--url", node.url, data=False).returncode == 4
    number = json.loads(node.cli("token", "list", "--json").stdout)["items"][0]["id"]
    assert node.cli("token", "revoke", number).returncode == 0
    assert node.cli("list", "--token", token, "--url", node.url, data=False).returncode == 4
    assert node.cli("token", "revoke", 999).returncode == 4
    assert node.cli("token", "create", "x", "--scope", "fly").returncode == 2


def opened(node, path, token, method="GET"):
    """A request under way, as (connection, response); the response has begun."""
    address = urllib.parse.urlsplit(node.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    assert response.status == 200
    return connection, response


def taken_until_cut(response):
    """What still comes of a stream that the node is to cut off."""
    try:
        return response.read()
    except http.client.IncompleteRead as cut:
        return cut.partial


def test_streams_end_with_the_token_that_opened_them(node):
    token = node.post("/v1/tokens", {"name": "reader", "scopes": ["read"]}, status=201)
    job = node.submit("while :; do echo tick; sleep 0.1; done")
    node.wait_for_state(job["id"], "running")
    events, log = (opened(node, path, token["token"]) for path in ("/v1/events", f"/v1/jobs/{job['id']}/log?follow=1"))
    assert log[1].readline() == b"tick\n" and events[1].readline() == b"retry: 1000\n"
    assert node.request("DELETE", f"/v1/tokens/{token['id']}").status == 204
    later = node.submit("true", name="later")
    taken_until_cut(log[1])  # it would go on for ever
    assert f'"job":{later["id"]}'.encode() not in taken_until_cut(events[1])
    node.request("GET", "/v1/events", token=token["token"]).problem(401, "unauthorized")
    node.cancel(job["id"])


def test_events_of_a_browser_end_with_its_session(node):
    cookie = node.request("POST", "/v1/session").headers["Set-Cookie"].split(";")[0]
    address = urllib.parse.urlsplit(node.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("GET", "/v1/events", headers={"Cookie": cookie})
    stream = connection.getresponse()
    assert stream.readline() == b"retry: 1000\n"
    assert node.request("DELETE", "/v1/session", headers={"Cookie": cookie}, token=False).status == 204
    assert b"event: job" not in taken_until_cut(stream)


def test_a_stream_that_is_silent_ends_when_its_token_expires(node):
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
    token = node.post("/v1/tokens", {"name": "brief", "scopes": ["read"], "expires_at": soon.isoformat()}, status=201)
    _, events = opened(node, "/v1/events", token["token"])
    assert b"event: job" not in taken_until_cut(events)
    node.request("GET", "/v1/jobs", token=token["token"]).problem(401, "unauthorized")


def audited(node, count, separator):
    """What the audit lines say behind the separator, once there are so many: a line follows its answer."""
    def lines():
        return [line.split(separator, 1)[1] for line in node.output().splitlines() if "audit: " in line]
    return wait_until(lambda: len(lines()) >= count and lines(), what=f"{count} lines")


def test_each_change_leaves_a_line_that_says_who_did_what_from_where(node):
    token = node.post("/v1/tokens", {"name": "ci", "scopes": ["submit"]}, status=201)["token"]
    node.request("POST", "/v1/jobs", {"command": "true"}, token=token)
    node.request("POST", "/v1/jobs", {}, token=token)
    node.get("/v1/jobs")
    lines = audited(node, 3, "audit: ")
    assert lines == ["admin from 127.0.0.1: POST /v1/tokens -> 201", "ci from 127.0.0.1: POST /v1/jobs -> 201",
                     "ci from 127.0.0.1: POST /v1/jobs -> 422"]


def test_claims_are_audited_without_their_tokens_and_signs_of_life_are_not(node):
    node.submit("true", labels=["far"])
    token = node.post("/v1/claims", {"labels": ["far"]})["items"][0]["token"]
    node.post(f"/v1/claims/{token}/renew")
    node.post("/v1/claims/renew", {"tokens": [token]})
    assert node.request("PUT", f"/v1/claims/{token}/log", b"hello").status == 200
    node.post(f"/v1/claims/{token}/complete?next=1", {"exit_code": 0})
    node.request("POST", "/v1/claims/nothing/fail").problem(404)
    lines = audited(node, 4, "from 127.0.0.1: ")
    assert lines == ["POST /v1/jobs -> 201", "POST /v1/claims -> 200", "POST /v1/claims/1.1.*/complete?next=1 -> 200",
                     "POST /v1/claims/{token}/fail -> 404"]
    assert token not in node.output()


def test_a_browser_session_works_by_cookie_alone(node):
    begun = node.request("POST", "/v1/session")
    assert begun.status == 204
    cookie = begun.headers["Set-Cookie"].split(";")[0]
    assert node.request("GET", "/v1/jobs", headers={"Cookie": cookie}, token=False).status == 200
    foreign = {"Cookie": cookie, "Origin": "http://evil.example"}
    assert node.request("POST", "/v1/jobs", {"command": "true"}, headers=foreign, token=False).status == 403
    assert node.request("DELETE", "/v1/session", headers={"Cookie": cookie}, token=False).status == 204
    node.request("GET", "/v1/jobs", headers={"Cookie": cookie}, token=False).problem(401)


# -- names and origins -------------------------------------------------------------------------------------------------

def test_a_proxys_name_and_a_pages_origin_can_be_allowed_on_both_ports(start_node):
    allowed = {"Host": "ci.example.org", "Origin": "https://ci.example.org:8443"}
    node = start_node(allow_host="ci.example.org", allow_origin="https://ci.example.org:8443")
    for base, path in ((node.url, "/v1/jobs"), (node.inspect, "/actors")):
        assert node.request("GET", path, base=base, headers=allowed).status == 200
        told = node.request("GET", path, base=base, headers={"Host": "evil.example"}).problem(421, "misdirected_request")
        assert "allow-host" in told["detail"]
        told = node.request("GET", path, base=base, headers={"Origin": "http://evil.example"})
        assert "allow-origin" in told.problem(403, "foreign_origin")["detail"]
        assert node.request("GET", path, base=base).status == 200


# -- TLS -------------------------------------------------------------------------------------------------------------

def certificate(directory, name):
    files = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-out", str(files[0]), "-keyout", str(files[1])], check=True, capture_output=True)
    return files


def served_certificate(node):
    address = urllib.parse.urlsplit(node.url)
    return ssl.get_server_certificate((address.hostname, address.port)).strip()


def test_a_node_speaks_tls_and_takes_a_new_certificate_at_sighup(make_node, tmp_path):
    pem, key = certificate(tmp_path, "first")
    node = make_node(tls_certificate=pem, tls_key=key).start()
    assert node.url.startswith("https://") and node.inspect.startswith("https://")
    first = pem.read_text().strip()
    assert served_certificate(node) == first
    ran = node.cli("run", "--ca-file", pem, "--", "echo", "over tls")
    assert ran.returncode == 0 and "over tls" in ran.stdout, ran.stderr
    assert node.cli("list").returncode == 3, "an authority that is not trusted"
    second_pem, second_key = certificate(tmp_path, "second")
    key.write_bytes(second_key.read_bytes())
    pem.write_bytes(second_pem.read_bytes())
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: served_certificate(node) == second_pem.read_text().strip(), what="the new certificate is used")
    pem.write_text("no certificate")
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "former certificate stays" in node.output(), what="the refusal is logged")
    assert served_certificate(node) == second_pem.read_text().strip()


def test_a_certificate_or_key_that_cannot_be_used_is_told_by_option_file_and_cause(make_node, tmp_path):
    pem, key = certificate(tmp_path, "only")
    missing = tmp_path / "missing.pem"
    for files, words in (((missing, key), f'tls-certificate: cannot use "{missing}": No such file or directory'),
                         ((pem, missing), f'tls-key: cannot use "{missing}": No such file or directory'),
                         ((key, key), f'tls-certificate: cannot use "{key}": it holds no certificate in PEM form')):
        with pytest.raises(NodeFailed) as failure:
            make_node(tls_certificate=files[0], tls_key=files[1]).start()
        assert failure.value.code == 2 and words in failure.value.output, failure.value.output


def test_an_old_tls_version_is_refused(make_node, tmp_path):
    pem, key = certificate(tmp_path, "only")
    node = make_node(tls_certificate=pem, tls_key=key).start()
    address = urllib.parse.urlsplit(node.url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, OSError)):
        http.client.HTTPSConnection(address.hostname, address.port, context=context, timeout=10).request("GET", "/healthz")


def test_a_client_that_sends_its_whole_body_over_tls_reads_why_it_is_refused(make_node, tmp_path):
    pem, key = certificate(tmp_path, "only")
    node = make_node(tls_certificate=pem, tls_key=key).start()
    address = urllib.parse.urlsplit(node.url)
    context = ssl.create_default_context(cafile=str(pem))
    connection = http.client.HTTPSConnection(address.hostname, address.port, context=context, timeout=10)
    # Not read while the body is sent: a connection that broke meanwhile would raise here.
    connection.request("POST", "/v1/jobs", b"x" * 20_000_000, {"Authorization": "Bearer none"})
    answer = connection.getresponse()
    assert answer.status == 401 and json.loads(answer.read())["code"] == "unauthorized"


# -- events ----------------------------------------------------------------------------------------------------------

class Events:
    """A follower of /v1/events, as a browser would be one."""

    def __init__(self, node, query="", last=None):
        address = urllib.parse.urlsplit(node.url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        headers = {"Authorization": f"Bearer {node.token}", "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection.request("GET", "/v1/events" + query, headers=headers)
        self.stream = self.connection.getresponse()
        assert self.stream.status == 200, self.stream.read()
        self.last = last
        if last is None and "after" not in query:
            self.take_block()  # tells where it begins

    def take_block(self):
        fields = {}
        for raw in self.stream:
            line = raw.decode().rstrip("\n")
            if not line:
                break
            name, _, value = line.partition(": ")
            fields[name] = value
        if "id" in fields:
            self.last = int(fields["id"])
        return fields

    def take(self):
        while True:
            fields = self.take_block()
            if "data" in fields:
                return json.loads(fields["data"])

    def close(self):
        self.connection.close()


def test_state_changes_are_followed_and_resumed_over_a_crash_of_the_node(node):
    events = Events(node)
    first = node.submit("true")["id"]
    seen = [events.take() for _ in range(3)]
    assert [(each["job"], each["state"]) for each in seen] == [(first, "queued"), (first, "running"), (first, "succeeded")]
    assert seen[1]["worker"] and seen[1]["attempt"] == 1 and seen[0]["queue"] == "default"
    events.close()
    second = node.run("true")["id"]
    node.kill9()
    node.start()
    third = node.run("exit 3")["id"]
    resumed = Events(node, last=events.last)
    got = [resumed.take() for _ in range(6)]
    assert [(each["job"], each["state"]) for each in got] == [
        (second, "queued"), (second, "running"), (second, "succeeded"),
        (third, "queued"), (third, "running"), (third, "failed")]
    numbers = [each["id"] for each in seen + got]
    assert numbers == sorted(set(numbers))


def test_events_are_chosen_by_project_and_job(node):
    node.run("true", project="other")
    mine = node.run("true", project="mine")["id"]
    assert [Events(node, "?after=0&project=mine").take()["job"]] == [mine]
    assert [Events(node, f"?after=0&job={mine}").take()["project"]] == ["mine"]


def test_many_followers_each_get_every_change(node):
    followers = [Events(node) for _ in range(20)]
    ids = [job["id"] for job in node.submit_many([{"command": "true"}] * 50)]
    for each in ids:
        node.wait(each)
    for follower in followers:
        assert sorted(follower.take()["job"] for _ in range(150)) == sorted(ids * 3)


def test_the_command_line_follows_events_over_a_restart(node, tmp_path):
    address = urllib.parse.urlsplit(node.url).netloc
    output = tmp_path / "events.jsonl"
    from kcx_node import BUILD
    with open(output, "wb") as out:
        follower = subprocess.Popen([str(BUILD / "kcx"), "--data", str(node.data), "--json", "events"], stdout=out,
                                    stderr=subprocess.DEVNULL)
    try:
        def lines():
            return [json.loads(line) for line in output.read_text().splitlines()]
        # It tells nothing when it has connected: submit until it sees something.
        wait_until(lambda: node.run("true") and lines(), what="the first event")
        node.kill9()
        node.start(http=address)
        last = node.run("true")["id"]
        wait_until(lambda: (last, "succeeded") in [(e["job"], e["state"]) for e in lines()], what="the last event")
        numbers = [event["id"] for event in lines()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    finally:
        follower.kill()
        follower.wait()


# -- compression -----------------------------------------------------------------------------------------------------

def test_long_json_comes_compressed_to_whoever_accepts_it(node):
    plain = node.request("GET", "/openapi.json")
    packed = node.request("GET", "/openapi.json", headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and plain.headers["Content-Encoding"] is None
    assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body) / 4
    assert node.request("GET", "/v1/node", headers={"Accept-Encoding": "gzip"}).headers["Content-Encoding"] is None


def test_the_inspection_port_takes_of_the_same_rate(start_node):
    node = start_node()
    token = node.post("/v1/tokens", {"name": "few", "scopes": ["read"], "rate_limit": 3}, status=201)["token"]
    who = {"Authorization": f"Bearer {token}"}
    statuses = [node.request("GET", "/jobs", headers=who, token=False, base=node.inspect).status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    node.request("GET", "/v1/jobs", headers=who, token=False).problem(429, "rate_limited")


def test_the_inspection_port_reads_no_body_without_a_token(node):
    host, port = node.inspect.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(f"POST /session HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 60000\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_nodes_of_one_machine_keep_their_sessions_apart(node, start_node):
    other = start_node()
    jar = [each.request("POST", "/v1/session").headers["Set-Cookie"].split(";")[0] for each in (node, other)]
    for each in (node, other):
        assert each.request("GET", "/v1/jobs", headers={"Cookie": "; ".join(jar)}, token=False).status == 200


def test_an_empty_filter_cancels_nothing(node):
    job = node.submit("sleep 60")["id"]
    problem = node.request("POST", "/v1/jobs/cancel", {"name": ""}).problem(422, "invalid_input")
    assert problem["errors"] == [{"pointer": "/name", "detail": "must not be empty"}]
    assert node.job(job)["state"] in ("queued", "running")


def test_an_empty_secret_signs_nothing(node):
    refused = node.request("PUT", "/v1/projects/web/webhook", {"url": "http://127.0.0.1:1/", "secret": ""})
    assert refused.problem(422)["errors"][0]["pointer"] == "/secret"
