"""Webhooks: what is told of jobs to others' servers, through failures and crashes."""
import hashlib
import hmac
import http.server
import json
import queue
import threading

import pytest

from kcx_node import wait_until


class Receiver:
    """Somebody's server. Takes messages as `answers` say; afterwards with 204."""

    def __init__(self, port=0):
        self.messages = queue.Queue()
        self.answers = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.messages.put((self.path, dict(self.headers), body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self):
        return self.messages.get(timeout=30)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def deliveries(node, query=""):
    return node.get("/v1/deliveries" + query)["items"]


def settled(node, job, state):
    return wait_until(lambda: [d for d in deliveries(node, f"?job={job}") if d["state"] == state],
                      what=f"a delivery of job {job} that is {state}")[0]


def test_the_end_of_a_job_is_told_and_signed(node, receiver):
    hook = {"url": receiver.url + "/hook?x=1", "secret": "s3cret", "events": ["running", "failed"]}
    job = node.run("exit 3", name="build", webhook=hook)["id"]
    told = [receiver.take() for _ in range(2)]
    told.sort(key=lambda each: json.loads(each[2])["version"])
    for (path, headers, body), state in zip(told, ("running", "failed")):
        assert path == "/hook?x=1" and headers["Kcx-Event"] == f"job.{state}" and int(headers["Kcx-Delivery"]) > 0
        parts = dict(part.split("=") for part in headers["Kcx-Signature"].split(","))
        signed = hmac.new(b"s3cret", f"{parts['t']}.".encode() + body, hashlib.sha256).hexdigest()
        assert parts["v1"] == signed
        event = json.loads(body)
        assert (event["job"], event["state"], event["name"]) == (job, state, "build")
    assert json.loads(told[1][2])["exit_code"] == 3
    shown = node.get(f"/v1/jobs/{job}")["webhook"]
    assert shown == {"url": receiver.url + "/hook?x=1", "events": ["running", "failed"]}
    assert settled(node, job, "delivered")["status"] == 204


def test_a_failure_is_tried_again_until_it_is_taken(make_node, receiver):
    node = make_node(webhook_backoff="50ms").start()
    receiver.answers = [500, 302]
    job = node.run("true", webhook={"url": receiver.url})["id"]
    told = [receiver.take() for _ in range(3)]
    assert len({headers["Kcx-Delivery"] for _, headers, _ in told}) == 1
    done = settled(node, job, "delivered")
    assert done["tries"] == 3 and done["status"] == 204
    node.request("POST", f"/v1/deliveries/{done['id']}/redeliver")
    assert receiver.take()[1]["Kcx-Delivery"] == told[0][1]["Kcx-Delivery"]


def test_what_was_to_be_told_is_told_after_a_crash(make_node, receiver):
    node = make_node(webhook_backoff="50ms").start()
    port = receiver.server.server_port
    receiver.close()
    job = node.run("true", webhook={"url": f"http://127.0.0.1:{port}"})["id"]
    failed = wait_until(lambda: [d for d in deliveries(node) if d["tries"] > 0], what="a failed try")[0]
    assert failed["failure"] and failed["state"] == "pending"
    node.kill9()
    again = Receiver(port)
    node.start()
    _, headers, body = again.take()
    assert json.loads(body)["job"] == job and headers["Kcx-Delivery"] == str(failed["id"])
    assert settled(node, job, "delivered")["tries"] > failed["tries"]
    again.close()


def test_a_job_does_not_wait_for_a_receiver_that_hangs(node, receiver):
    hold = threading.Event()
    receiver.server.RequestHandlerClass.do_POST = lambda self: hold.wait(60)
    for _ in range(12):
        node.submit("true", webhook={"url": receiver.url})
    quick = Receiver()
    job = node.run("true", webhook={"url": quick.url})["id"]
    assert json.loads(quick.take()[2])["job"] == job
    assert node.terminate(timeout=8) == 0, "the node does not wait either"
    hold.set()
    quick.close()


def test_a_project_hears_of_its_jobs_until_it_has_no_webhook(node, receiver):
    hook = node.request("PUT", "/v1/projects/team/web/webhook", {"url": receiver.url, "secret": "s"})
    assert hook.status == 200 and hook.json()["signed"] is True
    assert [each["project"] for each in node.get("/v1/webhooks")["items"]] == ["team/web"]
    node.run("true", project="other")
    mine = node.run("true", project="team/web")["id"]
    assert json.loads(receiver.take()[2])["job"] == mine
    assert node.request("DELETE", "/v1/projects/team/web/webhook").status == 204
    node.run("true", project="team/web")
    assert {each["job"] for each in deliveries(node)} == {mine}


def test_a_wrong_webhook_is_refused_by_field(node):
    refused = node.submit_raw({"command": "true", "webhook": {"url": "ftp://x", "events": ["queued"]}})
    pointers = {each["pointer"] for each in refused.problem(422)["errors"]}
    assert pointers == {"/webhook/url", "/webhook/events/0"}
    for url in ("http://127.0.0.1:99999/", "http://[::1", "http://127.0.0.1:0/"):
        refused = node.submit_raw({"command": "true", "webhook": {"url": url}}).problem(422, "invalid_input")
        assert [each["pointer"] for each in refused["errors"]] == ["/webhook/url"]
        refused = node.request("PUT", "/v1/projects/web/webhook", {"url": url}).problem(422, "invalid_input")
        assert [each["pointer"] for each in refused["errors"]] == ["/url"]


def test_a_crash_of_the_sender_loses_nothing(make_node, receiver):
    node = make_node(fault_injection=True).start()
    for _ in range(3):
        node.submit("true", webhook={"url": receiver.url})
        node.post("/v1/node/faults", {"actor": "webhook_sender"}, status=202)
        told = json.loads(receiver.take()[2])["job"]
        assert settled(node, told, "delivered")


def test_the_command_line_sets_lists_and_sends_again(node, receiver, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n", encoding="ascii")
    assert node.cli("webhook", "set", "web", receiver.url, "--secret-file", secret).returncode == 0
    assert receiver.url in node.cli("webhook", "list").stdout
    job = node.run("true", project="web")["id"]
    receiver.take()
    sent = settled(node, job, "delivered")["id"]
    assert f"{sent}   {job}    succeeded" in node.cli("deliveries", "list", "--state", "delivered").stdout
    assert node.cli("deliveries", "redeliver", sent).stdout == f"delivery {sent} is sent again\n"
    assert "Kcx-Signature" in receiver.take()[1]
    assert node.cli("webhook", "remove", "web").returncode == 0
    assert node.get("/v1/webhooks")["items"] == []
    again = node.cli("webhook", "remove", "web")
    assert again.returncode == 4 and "web" in again.stderr
