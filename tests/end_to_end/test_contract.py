"""The OpenAPI document against the running node: every operation, and every status code it promises."""
import http.client
import json
import re
import urllib.parse

import pytest

from kcx_node import wait_until

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def world(start_node):
    """A node with a job in each state that the operations need."""
    node = start_node(fault_injection=True)
    node.document = node.get("/openapi.json")
    node.ended = node.run("echo hello")["id"]
    node.removed = node.run("true")["id"]
    assert node.request("DELETE", f"/v1/jobs/{node.removed}").status == 204
    node.secretive = node.run("true", secrets={"TOKEN": "x"})["id"]
    node.kept = node.run("mkdir d; echo hello > d/file.txt", artifacts=["d"])["id"]
    node.waiting = node.submit("true", run_at="2100-01-01T00:00:00Z", unique_key="only one")["id"]
    node.cancelled = node.submit("true", run_at="2100-01-01T00:00:00Z")["id"]
    node.cancel(node.cancelled)
    return node


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def token_with(node, scopes, **more):
    made = node.post("/v1/tokens", {"name": f"t{token_with.count}", "scopes": scopes, **more}, status=201)
    token_with.count += 1
    return made["token"]


token_with.count = 1


def filled(path):
    return path.replace("{id}", "1").replace("{name}", "node%2F1").replace("{token}", "1.1.1")


# -- what every operation has in common ------------------------------------------------------------------------------

def test_every_operation_refuses_who_has_no_token_or_the_wrong_scope(world):
    powerless = {scope: token_with(world, ["work"] if scope != "work" else ["read"])
                 for scope in ("read", "submit", "cancel", "admin", "work")}
    for method, path, operation in operations(world.document):
        scope = operation["x-kcx-scope"]
        if scope == "none":
            assert world.request(method, path, token=False).status == 200
            continue
        assert {"401", "403", "429", "default"} <= set(operation["responses"]), path
        world.request(method, filled(path), token=False).problem(401, "unauthorized")
        world.request(method, filled(path), token=powerless[scope]).problem(403, "forbidden")
        assert world.request(method, filled(path), token=powerless[scope]).status == 403


def test_every_operation_obeys_the_rate_of_its_token(world):
    slow = token_with(world, ["admin"], rate_limit=1)
    first = world.request("GET", "/v1/node", token=slow)
    assert first.status == 200 and first.headers["RateLimit-Limit"] == "1"
    assert first.headers["RateLimit-Remaining"] == "0"
    for method, path, operation in operations(world.document):
        if operation["x-kcx-scope"] == "none":
            continue
        refused = world.request(method, filled(path), token=slow)
        refused.problem(429, "rate_limited")
        assert int(refused.headers["Retry-After"]) >= 1 and refused.headers["RateLimit-Remaining"] == "0"


# -- each status code ------------------------------------------------------------------------------------------------

def running(node):
    job = node.submit("sleep 60")["id"]
    node.wait_for_state(job, "running")
    return job


def etag(node):
    return node.request("GET", f"/v1/jobs/{node.ended}").headers["ETag"]


def request(method, path, body=None, **headers):
    return lambda node: node.request(method, path.format(node=node), body,
                                     headers={name.replace("_", "-"): value for name, value in headers.items()})


def dead_letter(node):
    return node.run("exit 1", max_attempts=2, backoff_s=0)["id"]


def about_dead_letter(action):
    return lambda node: node.request("POST", f"/v1/dead-letters/{dead_letter(node)}/{action}")


def keyed(node):
    return node.request("POST", "/v1/jobs", {"command": "true", "unique_key": "only one"})


def given(node):
    return node.request("POST", "/v1/jobs", {"command": "true", "unique_key": "only one", "on_conflict": "return"})


def claimed(node):
    """The token of a claim on a job that no worker of the node takes."""
    node.submit("true", labels=["far"])
    return node.post("/v1/claims", {"worker": "far-1", "labels": ["far"]})["items"][0]["token"]


def about_claim(action, body=None, method="POST", **headers):
    return lambda node: request(method, f"/v1/claims/{claimed(node)}/{action}", body, **headers)(node)


def about_ended_claim(action, body=None, method="POST"):
    def ask(node):
        token = claimed(node)
        node.post(f"/v1/claims/{token}/complete", {"exit_code": 0})
        return node.request(method, f"/v1/claims/{token}/{action}", body)
    return ask


def about_claims(action, key="tokens"):
    def ask(node):
        tokens = [claimed(node), claimed(node), "999.1.abc"]
        items = tokens if key == "tokens" else [{"token": token} for token in tokens]
        return node.request("POST", f"/v1/claims/{action}", {key: items})
    return ask


def next_claim(node):
    node.submit("true", labels=["far"])
    return about_claim("complete?next=1", {"exit_code": 0, "claim": {"labels": ["far"]}})(node)


def claim_with_all(node):
    """A claim of a job that leaves no field empty."""
    need = node.run("echo out=1 >> $KCX_OUTPUT", name="need")["id"]
    node.submit(steps=[{"command": "true"}, {"name": "last", "command": ["true"], "always": True, "time_limit_s": 5}],
                labels=["far"], env={"A": "b"}, secrets={"S": "secret"}, needs=[need], limits={"cpus": 0.5},
                webhook={"url": "http://127.0.0.1:1/", "secret": "s"}, group="g", unique_key="far", working_dir="/tmp")
    return node.request("POST", "/v1/claims", {"worker": "far-1", "labels": ["far"], "max": 100})


def artifact_etag(node):
    return node.request("GET", f"/v1/jobs/{node.kept}/artifacts/d/file.txt").headers["ETag"]


def redelivered(node):
    job = node.run("true", webhook={"url": "http://127.0.0.1:1/", "secret": "s"})["id"]
    number = node.get(f"/v1/deliveries?job={job}")["items"][0]["id"]
    return node.request("POST", f"/v1/deliveries/{number}/redeliver")


def new_token(node):
    return node.post("/v1/tokens", {"name": "short-lived", "scopes": ["read"]}, status=201)["id"]


def first_of_stream(node, path):
    """The head of an answer that does not end."""
    address = urllib.parse.urlsplit(node.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {node.token}"})
    answer = connection.getresponse()
    answer.body = answer.readline()
    connection.close()
    return answer


# One way or several to get each answer; those that every operation has are above.
WAYS = {
    ("submitJobs", "200"): (request("POST", "/v1/jobs", b'{"command":"true"}\n', Content_Type="application/x-ndjson"),
                            given),
    ("submitJobs", "201"): (request("POST", "/v1/jobs", {"command": "true"}, Idempotency_Key="k"),
                            request("POST", "/v1/jobs", {"command": "true"}, Idempotency_Key="k"),
                            request("POST", "/v1/jobs", [{"command": "true"}])),
    ("submitJobs", "400"): request("POST", "/v1/jobs", b"{"),
    ("submitJobs", "409"): keyed,
    ("submitJobs", "413"): request("POST", "/v1/jobs", [{"command": "true"}] * 10001),
    ("submitJobs", "415"): (request("POST", "/v1/jobs", b"x", Content_Type="text/plain"),
                            request("POST", "/v1/jobs", {"command": "true"}, Content_Encoding="gzip"),
                            request("POST", "/v1/jobs", b"{}\n", Content_Type="application/x-ndjson",
                                    Content_Encoding="deflate")),
    ("submitJobs", "422"): (request("POST", "/v1/jobs", {}),
                            request("POST", "/v1/jobs", {"command": "false"}, Idempotency_Key="k")),
    ("listJobs", "200"): request("GET", "/v1/jobs"),
    ("listJobs", "400"): request("GET", "/v1/jobs?limit=0"),
    ("getJob", "200"): request("GET", "/v1/jobs/{node.ended}"),
    ("getJob", "304"): lambda node: request("GET", "/v1/jobs/{node.ended}", If_None_Match=etag(node))(node),
    ("getJob", "400"): request("GET", "/v1/jobs/{node.ended}?wait=soon"),
    ("getJob", "404"): request("GET", "/v1/jobs/999999"),
    ("getJob", "410"): request("GET", "/v1/jobs/{node.removed}"),
    ("patchJob", "200"): request("PATCH", "/v1/jobs/{node.waiting}", {"priority": 3}),
    ("patchJob", "400"): request("PATCH", "/v1/jobs/{node.waiting}", b"{"),
    ("patchJob", "404"): request("PATCH", "/v1/jobs/999999", {"priority": 3}),
    ("patchJob", "409"): request("PATCH", "/v1/jobs/{node.ended}", {"priority": 3}),
    ("patchJob", "410"): request("PATCH", "/v1/jobs/{node.removed}", {"priority": 3}),
    ("patchJob", "415"): request("PATCH", "/v1/jobs/{node.waiting}", b"x", Content_Type="text/plain"),
    ("patchJob", "422"): request("PATCH", "/v1/jobs/{node.waiting}", {"priority": 101}),
    ("removeJob", "204"): lambda node: node.request("DELETE", f"/v1/jobs/{node.run('true')['id']}"),
    ("removeJob", "404"): request("DELETE", "/v1/jobs/999999"),
    ("removeJob", "409"): request("DELETE", "/v1/jobs/{node.waiting}"),
    ("removeJob", "410"): request("DELETE", "/v1/jobs/{node.removed}"),
    ("whyJob", "200"): (request("GET", "/v1/jobs/{node.waiting}/why"), request("GET", "/v1/jobs/{node.ended}/why")),
    ("whyJob", "404"): request("GET", "/v1/jobs/999999/why"),
    ("whyJob", "410"): request("GET", "/v1/jobs/{node.removed}/why"),
    ("retryJob", "201"): request("POST", "/v1/jobs/{node.ended}/retry"),
    ("retryJob", "400"): request("POST", "/v1/jobs/{node.ended}/retry", b"{"),
    ("retryJob", "404"): request("POST", "/v1/jobs/999999/retry"),
    ("retryJob", "409"): request("POST", "/v1/jobs/{node.waiting}/retry"),
    ("retryJob", "410"): request("POST", "/v1/jobs/{node.removed}/retry"),
    ("retryJob", "415"): request("POST", "/v1/jobs/{node.ended}/retry", b"x", Content_Type="text/plain"),
    ("retryJob", "422"): request("POST", "/v1/jobs/{node.secretive}/retry"),
    ("cancelJobs", "200"): (request("POST", "/v1/jobs/cancel", {"project": "none"}),
                            request("POST", "/v1/jobs/cancel", {"group": "none"})),
    ("cancelJobs", "400"): request("POST", "/v1/jobs/cancel", b"{"),
    ("cancelJobs", "415"): request("POST", "/v1/jobs/cancel", b"x", Content_Type="text/plain"),
    ("cancelJobs", "422"): request("POST", "/v1/jobs/cancel", {}),
    ("listDeadLetters", "200"): request("GET", "/v1/dead-letters"),
    ("listDeadLetters", "400"): request("GET", "/v1/dead-letters?limit=0"),
    ("requeueDeadLetter", "201"): about_dead_letter("requeue"),
    ("requeueDeadLetter", "400"): request("POST", "/v1/dead-letters/{node.ended}/requeue", b"{"),
    ("requeueDeadLetter", "404"): request("POST", "/v1/dead-letters/999999/requeue"),
    ("requeueDeadLetter", "409"): request("POST", "/v1/dead-letters/{node.ended}/requeue"),
    ("requeueDeadLetter", "410"): request("POST", "/v1/dead-letters/{node.removed}/requeue"),
    ("requeueDeadLetter", "415"): request("POST", "/v1/dead-letters/{node.ended}/requeue", b"x",
                                          Content_Type="text/plain"),
    ("requeueDeadLetter", "422"): request("POST", "/v1/dead-letters/{node.ended}/requeue", {"secret": 1}),
    ("discardDeadLetter", "200"): about_dead_letter("discard"),
    ("discardDeadLetter", "404"): request("POST", "/v1/dead-letters/999999/discard"),
    ("discardDeadLetter", "409"): request("POST", "/v1/dead-letters/{node.ended}/discard"),
    ("discardDeadLetter", "410"): request("POST", "/v1/dead-letters/{node.removed}/discard"),
    ("requeueDeadLetters", "200"): lambda node: dead_letter(node) and node.request("POST", "/v1/dead-letters/requeue", {}),
    ("requeueDeadLetters", "400"): request("POST", "/v1/dead-letters/requeue", b"{"),
    ("requeueDeadLetters", "415"): request("POST", "/v1/dead-letters/requeue", b"x", Content_Type="text/plain"),
    ("requeueDeadLetters", "422"): request("POST", "/v1/dead-letters/requeue", {"colour": "red"}),
    ("discardDeadLetters", "200"): lambda node: dead_letter(node) and node.request("POST", "/v1/dead-letters/discard", {}),
    ("discardDeadLetters", "400"): request("POST", "/v1/dead-letters/discard", b"{"),
    ("discardDeadLetters", "415"): request("POST", "/v1/dead-letters/discard", b"x", Content_Type="text/plain"),
    ("discardDeadLetters", "422"): request("POST", "/v1/dead-letters/discard", {"colour": "red"}),
    ("pauseQueue", "200"): request("POST", "/v1/queues/other/pause"),
    ("pauseQueue", "422"): request("POST", "/v1/queues/a%20b/pause"),
    ("listQueues", "200"): request("GET", "/v1/queues"),
    ("resumeQueue", "200"): request("POST", "/v1/queues/other/resume"),
    ("cordonWorker", "200"): request("POST", "/v1/workers/node%2F1/cordon"),
    ("cordonWorker", "404"): request("POST", "/v1/workers/nobody/cordon"),
    ("uncordonWorker", "200"): request("POST", "/v1/workers/node%2F1/uncordon"),
    ("uncordonWorker", "404"): request("POST", "/v1/workers/nobody/uncordon"),
    ("patchNode", "200"): request("PATCH", "/v1/node", {"slots": 3}),
    ("patchNode", "400"): request("PATCH", "/v1/node", b"{"),
    ("patchNode", "415"): request("PATCH", "/v1/node", b"x", Content_Type="text/plain"),
    ("patchNode", "422"): request("PATCH", "/v1/node", {"slots": 0}),
    ("getLog", "200"): (request("GET", "/v1/jobs/{node.ended}/log"),
                        request("GET", "/v1/jobs/{node.ended}/log?exact=1", Accept="text/event-stream")),
    ("getLog", "206"): request("GET", "/v1/jobs/{node.ended}/log", Range="bytes=0-1"),
    ("getLog", "400"): request("GET", "/v1/jobs/{node.ended}/log?tail=x"),
    ("getLog", "404"): request("GET", "/v1/jobs/999999/log"),
    ("getLog", "410"): request("GET", "/v1/jobs/{node.removed}/log"),
    ("getLog", "416"): request("GET", "/v1/jobs/{node.ended}/log", Range="bytes=999999-"),
    ("listArtifacts", "200"): (request("GET", "/v1/jobs/{node.kept}/artifacts"),
                               request("GET", "/v1/jobs/{node.ended}/artifacts")),
    ("listArtifacts", "400"): request("GET", "/v1/jobs/{node.kept}/artifacts?attempt=x"),
    ("listArtifacts", "404"): request("GET", "/v1/jobs/999999/artifacts"),
    ("listArtifacts", "410"): request("GET", "/v1/jobs/{node.removed}/artifacts"),
    ("getArtifact", "200"): (request("GET", "/v1/jobs/{node.kept}/artifacts/d/file.txt"),
                             request("GET", "/v1/jobs/{node.kept}/artifacts/d")),
    ("getArtifact", "206"): request("GET", "/v1/jobs/{node.kept}/artifacts/d/file.txt", Range="bytes=1-2"),
    ("getArtifact", "304"): lambda node: request("GET", "/v1/jobs/{node.kept}/artifacts/d/file.txt",
                                                 If_None_Match=artifact_etag(node))(node),
    ("getArtifact", "400"): request("GET", "/v1/jobs/{node.kept}/artifacts/d/file.txt?attempt=x"),
    ("getArtifact", "404"): request("GET", "/v1/jobs/{node.kept}/artifacts/nothing"),
    ("getArtifact", "410"): request("GET", "/v1/jobs/{node.removed}/artifacts/d/file.txt"),
    ("getArtifact", "416"): request("GET", "/v1/jobs/{node.kept}/artifacts/d/file.txt", Range="bytes=999-"),
    ("claimJobs", "200"): (request("POST", "/v1/claims"), claim_with_all),
    ("claimJobs", "400"): (request("POST", "/v1/claims", b"{"), request("POST", "/v1/claims?wait=soon")),
    ("claimJobs", "415"): request("POST", "/v1/claims", b"x", Content_Type="text/plain"),
    ("claimJobs", "422"): request("POST", "/v1/claims", {"max": 0}),
    ("renewClaim", "200"): about_claim("renew"),
    ("renewClaim", "404"): request("POST", "/v1/claims/nothing/renew"),
    ("renewClaim", "409"): about_ended_claim("renew"),
    ("putClaimLog", "200"): about_claim("log", b"hello", "PUT", Content_Type="text/plain"),
    ("putClaimLog", "400"): about_claim("log?offset=x", b"hello", "PUT"),
    ("putClaimLog", "404"): request("PUT", "/v1/claims/nothing/log", b"hello"),
    ("putClaimLog", "409"): (about_claim("log?offset=5", b"hello", "PUT"), about_ended_claim("log", b"hello", "PUT")),
    ("putClaimLog", "415"): about_claim("log", b"hello", "PUT", Content_Encoding="gzip"),
    ("completeClaim", "200"): (about_claim("complete"), about_claim("complete", {"signal": 9, "outputs": {"A": "b"}}),
                               next_claim),
    ("failClaim", "200"): about_claim("fail", {"reason": "spawn_failed", "message": "no such file"}),
    ("releaseClaim", "200"): about_claim("release"),
    **{(f"{action}Claim", status): way for action in ("complete", "fail", "release") for status, way in {
        "400": about_claim(action, b"{"),
        "404": request("POST", f"/v1/claims/nothing/{action}"),
        "409": about_ended_claim(action, {"exit_code": 3} if action == "complete" else None),
        "410": request("POST", "/v1/claims/{node.removed}.1.abc/" + action),
        "415": about_claim(action, b"x", Content_Type="text/plain"),
        "422": about_claim(action, {"colour": "red"})}.items()},
    ("renewClaims", "200"): about_claims("renew"),
    ("completeClaims", "200"): about_claims("complete?next=1", "items"),
    ("failClaims", "200"): about_claims("fail", "items"),
    ("releaseClaims", "200"): about_claims("release"),
    **{(f"{action}Claims", status): way for action in ("renew", "complete", "fail", "release") for status, way in {
        "400": request("POST", f"/v1/claims/{action}", b"{"),
        "415": request("POST", f"/v1/claims/{action}", b"x", Content_Type="text/plain"),
        "422": request("POST", f"/v1/claims/{action}", {})}.items()},
    ("cancelJob", "200"): request("POST", "/v1/jobs/{node.cancelled}/cancel"),
    ("cancelJob", "202"): lambda node: node.cancel(running(node)),
    ("cancelJob", "404"): request("POST", "/v1/jobs/999999/cancel"),
    ("cancelJob", "409"): request("POST", "/v1/jobs/{node.ended}/cancel"),
    ("cancelJob", "410"): request("POST", "/v1/jobs/{node.removed}/cancel"),
    ("followEvents", "200"): lambda node: first_of_stream(node, "/v1/events"),
    ("followEvents", "400"): request("GET", "/v1/events?job=x"),
    ("listWorkers", "200"): request("GET", "/v1/workers"),
    ("getStats", "200"): request("GET", "/v1/stats"),
    ("getNode", "200"): request("GET", "/v1/node"),
    ("injectFault", "202"): request("POST", "/v1/node/faults", {"actor": "log_hub"}),
    ("injectFault", "400"): request("POST", "/v1/node/faults", b"{"),
    ("injectFault", "404"): request("POST", "/v1/node/faults", {"actor": "nobody"}),
    ("injectFault", "415"): request("POST", "/v1/node/faults", b"x", Content_Type="text/plain"),
    ("injectFault", "422"): request("POST", "/v1/node/faults", {"actor": 1}),
    ("createToken", "201"): request("POST", "/v1/tokens", {"name": "one", "scopes": ["read"]}),
    ("createToken", "400"): request("POST", "/v1/tokens", b"{"),
    ("createToken", "409"): request("POST", "/v1/tokens", {"name": "one", "scopes": ["read"]}),
    ("createToken", "415"): request("POST", "/v1/tokens", b"x", Content_Type="text/plain"),
    ("createToken", "422"): request("POST", "/v1/tokens", {"name": "two", "scopes": ["fly"]}),
    ("listTokens", "200"): request("GET", "/v1/tokens"),
    ("revokeToken", "204"): lambda node: node.request("DELETE", f"/v1/tokens/{new_token(node)}"),
    ("revokeToken", "404"): request("DELETE", "/v1/tokens/999999"),
    ("beginSession", "204"): request("POST", "/v1/session"),
    ("endSession", "204"): request("DELETE", "/v1/session"),
    ("makeSessionCode", "201"): request("POST", "/v1/session/code"),
    ("putWebhook", "200"): request("PUT", "/v1/projects/a/b/webhook", {"url": "http://127.0.0.1:1/"}),
    ("putWebhook", "400"): request("PUT", "/v1/projects/web/webhook", b"{"),
    ("putWebhook", "415"): request("PUT", "/v1/projects/web/webhook", b"x", Content_Type="text/plain"),
    ("putWebhook", "422"): request("PUT", "/v1/projects/web/webhook", {}),
    ("listWebhooks", "200"): request("GET", "/v1/webhooks"),
    ("removeWebhook", "204"): request("DELETE", "/v1/projects/a/b/webhook"),
    ("removeWebhook", "404"): request("DELETE", "/v1/projects/web/webhook"),
    ("redeliver", "202"): redelivered,
    ("redeliver", "404"): request("POST", "/v1/deliveries/999999/redeliver"),
    ("listDeliveries", "200"): request("GET", "/v1/deliveries"),
    ("listDeliveries", "400"): request("GET", "/v1/deliveries?state=lost"),
    ("getOpenapi", "200"): request("GET", "/openapi.json"),
    ("health", "200"): request("GET", "/healthz"),
    ("ready", "200"): request("GET", "/readyz"),
    # Last: after it the node stops.
    ("drainNode", "202"): request("POST", "/v1/node/drain"),
}
COMMON = {"401", "403", "429", "default"}


def matches(document, schema, value, where):
    """The parts of JSON Schema that the document uses."""
    if "$ref" in schema:
        target = document
        for key in schema["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        return matches(document, target, value, where)
    if "oneOf" in schema:
        reasons = []
        for option in schema["oneOf"]:
            try:
                matches(document, option, value, where)
                break
            except AssertionError as reason:
                reasons.append(str(reason))
        else:
            raise AssertionError(f"{where}: none of oneOf fits: {reasons}")
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
             "null": type(None)}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    fits = not types or any(isinstance(value, kinds[name]) and (name == "boolean" or not isinstance(value, bool))
                            for name in types)
    assert fits, f"{where}: {value!r} is no {types}"
    assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict):
        missing = set(schema.get("required", [])) - set(value)
        assert not missing, f"{where}: lacks {missing}"
        known = schema.get("properties")
        extra = schema.get("additionalProperties", {} if known is None else False)
        for key, each in value.items():
            inner = (known or {}).get(key, extra)
            assert inner is not False, f"{where}: {key} is not documented"
            if inner is not True:
                matches(document, inner, each, f"{where}/{key}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            matches(document, schema.get("items", {}), each, f"{where}/{number}")


def check(document, operation, status, answer):
    promised = operation["responses"][status]
    if "$ref" in promised:
        promised = document["components"]["responses"][promised["$ref"].rsplit("/", 1)[1]]
    content = promised.get("content", {})
    kind = (answer.headers["Content-Type"] or "").split(";")[0]
    fits = kind in content or "*/*" in content
    assert fits if content else not answer.body, (operation["operationId"], status, kind)
    for name in promised.get("headers", {}):
        if name not in ("Link", "Location", "ETag", "Idempotency-Replayed"):
            assert answer.headers[name], name
    if kind == "application/x-ndjson":
        assert all(isinstance(json.loads(line), dict) for line in answer.body.splitlines())
    elif kind.endswith("json"):
        matches(document, content[kind]["schema"], answer.json(), operation["operationId"])


def test_there_is_a_way_to_each_documented_answer(world):
    documented = {(operation["operationId"], status) for _, _, operation in operations(world.document)
                  for status in operation["responses"] if status not in COMMON}
    assert documented == set(WAYS)


def test_every_documented_answer_is_given_and_looks_as_documented(world):
    by_id = {operation["operationId"]: operation for _, _, operation in operations(world.document)}
    for (name, status), ways in WAYS.items():
        for way in ways if isinstance(ways, tuple) else (ways,):
            answer = way(world)
            assert str(answer.status) == status, (name, status, answer.status, answer.body)
            check(world.document, by_id[name], status, answer)
        if name == "injectFault" and status == "202":
            wait_until(lambda: world.request("GET", "/readyz", token=False).status == 200, what="the node is whole again")


def test_paths_and_methods_that_are_not_documented_are_refused(world):
    paths = world.document["paths"]

    def fits(template, path):
        return re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path)

    for path in paths:
        # "/v1/jobs/cancel" is also the path of a job, of which no other part is spelled so.
        methods = {method for other in paths for method in paths[other] if other == path or fits(other, path)}
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if method.lower() in paths[path]:
                continue
            refused = world.request(method, filled(path))
            if method.lower() in methods:
                refused.problem(404, "not_found")
                continue
            refused.problem(405, "method_not_allowed")
            allowed = set(refused.headers["Allow"].replace(" ", "").split(","))
            assert allowed - {"HEAD"} == {each.upper() for each in methods}, path
    world.request("GET", "/v1/nothing").problem(404, "unknown_path")


def test_the_examples_of_the_document_are_accepted(world):
    for _, path, operation in operations(world.document):
        for kind in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in kind and "201" in operation["responses"]:
                assert world.request("POST", path, json.dumps(kind["example"]).encode(), headers=JSON).status == 201
