"""Order, fairness, weights, pausing, and changing what waits or takes work."""
import concurrent.futures
import datetime
import json
import threading
import time

from kcx_node import wait_until


def gate(fifo):
    return f"read x < {fifo.path}"


def started_order(node, jobs):
    done = [node.wait(job["id"]) for job in jobs]
    return [job["name"] for job in sorted(done, key=lambda job: job["started_at"])]


def test_a_paused_queue_stays_paused_over_a_restart(node):
    paused = node.post("/v1/queues/slow/pause")
    assert paused["paused"] and paused["paused_by"] == "admin"
    held = node.submit("true", queue="slow")
    assert node.run("true")["state"] == "succeeded"
    node.kill9()
    node.start()
    assert node.run("true")["state"] == "succeeded"
    assert node.job(held["id"])["state"] == "queued"
    (queue,) = node.get("/v1/queues")["items"]
    assert (queue["name"], queue["paused"], queue["queued"]) == ("slow", True, 1)
    why = node.get(f"/v1/jobs/{held['id']}/why")
    assert why["reasons"][0]["kind"] == "paused", why
    assert not node.post("/v1/queues/slow/resume")["paused"]
    assert node.wait(held["id"])["state"] == "succeeded"
    assert node.get("/v1/queues")["items"] == []


def test_pausing_reaches_jobs_that_wait_already(start_node, fifo):
    node = start_node(slots=1)
    first = node.submit(gate(fifo))
    node.wait_for_state(first["id"], "running")
    jobs = node.submit_many([{"command": "true", "queue": "slow"}, {"command": "true"}])
    node.post("/v1/queues/slow/pause")
    fifo.release()
    assert node.wait(jobs[1]["id"])["state"] == "succeeded"
    assert node.job(jobs[0]["id"])["state"] == "queued"
    node.post("/v1/queues/slow/resume")
    assert node.wait(jobs[0]["id"])["state"] == "succeeded"


def test_a_small_project_starts_within_two_free_slots(start_node, fifo):
    node = start_node(slots=1)
    first = node.submit(gate(fifo), project="a")
    node.wait_for_state(first["id"], "running")
    node.submit_many([{"command": "true", "project": "a"} for _ in range(1000)])
    other = node.submit("true", project="b")
    fifo.release()
    started = node.wait(other["id"])["started_at"]
    before = [job for job in node.jobs(project="a", state="succeeded,running", limit=1000)
              if job["started_at"] and job["started_at"] < started]
    assert len(before) <= 2, len(before)


def test_a_low_priority_runs_within_a_bound(start_node):
    """With steps of a second, 3 steps of priority are worth 3 seconds."""
    node = start_node(slots=1, ageing_step="1s")
    low = node.submit("true", priority=-1)
    deadline = time.monotonic() + 60
    while node.job(low["id"])["state"] == "queued":
        urgent = node.submit_many([{"command": "sleep 0.05", "priority": 2} for _ in range(10)])
        assert time.monotonic() < deadline, "the low one starves"
        node.wait(urgent[0]["id"])
    assert node.wait(low["id"])["state"] == "succeeded"


def test_a_label_that_no_worker_has_is_told(start_node):
    node = start_node(label="linux")
    job = node.submit("true", labels=["linux", "gpu"])
    assert node.run("true")["state"] == "succeeded"
    why = node.get(f"/v1/jobs/{job['id']}/why")
    assert why["state"] == "queued" and why["waits"]
    assert why["reasons"][0]["kind"] == "labels" and why["reasons"][0]["missing"] == ["gpu"], why
    assert "gpu" in why["text"]
    changed = node.request("PATCH", f"/v1/jobs/{job['id']}", {"labels": ["linux"]})
    assert changed.status == 200 and changed.json()["labels"] == ["linux"]
    assert node.wait(job["id"])["state"] == "succeeded"


def test_a_heavy_job_gets_its_slots_and_runs_alone(start_node, fifo):
    node = start_node(slots=2)
    first = node.submit(gate(fifo), name="first")
    node.wait_for_state(first["id"], "running")
    heavy = node.submit("sleep 0.2", name="heavy", weight=2)
    light = node.submit_many([{"command": "sleep 0.1", "name": f"light{i}"} for i in range(4)])
    why = node.get(f"/v1/jobs/{heavy['id']}/why")
    assert why["reasons"][0]["kind"] == "weight" and why["position"] == 1, why
    why = node.get(f"/v1/jobs/{light[0]['id']}/why")
    assert [each["kind"] for each in why["reasons"]] == ["turn", "reserved"], why
    assert node.job(light[0]["id"])["state"] == "queued"
    fifo.release()
    done = node.wait(heavy["id"])
    others = [node.wait(job["id"]) for job in light]
    assert all(job["started_at"] >= done["finished_at"] for job in others)


def test_a_job_heavier_than_the_node_runs_alone(node):
    assert node.run("true", weight=50)["state"] == "succeeded"


def test_why_tells_the_place_in_the_order(start_node, fifo):
    node = start_node(slots=1)
    first = node.submit(gate(fifo))
    node.wait_for_state(first["id"], "running")
    jobs = node.submit_many([{"command": "true"} for _ in range(5)])
    why = node.get(f"/v1/jobs/{jobs[3]['id']}/why")
    assert (why["position"], why["ready_jobs"]) == (4, 5), why
    assert node.get(f"/v1/jobs/{first['id']}/why")["reasons"][0]["kind"] == "running"
    told = node.cli("why", jobs[3]["id"])
    assert told.returncode == 0 and "3 jobs are handed out before it" in told.stdout, told
    fifo.release()
    node.wait(jobs[4]["id"])
    ended = node.get(f"/v1/jobs/{jobs[3]['id']}/why")
    assert not ended["waits"] and ended["reasons"][0]["kind"] == "ended"
    assert node.request("GET", "/v1/jobs/999/why").status == 404


def test_a_waiting_job_can_be_changed(start_node, fifo):
    node = start_node(slots=1)
    first = node.submit(gate(fifo))
    node.wait_for_state(first["id"], "running")
    jobs = node.submit_many([{"command": "true", "name": name} for name in "abc"])
    changed = node.request("PATCH", f"/v1/jobs/{jobs[2]['id']}", {"priority": 50}).json()
    assert changed["priority"] == 50 and changed["state"] == "queued"
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    put_off = node.request("PATCH", f"/v1/jobs/{jobs[0]['id']}", {"run_at": later}).json()
    assert put_off["state"] == "scheduled"
    assert node.get(f"/v1/jobs/{jobs[0]['id']}/why")["reasons"][0]["kind"] == "start_time"
    fifo.release()
    assert started_order(node, [jobs[1], jobs[2]]) == ["c", "b"]
    assert node.job(jobs[0]["id"])["state"] == "scheduled"
    assert node.request("PATCH", f"/v1/jobs/{jobs[0]['id']}", {"run_at": None}).status == 200
    assert node.wait(jobs[0]["id"])["state"] == "succeeded"
    assert node.request("PATCH", f"/v1/jobs/{jobs[0]['id']}", {"priority": 1}).status == 409


def test_a_wrong_change_names_the_field(node):
    job = node.submit("true", run_at="2100-01-01T00:00:00Z")
    for body, pointer in (({"priority": 101}, "/priority"), ({"run_at": "soon"}, "/run_at"),
                          ({"labels": ["a b"]}, "/labels/0"), ({"name": "x"}, "/name"), ({}, "")):
        refused = node.request("PATCH", f"/v1/jobs/{job['id']}", body)
        assert refused.status == 422, (body, refused.body)
        assert refused.json()["errors"][0]["pointer"] == pointer


def test_jobs_are_cancelled_by_filter(start_node, fifo):
    node = start_node(slots=1)
    first = node.submit(f"trap 'exit 1' TERM; {gate(fifo)}", project="a", cancel_grace_s=0.2)
    node.wait_for_state(first["id"], "running")
    node.submit_many([{"command": "true", "project": "a"} for _ in range(500)])
    other = node.submit("true", project="b")
    answer = node.post("/v1/jobs/cancel", {"project": "a"})
    assert (answer["matched"], answer["cancelled"], answer["cancelling"]) == (501, 500, 1), answer
    assert node.wait(first["id"])["state"] == "cancelled"
    assert node.wait(other["id"])["state"] == "succeeded"
    for body in ({}, {"state": "failed"}, {"state": "nonsense"}):
        assert node.request("POST", "/v1/jobs/cancel", body).status == 422


def test_a_cordoned_worker_takes_nothing_until_it_is_uncordoned(start_node):
    node = start_node(slots=2)
    wait_until(lambda: [w["state"] for w in node.workers()] == ["idle", "idle"])
    assert node.post("/v1/workers/node/1/cordon") == {"name": "node/1", "cordoned": True}
    assert {node.run("true")["worker"] for _ in range(6)} == {"node/2"}
    assert [w["cordoned"] for w in node.workers()] == [True, False]
    node.post("/v1/workers/node/2/cordon")
    held = node.submit("true")
    why = node.get(f"/v1/jobs/{held['id']}/why")
    assert why["reasons"][0]["kind"] == "slots", why
    node.post("/v1/workers/node/1/uncordon")
    assert node.wait(held["id"])["worker"] == "node/1"
    assert node.request("POST", "/v1/workers/node/9/cordon").status == 404


def test_the_number_of_slots_can_be_changed(start_node, fifo):
    node = start_node(slots=1)
    jobs = node.submit_many([{"command": "sleep 600", "cancel_grace_s": 0.1} for _ in range(3)])
    node.wait_for_state(jobs[0]["id"], "running")
    answer = node.request("PATCH", "/v1/node", {"slots": 3})
    assert answer.status == 200 and answer.json()["slots"] == 3
    for job in jobs:
        node.wait_for_state(job["id"], "running")
    assert node.request("PATCH", "/v1/node", {"slots": 1}).status == 200
    node.cancel(jobs[2]["id"]), node.cancel(jobs[1]["id"])
    wait_until(lambda: len(node.workers()) == 1, what="two workers have ended")
    assert node.job(jobs[0]["id"])["state"] == "running"
    node.cancel(jobs[0]["id"])
    assert node.run("true")["worker"] == "node/1"
    for body in ({"slots": 0}, {"slots": "2"}, {"workers": 2}, []):
        assert node.request("PATCH", "/v1/node", body).status == 422


def test_a_great_change_of_slots_is_answered_at_once_and_happens(start_node):
    node = start_node(slots=1)
    answer = node.request("PATCH", "/v1/node", {"slots": 150})
    assert answer.status == 200 and answer.json()["slots"] == 150
    assert len(node.workers()) == 150
    wait_until(lambda: all(worker["state"] == "idle" for worker in node.workers()), what="every runner is up")
    assert node.request("PATCH", "/v1/node", {"slots": 2}).json()["slots"] == 2
    wait_until(lambda: len(node.workers()) == 2, what="the others have ended")
    assert node.run("true")["state"] == "succeeded"


def test_the_command_line_speaks_of_queues_and_dead_letters(node):
    job = node.run("exit 1", max_attempts=2, backoff_s=0.01)
    assert str(job["id"]) in node.cli("dead-letters", "list").stdout
    again = json.loads(node.cli("--json", "dead-letters", "requeue", job["id"]).stdout)
    assert again["retry_of"] == job["id"]
    node.wait(again["id"])
    assert node.cli("dead-letters", "discard", again["id"]).returncode == 0
    assert node.cli("retry", job["id"]).returncode == 0
    assert node.cli("pause", "slow").returncode == 0
    assert "slow" in node.cli("queues").stdout
    assert node.cli("resume", "slow").returncode == 0
    assert node.cli("remove", job["id"]).returncode == 0
    assert node.request("GET", f"/v1/jobs/{job['id']}").status == 410
    assert node.cli("remove", job["id"]).returncode == 4
    assert node.cli("cordon", "node/1").returncode == 0 and node.cli("uncordon", "node/1").returncode == 0
    assert node.cli("node", "slots", "3").returncode == 0
    waiting = node.submit("true", run_at="2100-01-01T00:00:00Z", project="p")
    assert node.cli("change", waiting["id"], "--priority", "7").returncode == 0
    assert node.job(waiting["id"])["priority"] == 7
    assert node.cli("cancel", "--project", "p").returncode == 0
    assert node.wait(waiting["id"])["state"] == "cancelled"


def test_the_inspection_port_answers_while_workers_and_jobs_go(start_node):
    node = start_node(slots=4)
    stop = threading.Event()
    seen = []

    def look():
        while not stop.is_set():
            for path in ("/actors", "/metrics", "/"):
                seen.append(node.request("GET", path, base=node.inspect, token=False).status)

    def churn():
        for round_ in range(6):
            jobs = node.submit_many([{"command": "true"} for _ in range(20)])
            node.request("PATCH", "/v1/node", {"slots": 1 + round_ % 4})
            for job in jobs:
                node.wait(job["id"])
                assert node.request("DELETE", f"/v1/jobs/{job['id']}").status == 204

    with concurrent.futures.ThreadPoolExecutor() as pool:
        looking = pool.submit(look)
        try:
            churn()
        finally:
            stop.set()
        looking.result()
    assert len(seen) > 10 and set(seen) == {200}, set(seen)
