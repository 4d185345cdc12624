"""The disk and the database file: held by others, full, damaged."""
import contextlib
import errno
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from kcx_node import NodeFailed, processes_matching, unique_sleep, wait_until


class Lock:
    """Another process' write lock on the database file."""

    def __init__(self, node):
        self.connection = sqlite3.connect(node.data / "kcx.db", timeout=10, isolation_level=None,
                                          check_same_thread=False)

    def __enter__(self):
        self.connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, *_):
        self.connection.execute("ROLLBACK")
        self.connection.close()


# -- a busy file ---------------------------------------------------------------

def test_a_file_that_is_held_for_moments_delays_and_fails_nobody(node):
    began = time.monotonic()
    running = node.submit("sleep 0.5; echo done")
    node.wait_for_state(running["id"], "running")
    with Lock(node):
        release = threading.Timer(2, lambda: None)
        release.start()
        answers = []
        submitter = threading.Thread(target=lambda: answers.append(node.submit_raw({"command": "true"})))
        submitter.start()
        release.join()
    submitter.join()
    assert answers[0].status == 201 and time.monotonic() - began > 2
    assert node.wait(running["id"])["state"] == "succeeded", "the completion waited"
    assert node.wait(answers[0].json()["id"])["state"] == "succeeded"
    assert "database is locked" not in node.output()


def test_a_file_that_is_held_long_refuses_with_retry_after_and_loses_nothing(start_node):
    node = start_node(slots=1)
    running = node.submit("sleep 0.5; echo done")
    node.wait_for_state(running["id"], "running")
    waiting = node.submit("echo waited")
    with Lock(node):
        refused = node.submit_raw({"command": "true"})
        document = refused.problem(503)
        assert document["code"] in ("storage_busy", "outcome_unknown") and refused.headers["Retry-After"]
        assert "database is locked" not in refused.body.decode()
        time_of_reads = time.monotonic()
        assert node.job(running["id"])["id"] == running["id"], "reading goes on"
        assert time.monotonic() - time_of_reads < 5
    assert node.wait(running["id"])["state"] == "succeeded", "no completion is lost"
    assert node.wait(waiting["id"])["state"] == "succeeded"
    assert node.log(running["id"]) == "done\n"
    assert "database is locked" not in node.output()


@pytest.mark.long
def test_a_file_that_is_held_for_half_a_minute_under_load_loses_nothing(start_node):
    node = start_node(slots=4)
    acknowledged, refusals, done = [], [], threading.Event()

    def submit_on():
        while not done.is_set():
            answer = node.submit_raw({"command": "sleep 0.1; echo done"})
            if answer.status == 201:
                acknowledged.append(answer.json()["id"])
            else:
                refusals.append(answer.problem(503)["code"])
                assert answer.headers["Retry-After"] and "database is locked" not in answer.body.decode()

    load = [threading.Thread(target=submit_on) for _ in range(3)]
    for thread in load:
        thread.start()
    wait_until(lambda: len(acknowledged) > 20, what="jobs are running")
    with Lock(node):
        held = time.monotonic()
        wait_until(lambda: time.monotonic() - held > 30, timeout=40, what="half a minute has passed")
    seen = len(acknowledged)
    wait_until(lambda: len(acknowledged) > seen + 20, what="jobs are taken again")
    done.set()
    for thread in load:
        thread.join()
    assert refusals and set(refusals) <= {"storage_busy", "outcome_unknown"}
    wait_until(lambda: not node.jobs(state="queued,running", limit=1), timeout=120, what="all jobs are final")
    jobs = {job["id"]: job for job in node.jobs(limit=1000)}
    # One whose answer was unknown may be there, too; none may be lost, run twice, or have lost its end.
    assert set(acknowledged) <= set(jobs)
    assert {(job["state"], job["attempt"], job["log"]["bytes"]) for job in jobs.values()} == {("succeeded", 1, 5)}
    assert "database is locked" not in node.output()


# -- old data that goes --------------------------------------------------------

class Latencies:
    """Submits jobs one after the other beside whatever goes on, and notes how long each answer took."""

    def __init__(self, node):
        self.node, self.taken, self.done = node, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.done.wait(0.02):
            began = time.monotonic()
            assert self.node.submit_raw({"command": ["true"]}).status == 201
            self.taken.append(time.monotonic() - began)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def slow(self):
        """What only one of twenty took longer than."""
        return sorted(self.taken)[len(self.taken) * 19 // 20]


@pytest.mark.parametrize("count, keep", [(300, "2s"), pytest.param(10_000, "1m", marks=pytest.mark.long)])
def test_old_jobs_go_without_delaying_new_ones_and_their_space_is_used_again(start_node, count, keep):
    node = start_node(slots=4, keep=f"all:{keep}", compress_logs_after="0s", log_level="warning")
    with Latencies(node) as idle:
        wait_until(lambda: len(idle.taken) >= 50, what="some figures")
    sizes, removing = [], []
    for _ in range(2):
        for first in range(0, count, 100):
            jobs = node.submit_many([{"command": "head -c 100000 /dev/urandom | od -An -c | head -c 100000"}] *
                                    min(100, count - first))
            # A queue that never ends would measure how fast jobs start, not how fast old ones go.
            wait_until(lambda: node.get("/v1/stats")["jobs"]["queued"] < 200, timeout=900, what="the queue is short")
        with Latencies(node) as busy:
            wait_until(lambda: node.request("GET", f"/v1/jobs/{jobs[-1]['id']}").status == 410, timeout=300,
                       what="the jobs are removed")
        removing.append(busy.slow())
        node.post("/v1/jobs", {"command": "true"}, status=201)
        sizes.append(node.get("/v1/stats")["database_bytes"])
    assert max(removing) < max(10 * idle.slow(), 1), (removing, idle.slow())
    assert sizes[1] < sizes[0] * 1.3 + 1_000_000, sizes
    wait_until(lambda: len([path for path in (node.data / "logs").rglob("*") if path.is_file()]) < count,
               timeout=120, what="the logs are removed")


# -- a full disk ---------------------------------------------------------------

@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 MB and 4,000 files of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=4000", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place, leave):
    """A file that leaves so many bytes free."""
    ballast = place / "ballast"
    with open(ballast, "wb") as file:
        while True:
            about = os.statvfs(place)
            try:
                os.posix_fallocate(file.fileno(), 0, about.f_bavail * about.f_frsize - leave)
                return ballast
            except OSError as full:
                # A node wrote something meanwhile.
                if full.errno != errno.ENOSPC:
                    raise


class Ballast:
    """Takes all but so many bytes, or files, of a file system."""

    def __init__(self, place, leave_bytes=None, leave_files=None):
        self.place = place / "many"
        self.place.mkdir()
        if leave_bytes:
            fill(self.place, leave_bytes)
        for number in range(os.statvfs(place).f_favail - leave_files if leave_files else 0):
            (self.place / str(number)).touch()

    def unlink(self):
        shutil.rmtree(self.place)


def test_a_log_that_fills_the_disk_is_cut_and_the_node_stays(make_node, small_disk):
    node = make_node(data=small_disk / "data").start()
    job = node.run("head -c 200000000 /dev/zero | tr '\\0' a", log_limit_bytes=1 << 30)
    assert (job["state"], job["exit_code"]) == ("succeeded", 0), "the job itself does not notice"
    assert job["log"]["cut"] is True and 10_000_000 < job["log"]["bytes"] < 64_000_000
    refused = node.submit_raw({"command": "true"})
    assert refused.problem(507, "storage_full") and refused.headers["Retry-After"]
    assert node.job(job["id"])["state"] == "succeeded", "reading goes on"
    for path in (node.data / "logs").rglob("*.log"):
        path.unlink()
    accepted = wait_until(lambda: (r := node.submit_raw({"command": "true"})).status == 201 and r,
                          what="new work is taken when there is space")
    assert node.wait(accepted.json()["id"])["state"] == "succeeded"


def test_a_notice_in_the_log_tells_what_a_full_disk_swallowed(make_node, small_disk, fifo, tmp_path):
    node = make_node(data=small_disk / "data").start()
    wrote = tmp_path / "wrote"
    # The pause at the end is how long a log leaves a full disk alone before it tries again.
    job = node.submit(f"echo first; read x < {fifo.path}; head -c 1000000 /dev/zero | tr '\\0' a; touch {wrote}; "
                      f"read x < {fifo.path}; sleep 1.2; echo last")
    assert next(node.follow(job["id"])) == "first"
    ballast = fill(small_disk, 4 << 20)
    fifo.release()
    wait_until(wrote.exists, what="the output that has no room")
    ballast.unlink()
    fifo.release()
    job = node.wait(job["id"])
    assert job["state"] == "succeeded" and job["log"]["cut"]
    log = node.log(job["id"])
    assert "bytes of output are missing here" in log and log.endswith("last\n")


def test_a_job_that_fills_the_disk_with_files_fails_alone(make_node, small_disk):
    node = make_node(data=small_disk / "data").start()
    job = node.run("exec head -c 200000000 /dev/zero > big")
    assert (job["state"], job["exit_code"], job["log"]["cut"]) == ("failed", 1, True)
    assert "bytes of output are missing here: the disk has no room besides the 8388608 bytes that the option min-free " \
           "keeps for the database" in node.log(job["id"])
    assert node.run("true")["state"] == "succeeded", "the workspace went with its job, and with it the trouble"


@pytest.mark.parametrize("leave", [{"leave_bytes": 8 << 20}, {"leave_files": 500}], ids=["bytes", "files"])
def test_waiting_jobs_wait_for_space_and_then_run(make_node, small_disk, fifo, leave):
    node = make_node(data=small_disk / "data", slots=1).start()
    first = node.submit(f"read x < {fifo.path}")
    node.wait_for_state(first["id"], "running")
    waiting = node.submit("echo ran")
    ballast = Ballast(small_disk, **leave)
    # The node looks at its disk now and then, not at each request.
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 507, what="the node sees the full disk")
    fifo.release()
    assert node.wait(first["id"])["state"] == "succeeded", "what runs may end"
    wait_until(lambda: any(a["status"] and a["status"].get("disk_full") for a in node.actors("database")),
               what="the claim is held back")
    assert node.job(waiting["id"])["state"] == "queued"
    node.submit_raw({"command": "true"}).problem(507, "storage_full")
    node.request("GET", "/readyz").problem(507, "storage_full")
    ballast.unlink()
    assert node.wait(waiting["id"])["state"] == "succeeded"
    assert node.log(waiting["id"]) == "ran\n"
    assert node.request("GET", "/readyz").status == 200


def test_nothing_acknowledged_is_lost_to_a_disk_that_fills_up(make_node, small_disk):
    node = make_node(data=small_disk / "data", slots=1, min_free="0").start()
    blocker = node.submit("sleep 600")
    ballast = fill(small_disk, 1 << 20)
    acknowledged = []
    for n in range(400):
        response = node.submit_raw({"command": "true", "metadata": {"n": n, "text": "x" * 10_000}})
        if response.status == 201:
            acknowledged.append(response.json()["id"])
        else:
            response.problem(response.status)
            assert response.status in (503, 507), response.body
    assert acknowledged and len(acknowledged) < 400, "some fitted, some did not"
    ballast.unlink()
    assert [job["id"] for job in reversed(node.jobs())] == [blocker["id"]] + acknowledged
    node.cancel(blocker["id"])
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 201, what="new work is taken again")
    assert node.wait(acknowledged[-1])["state"] == "succeeded"


def fill_last_byte(node):
    """A job that fills the disk with its workspace and goes on, and what it holds."""
    sleep = unique_sleep()
    job = node.submit(f"cat /dev/zero > big; echo full; {sleep}", cancel_grace_s=1)
    wait_until(lambda: processes_matching(sleep), what="the disk is full")
    return job


def test_the_job_that_fills_the_disk_can_be_cancelled(make_node, small_disk):
    node = make_node(data=small_disk / "data", slots=2).start()
    old = node.run("true")
    reserve = node.data / "reserve"
    assert reserve.stat().st_size == 4 << 20 and reserve.stat().st_mode & 0o777 == 0o600
    for _ in range(2):
        job = fill_last_byte(node)
        # The guard looks once a second; what is taken before that comes out of the reserve.
        wait_until(lambda: node.submit_raw({"command": "true"}).status == 507, what="new work is refused")
        node.submit_raw({"command": "true"}).problem(507, "storage_full")
        if old:
            assert node.request("DELETE", f"/v1/jobs/{old['id']}").status == 204
            old = None
        node.cancel(job["id"])
        assert node.wait(job["id"])["state"] == "cancelled"
        wait_until(lambda: node.submit_raw({"command": "true"}).status == 201, what="new work is taken again")
        assert reserve.stat().st_size == 4 << 20, "made again when there was room"


def test_a_node_starts_on_a_disk_without_a_free_byte(make_node, small_disk):
    node = make_node(data=small_disk / "data", slots=1).start()
    job = fill_last_byte(node)
    ballast = small_disk / "ballast"
    node.kill9()
    ballast.write_bytes(b"")
    with contextlib.suppress(OSError), open(ballast, "ab", buffering=0) as file:
        while file.write(b"x" * 65536):
            pass
    (node.data / "node.json").unlink(missing_ok=True)
    node.start()
    assert node.job(job["id"])["state"] == "interrupted"
    ballast.unlink()
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 201, what="new work is taken again")


@pytest.mark.parametrize("stop", ["drained", "at once while it was full"])
def test_a_node_that_was_stopped_starts_on_a_disk_without_a_free_byte(make_node, small_disk, stop):
    node = make_node(data=small_disk / "data", slots=1).start()
    job = node.run("echo kept")
    wait_until((node.data / "reserve").exists, what="the reserve")
    if stop == "drained":
        assert node.terminate() == 0
    else:
        sleep = unique_sleep()
        node.wait_for_state(node.submit(sleep, cancel_grace_s=1)["id"], "running")
        fill(small_disk, 0)
        node.process.send_signal(signal.SIGTERM)
        wait_until(lambda: node.get("/v1/node")["state"] == "draining", what="the drain")
        node.process.send_signal(signal.SIGTERM)
        assert node.ended(timeout=25) == 0
    ballast = fill(small_disk, 0)
    node.start()
    assert node.log(job["id"]) == "kept\n"
    node.submit_raw({"command": "true"}).problem(507, "storage_full")
    ballast.unlink()
    wait_until(lambda: node.submit_raw({"command": "true"}).status == 201, what="new work is taken again")


def test_a_first_start_on_a_full_disk_says_so_and_the_next_one_works(make_node, small_disk):
    node = make_node(data=small_disk / "data")
    ballast = fill(small_disk, 0)
    with pytest.raises(NodeFailed) as failure:
        node.start()
    assert failure.value.code == 1
    told = failure.value.output.strip().splitlines()[-1]
    assert told.endswith("No space left on device") and str(node.data) in told, told
    ballast.unlink()
    assert node.start().run("true")["state"] == "succeeded"


def test_a_log_of_which_nothing_could_be_stored_is_not_shown_as_empty(make_node, small_disk, fifo):
    node = make_node(data=small_disk / "data", slots=1).start()
    job = node.submit(f"read x < {fifo.path}; echo done; exit 5")
    node.wait_for_state(job["id"], "running")
    wait_until((node.data / "reserve").exists, what="the reserve")
    (node.data / "reserve").unlink()
    ballast = fill(small_disk, 0)
    fifo.release()
    index = node.data / "logs" / "0" / f"{job['id']}-1.idx"
    wait_until(lambda: index.read_bytes()[-2] == 5, what="the record that ends the log")
    ballast.unlink()
    job = node.wait(job["id"])
    assert (job["exit_code"], job["log"]) == (5, {"bytes": 0, "cut": True})
    told = "kcx: output is missing in this log: it could not be stored\n"
    assert node.log(job["id"]) == node.log(job["id"], timestamps=1) == told
    assert node.cli("logs", str(job["id"])).stdout == told
    assert list(node.follow(job["id"])) == [told.rstrip("\n")]


def test_no_work_is_taken_in_any_way_once_the_disk_is_full(make_node, small_disk):
    node = make_node(data=small_disk / "data", slots=1).start()
    failed = node.run("false")
    node.submit("true", queue="elsewhere")
    fill(small_disk, 1 << 20)
    time.sleep(0.2)  # The node looks at its disk ten times a second.
    node.submit_raw({"command": "true"}).problem(507, "storage_full")
    node.request("POST", f"/v1/jobs/{failed['id']}/retry").problem(507, "storage_full")
    assert [job["id"] for job in node.jobs()] == [failed["id"] + 1, failed["id"]]


@pytest.fixture
def held_file(tmp_path):
    """Keeps results from being stored: another process holds the file."""
    @contextlib.contextmanager
    def hold(node):
        with Lock(node):
            yield
    return tmp_path / "data", hold


@pytest.fixture
def full_disk(small_disk):
    """Keeps results from being stored: not a byte is left."""
    @contextlib.contextmanager
    def hold(node):
        (node.data / "reserve").unlink(missing_ok=True)
        ballast = fill(small_disk, 0)
        # A write-ahead log that was begun anew has room inside of it.
        while node.submit_raw({"command": "true"}).status == 201:
            pass
        yield
        ballast.unlink()
    return small_disk / "data", hold


@pytest.mark.parametrize("trouble", ["held_file", "full_disk"])
def test_a_node_that_cannot_store_results_ends_at_the_second_signal(make_node, request, trouble):
    data, hold = request.getfixturevalue(trouble)
    node = make_node(data=data, slots=2, min_free="0").start()
    sleep = unique_sleep()
    jobs = node.submit_many([{"command": f"echo up; {sleep}", "cancel_grace_s": 1} for _ in range(2)])
    for job in jobs:
        node.wait_for_state(job["id"], "running")
        assert next(node.follow(job["id"])) == "up"
    with hold(node):
        node.process.send_signal(signal.SIGTERM)
        wait_until(lambda: node.get("/v1/node")["state"] == "draining", what="the drain")
        node.process.send_signal(signal.SIGTERM)
        assert node.ended(timeout=25) == 0
    for job in jobs:
        assert f"giving up the result of attempt 1 of job {job['id']}" in node.output()
    assert processes_matching(sleep) == []
    node.start()
    for job in jobs:
        job = node.job(job["id"])
        assert (job["state"], job["reason"], job["attempt"]) == ("interrupted", "node_restarted", 1)


# -- a damaged file ------------------------------------------------------------

def test_damage_in_any_page_is_refused_at_start_and_nothing_is_written(node):
    jobs = node.submit_many([{"command": "true", "metadata": {"n": n, "text": "x" * 2000}} for n in range(100)])
    node.wait(jobs[-1]["id"])
    assert node.terminate() == 0
    database = node.data / "kcx.db"
    with open(database, "r+b") as file:
        for page in range(8, database.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    before = database.read_bytes()
    with pytest.raises(NodeFailed) as failure:
        node.start()
    assert str(database) in failure.value.output and "damaged" in failure.value.output
    assert len(failure.value.output.strip().splitlines()) == 1 or "warning" in failure.value.output
    assert database.read_bytes() == before


@pytest.mark.parametrize("harm", ["removed", "emptied", "replaced"])
def test_a_database_file_that_is_taken_away_stops_all_writing(start_node, harm):
    node = start_node(slots=1)
    node.run("true")
    database = node.data / "kcx.db"
    if harm == "removed":
        database.unlink()
    elif harm == "emptied":
        os.truncate(database, 0)
    else:
        copy = database.with_name("copy")
        copy.write_bytes(database.read_bytes())
        copy.rename(database)
    for _ in range(2):
        problem = node.submit_raw({"command": "true"}).problem(500, "storage_unusable")
        assert "was removed, replaced or emptied while the node runs" in problem["detail"]
        for port in (node.url, node.inspect):
            assert node.request("GET", "/readyz", base=port).problem(500, "storage_unusable")["detail"] == problem["detail"]
    assert node.terminate() == 0


def test_damage_found_while_the_node_runs_stops_writing_with_one_clear_sentence(node):
    jobs = node.submit_many([{"command": "true", "metadata": {"n": n, "text": "x" * 2000}} for n in range(200)])
    node.wait(jobs[-1]["id"])
    node.restart()
    database = node.data / "kcx.db"
    seen = len(node.output())
    with open(database, "r+b") as file:
        for page in range(8, database.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    refused = wait_until(lambda: (r := node.submit_raw({"command": "true"})).status != 201 and r, what="a refusal")
    problem = refused.problem(500, "storage_unusable")
    assert str(database) in problem["detail"] and "damaged" in problem["detail"]
    before = database.read_bytes()
    for _ in range(3):
        assert node.submit_raw({"command": "true"}).problem(500, "storage_unusable")["detail"] == problem["detail"]
    assert node.request("GET", "/healthz", token=False).status == 200
    told = [line for line in node.output()[seen:].splitlines() if "damaged" in line]
    assert len(told) == 1 and problem["detail"] in told[0], told
    node.terminate()
    assert database.read_bytes() == before, "a damaged file is not written to"


UNREADABLE = {
    "no JSON": "UPDATE job_specs SET spec = '{' WHERE job = :job",
    "no job": "UPDATE job_specs SET spec = '{\"command\": 5}' WHERE job = :job",
    "a year of five digits": "UPDATE job_specs SET spec = json_set(spec, '$.run_at', '10000-01-01T00:00:00.000Z') "
                             "WHERE job = :job",
    "nothing": "DELETE FROM job_specs WHERE job = :job",
    "labels": "UPDATE jobs SET labels = '{' WHERE id = :job",
}


@pytest.mark.parametrize("harm", UNREADABLE)
def test_a_stored_job_that_cannot_be_read_is_alone_with_it(start_node, harm):
    node = start_node(slots=1)
    fence = node.submit("sleep 1000")["id"]
    node.wait_for_state(fence, "running")
    queued = node.submit("true", name="poisoned", group="g", project="p")["id"]
    behind = node.submit("true", group="g")["id"]
    dependent = node.submit("true", needs=[{"id": queued, "if": "always"}])["id"]
    waiting = node.submit("true", run_at="2100-01-01T00:00:00Z")["id"]
    node.kill9()
    with sqlite3.connect(node.data / "kcx.db") as database:
        for job in (queued, waiting):
            database.execute(UNREADABLE[harm], {"job": job})
    database.close()
    node.start()
    poisoned = node.wait(queued)
    assert (poisoned["state"], poisoned["reason"]) == ("failed", "spawn_failed")
    assert "cannot be read" in poisoned["message"]
    assert (poisoned["name"], poisoned["project"]) == ("poisoned", "p")
    for job in (behind, dependent, node.submit("true")["id"]):
        assert node.wait(job)["state"] == "succeeded"
    listed = {job["id"]: job for job in node.get("/v1/jobs")["items"]}
    assert {queued, behind, dependent, waiting} <= set(listed)
    if harm != "labels":
        assert "cannot be read" in listed[waiting]["message"]
    for path in ("", "/why", "/log"):
        assert node.request("GET", f"/v1/jobs/{queued}{path}").status in (200, 404)
        assert node.request("GET", f"/v1/jobs/{waiting}{path}").status in (200, 404)
    assert node.request("GET", "/readyz", token=False).status == 200
    node.cancel(waiting)
    assert node.job(waiting)["state"] == "cancelled"
    for job in (queued, waiting):
        assert node.request("DELETE", f"/v1/jobs/{job}").status == 204
    assert "damaged" not in node.output()


def test_the_data_directory_holds_nothing_that_others_can_read(node):
    node.run("echo x > file", keep_workspace="always")
    for path in [node.data, *node.data.rglob("*")]:
        mode = path.lstat().st_mode
        if pathlib.Path(node.data / "workspaces") in path.parents and path.parent != node.data / "workspaces":
            continue  # a job's own files, in a directory that only the job's account can enter
        assert mode & 0o066 == 0, (path, oct(mode))
