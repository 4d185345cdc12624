"""Many jobs in one request, a line each (NDJSON)."""
import http.client
import json
import socket
import urllib.parse

import pytest

from kcx_node import wait_until

LATER = "2100-01-01T00:00:00Z"


class Lines:
    """One such request under way: the body goes out piece by piece, and results come meanwhile."""

    def __init__(self, node, fields="Transfer-Encoding: chunked", token=None):
        address = urllib.parse.urlsplit(node.url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=30)
        self.socket.sendall(f"POST /v1/jobs HTTP/1.1\r\nHost: {address.netloc}\r\n"
                            f"Authorization: Bearer {token or node.token}\r\n"
                            f"Content-Type: application/x-ndjson\r\n{fields}\r\n\r\n".encode())
        self.answer = None

    def send(self, *jobs):
        text = "".join(json.dumps(job) + "\n" if not isinstance(job, str) else job for job in jobs).encode()
        self.socket.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")

    def finish(self):
        self.socket.sendall(b"0\r\n\r\n")

    def take(self):
        """The next line of the answer; None at its end."""
        if self.answer is None:
            self.answer = http.client.HTTPResponse(self.socket)
            self.answer.begin()
            assert self.answer.status == 200, self.answer.read()
        line = self.answer.readline()
        return json.loads(line) if line else None

    def rest(self):
        return list(iter(self.take, None))


def peak_memory(node):
    with open(f"/proc/{node.pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) // 1024


def upload(node, count):
    """Sends so many jobs while it reads; the results, the sum, and by how much the node grew in MiB."""
    before = peak_memory(node)
    lines = Lines(node)
    results, batch = [], 500
    for first in range(0, count, batch):
        lines.send(*[{"command": "true", "name": f"job {n}", "run_at": LATER, "metadata": {"pad": "x" * 100}}
                     for n in range(first, first + batch)])
        results += [lines.take() for _ in range(batch)]
    lines.finish()
    *rest, total = lines.rest()
    return results + rest, total, peak_memory(node) - before


def test_thousands_of_jobs_come_in_one_request(node):
    results, total, _ = upload(node, 5_000)
    assert total == {"accepted": 5_000, "refused": 0, "lines_read": 5_000, "complete": True}
    assert [each["line"] for each in results] == list(range(1, 5_001))
    assert len({each["id"] for each in results}) == 5_000
    assert node.get("/v1/stats")["jobs"]["scheduled"] == 5_000
    assert node.job(results[4_321]["id"])["name"] == "job 4321"


def test_no_line_is_stored_that_comes_after_its_token_was_revoked(node):
    token = node.post("/v1/tokens", {"name": "ci", "scopes": ["submit"]}, status=201)
    lines = Lines(node, token=token["token"])
    lines.send({"command": "true", "run_at": LATER})
    assert lines.take()["line"] == 1
    assert node.request("DELETE", f"/v1/tokens/{token['id']}").status == 204
    lines.send({"command": "true", "run_at": LATER}, {"command": "true", "run_at": LATER})
    *refused, total = lines.rest()
    assert [each["error"]["code"] for each in refused] == ["unauthorized"] * len(refused) and refused
    assert total["accepted"] == 1 and not total["complete"]
    assert len(node.jobs()) == 1


@pytest.mark.long
def test_a_hundred_thousand_jobs_are_not_held_in_memory(node):
    results, total, grown = upload(node, 100_000)
    assert total["accepted"] == 100_000 and total["complete"] and len(results) == 100_000
    assert node.get("/v1/stats")["jobs"]["scheduled"] == 100_000
    # The body is 17 MB; what grows is SQLite's cache and the allocator's slack.
    assert grown < 40, f"{grown} MiB"


def test_a_body_larger_than_the_limit_of_bodies_is_taken(make_node):
    node = make_node(body_limit="1K").start()
    _, total, _ = upload(node, 500)
    assert total["accepted"] == 500


def test_each_line_is_told_as_soon_as_it_is_stored(node):
    lines = Lines(node)
    lines.send({"command": "true"})
    first = lines.take()
    assert node.wait(first["id"])["state"] == "succeeded", "long before the request has ended"
    lines.send({"command": "true", "unique_key": "k", "run_at": LATER}, {"command": "true", "unique_key": "k"},
               "{broken\n", {"priority": 1}, "\n",
               {"command": "true", "unique_key": "k", "on_conflict": "return"}, {"command": "true", "needs": ["x"]})
    lines.finish()
    told = lines.rest()
    assert told[0] == {"line": 2, "id": first["id"] + 1}
    assert [each.get("error", {}).get("code") for each in told[1:4]] == ["conflict", "malformed_body", "invalid_input"]
    assert told[3]["error"]["errors"][0]["pointer"] == "/command"
    assert told[4] == {"line": 7, "id": first["id"] + 1, "existing": True}
    assert told[5]["line"] == 8 and told[5]["error"]["errors"][0]["pointer"] == "/needs/0"
    assert told[6] == {"accepted": 3, "refused": 4, "lines_read": 8, "complete": True}
    assert node.get("/v1/stats")["jobs"]["scheduled"] == 1


def test_of_a_body_that_breaks_off_only_whole_lines_are_stored(node):
    lines = Lines(node, "Content-Length: 1000")
    lines.socket.sendall(b'{"command":"true"}\n{"command":"tr')
    lines.socket.shutdown(socket.SHUT_WR)
    stored, total = lines.rest()
    assert stored == {"line": 1, "id": 1}
    assert total["complete"] is False and total["error"]["code"] == "malformed_request" and total["accepted"] == 1
    assert len(node.jobs()) == 1


def test_a_client_that_goes_away_ends_its_upload(node):
    lines = Lines(node)
    lines.send({"command": "true", "run_at": LATER})
    assert lines.take()["id"] == 1
    lines.socket.close()
    lines.answer.close()

    def uploads():
        actors = node.get("/actors", base=node.inspect)["actors"]
        return next(each for each in actors if each["name"] == "http_bridge")["status"]["uploads"]
    wait_until(lambda: uploads() == 0, what="the upload is over")


def test_what_was_told_survives_a_crash(node):
    lines = Lines(node)
    lines.send(*[{"command": "true", "run_at": LATER}] * 100)
    told = [lines.take() for _ in range(100)]
    node.kill9()
    node.start()
    assert {job["id"] for job in node.jobs(state="scheduled")} == {each["id"] for each in told}


def test_a_node_that_drains_says_so(node):
    lines = Lines(node)
    lines.send({"command": "true", "run_at": LATER})
    lines.take()
    blocker = node.submit("sleep 60")["id"]
    node.wait_for_state(blocker, "running")
    node.post("/v1/node/drain", status=202)
    lines.send({"command": "true"}, {"command": "true"})
    refused, other, total = lines.rest()
    assert refused["error"]["code"] == other["error"]["code"] == "draining"
    assert total == {"accepted": 1, "refused": 2, "lines_read": 3, "complete": False}
    node.cancel(blocker)
