"""Retrying by hand, dead letters, removing and retention."""
import os
import signal

from kcx_node import wait_until


def dead_letter(node, **spec):
    spec.setdefault("command", "exit 3")
    job = node.run(max_attempts=2, backoff_s=0.01, **spec)
    assert (job["state"], job["dead_letter"], job["attempt"]) == ("failed", True, 2)
    return job


def log_files(node):
    return sorted(name for _, _, names in os.walk(node.data / "logs") for name in names)


def test_a_final_job_is_retried_as_a_new_one(node):
    first = node.run("test $KCX_JOB_ID != 1", name="again", project="web")
    assert first["state"] == "failed"
    again = node.post(f"/v1/jobs/{first['id']}/retry", status=201)
    assert again["retry_of"] == first["id"] and again["name"] == "again" and again["project"] == "web"
    assert node.wait(again["id"])["state"] == "succeeded"
    assert node.job(first["id"])["state"] == "failed"


def test_a_job_that_has_not_ended_is_not_retried(node, fifo):
    job = node.submit(f"read x < {fifo.path}")
    assert node.request("POST", f"/v1/jobs/{job['id']}/retry").status == 409
    assert node.request("POST", "/v1/jobs/999/retry").status == 404
    fifo.release()
    node.wait(job["id"])


def test_a_retry_needs_the_secrets_again(node):
    job = node.run('test "$S" = right', secrets={"S": "wrong"})
    refused = node.request("POST", f"/v1/jobs/{job['id']}/retry")
    assert refused.status == 422 and refused.json()["errors"][0]["pointer"] == "/secrets/S"
    wrong = node.request("POST", f"/v1/jobs/{job['id']}/retry", {"secret": {}})
    assert wrong.status == 422 and wrong.json()["errors"][0]["pointer"] == "/secret"
    again = node.post(f"/v1/jobs/{job['id']}/retry", {"secrets": {"S": "right"}}, status=201)
    assert node.wait(again["id"])["state"] == "succeeded"


def test_dead_letters_are_listed_requeued_and_discarded(node):
    node.run("exit 1")
    dead = dead_letter(node)
    listed = node.get("/v1/dead-letters")["items"]
    assert [job["id"] for job in listed] == [dead["id"]]
    again = node.post(f"/v1/dead-letters/{dead['id']}/requeue", status=201)
    assert again["retry_of"] == dead["id"]
    assert node.request("POST", f"/v1/dead-letters/{dead['id']}/requeue").status == 409
    assert node.wait(again["id"])["dead_letter"]
    assert node.post(f"/v1/dead-letters/{again['id']}/discard")["dead_letter"] is False
    assert node.request("POST", f"/v1/dead-letters/{again['id']}/discard").status == 409
    assert node.get("/v1/dead-letters")["items"] == []


def test_dead_letters_are_requeued_by_filter(node):
    web = dead_letter(node, project="web")
    app = dead_letter(node, project="app")
    answer = node.post("/v1/dead-letters/requeue", {"project": "web"})
    assert (answer["matched"], answer["requeued"], answer["refused"]) == (1, 1, 0)
    assert answer["items"][0]["retry_of"] == web["id"]
    node.wait(answer["items"][0]["id"])
    answer = node.post("/v1/dead-letters/discard", {"project": "app"})
    assert (answer["matched"], answer["discarded"]) == (1, 1)
    assert not node.job(app["id"])["dead_letter"]
    refused = node.request("POST", "/v1/dead-letters/requeue", {"projects": "web"})
    assert refused.status == 422 and refused.json()["errors"][0]["pointer"] == "/projects"


def test_many_dead_letters_are_requeued_in_the_order_of_their_submission(node):
    spec = {"command": "exit 3", "max_attempts": 2, "retry_on": ["signal"], "group": "deploy", "group_limit": 50}
    dead = [job["id"] for job in node.submit_many([spec] * 205)]  # more than one page
    for job in dead:
        assert node.wait(job)["dead_letter"]
    answer = node.post("/v1/dead-letters/requeue", {"group": "deploy"})
    assert answer["requeued"] == len(dead)
    assert [each["retry_of"] for each in answer["items"]] == dead
    again = [each["id"] for each in answer["items"]]
    assert again == sorted(again)


def test_only_a_final_job_can_be_removed_and_is_gone_then(node, fifo):
    job = node.submit(f"echo some; read x < {fifo.path}")
    node.wait_for_state(job["id"], "running")
    assert node.request("DELETE", f"/v1/jobs/{job['id']}").status == 409
    fifo.release()
    node.wait(job["id"])
    assert log_files(node) == ["1-1.idx", "1-1.log"]
    assert node.request("DELETE", f"/v1/jobs/{job['id']}").status == 204
    assert node.request("GET", f"/v1/jobs/{job['id']}").status == 410
    assert node.request("GET", f"/v1/jobs/{job['id']}/log").status == 410
    assert node.request("DELETE", f"/v1/jobs/{job['id']}").status == 410
    wait_until(lambda: log_files(node) == [], what="the log is removed")
    assert node.run("true")["id"] == job["id"] + 1


def test_retention_removes_old_jobs_with_their_logs_but_no_dead_letter(start_node):
    node = start_node(keep="succeeded:1s", keep_count="failed:1")
    old = node.run("seq 1 1000")
    dead = dead_letter(node)
    failed = [node.run("exit 1")["id"] for _ in range(2)]
    wait_until(lambda: node.request("GET", f"/v1/jobs/{old['id']}").status == 410, what="the old job is removed")
    wait_until(lambda: node.request("GET", f"/v1/jobs/{failed[0]}").status == 410, what="the surplus job is removed")
    assert {job["id"] for job in node.jobs(state="failed")} == {dead["id"], failed[1]}
    wait_until(lambda: f"{old['id']}-1.log" not in log_files(node), what="the log is removed")


def test_what_a_crash_left_behind_is_removed_at_start(node):
    kept = node.run("echo kept", keep_workspace="always")
    removed = node.run("echo gone")
    left = node.submit("rm $KCX_OUTPUT; mkdir -p $KCX_OUTPUT/a/b; echo up; sleep 600")
    assert next(node.follow(left["id"])) == "up"
    # A runner that outlives its node still removes the workspace, and a node that sees its runner die does too: neither
    # may get to it.
    runners = [worker["runner_pid"] for worker in node.workers()]
    os.kill(node.pid, signal.SIGSTOP)
    for runner in runners:
        os.kill(runner, signal.SIGKILL)
    node.kill9()
    # As if the node had died between the commit and the removal of the files.
    stale = node.data / "workspaces" / f"{removed['id']}-1"
    stale.mkdir()
    (stale / "file").write_text("x")
    names = set(os.listdir(node.data / "workspaces"))
    assert {f"{kept['id']}-1", f"{left['id']}-1", f"{left['id']}-1.out"} <= names
    node.start()
    wait_until(lambda: os.listdir(node.data / "workspaces") == [f"{kept['id']}-1"], what="only the kept one is there")
    # A log whose job is gone.
    assert node.request("DELETE", f"/v1/jobs/{removed['id']}").status == 204
    wait_until(lambda: f"{removed['id']}-1.log" not in log_files(node), what="the log is removed")
    wait_until(lambda: [worker["state"] for worker in node.workers()] == ["idle", "idle"])
    node.kill9()
    (node.data / "logs" / "0" / f"{removed['id']}-1.log").write_text("left over")
    node.start()
    wait_until(lambda: f"{removed['id']}-1.log" not in log_files(node), what="the left-over log is removed")
    assert node.log(kept["id"]) == "kept\n"


def test_submissions_keep_their_latency_while_old_jobs_are_removed(start_node):
    """Hundreds of finished jobs with logs go while new ones come."""
    import statistics
    import time
    node = start_node(slots=2, keep="all:2s")
    jobs = node.submit_many([{"command": "head -c 20000 /dev/zero"} for _ in range(200)])
    node.wait(jobs[-1]["id"])
    took = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        began = time.monotonic()
        node.submit("true")
        took.append(time.monotonic() - began)
        if len(took) % 20 == 0 and node.request("GET", f"/v1/jobs/{jobs[-1]['id']}").status == 410:
            break
    assert node.request("GET", f"/v1/jobs/{jobs[0]['id']}").status == 410
    assert statistics.median(took) < 0.5 and max(took) < 5, (statistics.median(took), max(took))
