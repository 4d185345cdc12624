"""Needs: jobs that run after others."""
from kcx_node import wait_until


def states(node, jobs):
    return [node.wait(job["id"])["state"] for job in jobs]


def test_a_pipeline_runs_in_the_order_of_its_needs(node, tmp_path):
    order = tmp_path / "order"
    jobs = node.submit_many([
        {"ref": "deploy", "command": f"echo deploy >> {order}", "needs": ["test", {"ref": "lint", "if": "always"}]},
        {"ref": "build", "command": f"sleep 0.2; echo build >> {order}"},
        {"ref": "test", "command": f"echo test >> {order}", "needs": ["build"]},
        {"ref": "lint", "command": "exit 1"}])
    assert [job["state"] for job in jobs] == ["blocked", "queued", "blocked", "queued"]
    assert jobs[0]["needs"] == [{"id": jobs[2]["id"], "if": "success", "artifacts": False},
                                {"id": jobs[3]["id"], "if": "always", "artifacts": False}]
    assert states(node, jobs) == ["succeeded", "succeeded", "succeeded", "failed"]
    assert order.read_text().split() == ["build", "test", "deploy"]


def test_an_unmet_need_skips_what_depends_on_it(node):
    build, test, deploy, clean, notify = node.submit_many([
        {"ref": "build", "command": "exit 3"},
        {"ref": "test", "command": "true", "needs": ["build"]},
        {"ref": "deploy", "command": "true", "needs": ["test"]},
        {"ref": "clean", "command": "true", "needs": [{"ref": "deploy", "if": "always"}]},
        {"ref": "notify", "command": "true", "needs": [{"ref": "build", "if": "failure"}]}])
    for job, cause in ((test, build), (deploy, test)):
        end = node.wait(job["id"])
        assert (end["state"], end["reason"], end["attempt"]) == ("skipped", "need_failed", 0)
        assert f"job {cause['id']}" in end["message"]
    assert states(node, [clean, notify]) == ["succeeded", "succeeded"]


def test_a_job_may_need_one_that_ended_long_ago(node):
    good, bad = node.run("true"), node.run("false")
    assert node.run("true", needs=[good["id"]])["state"] == "succeeded"
    late = node.submit("true", needs=[{"id": good["id"], "if": "failure"}])
    assert (late["state"], late["reason"]) == ("skipped", "need_failed")
    assert node.run("true", needs=[{"id": bad["id"], "if": "failure"}])["state"] == "succeeded"


def test_needs_that_cannot_be_are_refused_with_their_place(node):
    def pointers(body):
        return [error["pointer"] for error in node.submit_raw(body).problem(422, "invalid_input")["errors"]]

    assert pointers({"command": "true", "needs": [99]}) == ["/needs/0"]
    assert pointers([{"command": "true"}, {"command": "true", "needs": ["x"]}]) == ["/1/needs/0"]
    assert pointers([{"command": "true", "ref": "a", "needs": ["a"]}]) == ["/0/needs/0"]
    assert sorted(pointers([{"command": "true", "ref": "a", "needs": ["b"]},
                            {"command": "true", "ref": "b", "needs": ["a"]}])) == ["/0/needs/0", "/1/needs/0"]
    assert pointers({"command": "true", "needs": [{"id": 1, "if": "maybe"}]}) == ["/needs/0/if"]
    assert pointers([{"command": "true", "ref": "a"},
                     {"command": "true", "needs": ["a", {"ref": "a", "if": "always"}]}]) == ["/1/needs/1"]
    assert node.jobs() == []
    first = node.submit("true")["id"]
    assert pointers({"command": "true", "needs": [first, {"id": first, "artifacts": True}]}) == ["/needs/1"]


def test_no_end_is_missed_while_dependents_come(node):
    """Each need may end before, while or after its dependent is stored: none may be left blocked."""
    dependents = []
    for _ in range(40):
        need = node.submit("true")
        dependents.append(node.submit("true", needs=[need["id"]]))
    assert set(states(node, dependents)) == {"succeeded"}


def test_a_blocked_job_can_be_cancelled(node, fifo):
    first = node.submit(f"read x < {fifo.path}")
    second = node.submit("true", needs=[first["id"]])
    third = node.submit("true", needs=[{"id": second["id"], "if": "always"}])
    assert node.cancel(second["id"]).status == 200
    assert node.wait(third["id"])["state"] == "succeeded"
    assert node.get("/v1/stats")["jobs"]["blocked"] == 0
    fifo.release()
    assert node.wait(first["id"])["state"] == "succeeded"


def test_blocked_jobs_survive_a_crash(make_node):
    node = make_node(slots=1).start()
    first = node.submit("echo up; sleep 100")
    skipped = node.submit("true", needs=[first["id"]])
    runs = node.submit("true", needs=[{"id": first["id"], "if": "failure"}])
    wait_until(lambda: "up" in node.log(first["id"]), what="the first has started for certain")
    node.kill9()
    node.start()
    assert states(node, [first, skipped, runs]) == ["interrupted", "skipped", "succeeded"]


def test_a_long_cascade_goes_on_after_a_crash(make_node):
    node = make_node(slots=1).start()
    root = node.submit("sleep 100")
    node.wait_for_state(root["id"], "running")
    node.submit_many([{"command": "true", "needs": [root["id"]]}] * 4000)
    assert node.cancel(root["id"]).status == 202
    wait_until(lambda: node.get("/v1/stats")["jobs"]["skipped"] > 0, what="the first piece is done")
    node.kill9()
    node.start()
    wait_until(lambda: node.get("/v1/stats")["jobs"]["skipped"] == 4000, what="all are skipped")
    assert node.get("/v1/stats")["jobs"]["blocked"] == 0


def test_a_newer_job_of_a_unique_key_starts_when_the_older_one_is_gone(node, tmp_path):
    gone = tmp_path / "gone"
    first = node.submit(f"trap 'sleep 0.5; touch {gone}; exit 1' TERM; echo up; sleep 100 & wait", unique_key="k")
    wait_until(lambda: "up" in node.log(first["id"]), what="the first has set its trap")
    second = node.submit(f"test -e {gone}", unique_key="k", on_conflict="replace")
    assert second["state"] == "blocked"
    assert node.wait(second["id"])["state"] == "succeeded"
    assert node.job(first["id"])["state"] == "cancelled"


def test_kcx_submits_jobs_with_needs(node):
    first = node.cli("submit", "--", "false").stdout.strip()
    assert node.cli("run", "--quiet", "--need", first, "--", "true").returncode == 76
    assert node.cli("run", "--quiet", "--need", f"{first}:failure", "--", "true").returncode == 0


def test_why_names_the_needs(node, fifo):
    first = node.submit(f"read x < {fifo.path}")
    node.wait_for_state(first["id"], "running")
    job = node.submit("true", needs=[{"id": first["id"], "if": "always"}])
    why = node.get(f"/v1/jobs/{job['id']}/why")
    assert why["text"] == f"It waits for the end of job {first['id']} (running).", why
    (reason,) = why["reasons"]
    assert (reason["kind"], reason["open"]) == ("needs", 1)
    assert reason["needs"] == [{"id": first["id"], "if": "always", "state": "running"}]
    fifo.release()
    assert node.wait(job["id"])["state"] == "succeeded"


def test_a_broken_chain_is_mended_by_retrying_it_in_order(node):
    first = node.submit("exit 1", name="first")
    second = node.submit("true", name="second", needs=[first["id"]])
    assert node.wait(second["id"])["state"] == "skipped"
    # A need that has ended holds no retry up.
    assert node.wait(node.post(f"/v1/jobs/{second['id']}/retry", status=201)["id"])["state"] == "succeeded"
    node.post("/v1/queues/default/pause")
    again = node.post(f"/v1/jobs/{first['id']}/retry", status=201)
    waiting = node.post(f"/v1/jobs/{second['id']}/retry", status=201)
    assert waiting["state"] == "blocked" and waiting["needs"] == [
        {"id": again["id"], "if": "success", "artifacts": False}], waiting
    node.post("/v1/queues/default/resume")
    assert node.wait(waiting["id"])["state"] == "skipped"
