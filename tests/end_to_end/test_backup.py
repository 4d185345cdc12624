"""kcx node backup and doctor."""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading

from kcx_node import Node, unique_sleep, wait_until


def test_a_backup_of_a_busy_node_starts_as_a_node(node, tmp_path):
    done = node.run("echo kept")
    waiting = node.submit("true", run_at="2999-01-01T00:00:00Z", name="later")
    stop = threading.Event()
    acknowledged = []

    def submit_on():
        while not stop.is_set():
            acknowledged.append(node.submit("true")["id"])

    writer = threading.Thread(target=submit_on)
    writer.start()
    wait_until(lambda: len(acknowledged) > 20, what="jobs are submitted")
    before = list(acknowledged)
    copy = tmp_path / "copy"
    made = node.cli("node", "backup", copy)
    stop.set()
    writer.join()
    assert made.returncode == 0, made
    assert os.stat(copy).st_mode & 0o777 == 0o700 and os.stat(copy / "kcx.db").st_mode & 0o777 == 0o600
    assert not (tmp_path / "copy.partial").exists() and not (copy / "admin.token").exists()
    # Both at once: the copy is a node of its own and leaves the processes of the other alone.
    sleep = unique_sleep()
    running = node.submit(sleep)
    node.wait_for_state(running["id"], "running", "queued")
    restored = Node(tmp_path / "restored", data=copy, slots=2)
    restored.start()
    try:
        assert restored.log(done["id"]) == "kept\n"
        assert restored.job(waiting["id"])["state"] == "scheduled"
        assert all(restored.job(job)["id"] == job for job in before)
        assert restored.run("echo new")["state"] == "succeeded"
    finally:
        restored.clean_up()
    assert node.job(running["id"])["state"] in ("running", "queued")


def test_two_copies_of_one_backup_leave_each_other_alone(node, tmp_path):
    assert node.cli("node", "backup", tmp_path / "backup").returncode == 0
    assert node.terminate() == 0
    nodes = []
    try:
        for name in ("first", "second"):
            shutil.copytree(tmp_path / "backup", tmp_path / name / "data")
            nodes.append(Node(tmp_path / name, slots=1))
        first, second = nodes
        first.start()
        job = first.submit(unique_sleep())
        first.wait_for_state(job["id"], "running")
        checks = json.loads(second.cli("--json", "node", "doctor").stdout)["checks"]
        assert {each["check"]: each["detail"] for each in checks}["left-over processes"] == "none"
        second.start()
        assert second.run("true")["state"] == "succeeded"
        assert "left behind" not in second.output()
        assert first.job(job["id"])["state"] == "running"
    finally:
        for each in nodes:
            each.clean_up()


def test_a_backup_without_logs_and_of_a_stopped_node(node, tmp_path):
    job = node.run("echo gone")
    assert node.terminate() == 0
    made = node.cli("--json", "node", "backup", "--no-logs", tmp_path / "copy")
    assert made.returncode == 0 and json.loads(made.stdout)["log_files"] == 0, made
    assert sorted(os.listdir(tmp_path / "copy")) == ["kcx.db"]
    restored = Node(tmp_path / "restored", data=tmp_path / "copy")
    restored.start()
    try:
        assert restored.job(job["id"])["state"] == "succeeded"
        assert restored.request("GET", f"/v1/jobs/{job['id']}/log").status in (404, 410)
    finally:
        restored.clean_up()


def test_a_backup_has_the_artifacts_of_its_jobs(node, tmp_path):
    job = node.run("mkdir -p dist && echo app > dist/app", artifacts=["dist"])
    made = node.cli("node", "backup", tmp_path / "copy")
    assert made.returncode == 0 and re.search(r", 1 log of \d+ B, 1 artifact of 4 B\n", made.stdout), made
    made = node.cli("node", "backup", tmp_path / "bare", "--no-logs", "--no-artifacts")
    assert made.returncode == 0 and re.fullmatch(r"made .*: database of [\d.]+ KiB\n", made.stdout), made
    assert os.listdir(tmp_path / "bare") == ["kcx.db"]
    restored = Node(tmp_path / "restored", data=tmp_path / "copy")
    restored.start()
    try:
        assert restored.request("GET", f"/v1/jobs/{job['id']}/artifacts/dist/app").body == b"app\n"
    finally:
        restored.clean_up()


def test_a_backup_copies_what_is_left_of_a_cut_log(node, tmp_path):
    job = node.run("head -c 3000000 /dev/zero | tr '\\0' x; echo end", log_limit_bytes=65536)
    assert job["log"]["cut"]
    assert node.cli("node", "backup", tmp_path / "copy").returncode == 0
    log = node.log(job["id"])
    assert node.terminate() == 0
    restored = Node(tmp_path / "restored", data=tmp_path / "copy")
    restored.start()
    try:
        assert restored.log(job["id"]) == log
    finally:
        restored.clean_up()


def compressed(node, job_id):
    logs = node.data / "logs" / "0"
    return (logs / f"{job_id}-1.log.zst").exists() and not (logs / f"{job_id}-1.log").exists()


def test_a_backup_has_logs_that_are_compressed(start_node, tmp_path):
    node = start_node(compress_logs_after="0s")
    # Enough lines, a while apart, that the index of the first is compressed, too.
    jobs = [node.run("for i in $(seq 200); do seq 100; sleep 0.011; done")["id"],
            node.run("seq 1 100000", log_limit_bytes=100_000)["id"]]
    wait_until(lambda: all(compressed(node, job) for job in jobs), what="the logs are compressed")
    wait_until(lambda: (node.data / "logs" / "0" / f"{jobs[0]}-1.idx.zst").exists(), what="and an index")
    made = node.cli("--json", "node", "backup", tmp_path / "copy")
    assert made.returncode == 0 and json.loads(made.stdout)["log_files"] == 2, made
    paths = [f"/v1/jobs/{job}/log" for job in jobs]
    logs = [node.request("GET", path).body for path in paths]
    restored = Node(tmp_path / "restored", data=tmp_path / "copy")
    restored.start()
    try:
        assert [restored.request("GET", path).body for path in paths] == logs
        assert logs[0] == b"".join(b"%d\n" % i for i in range(1, 101)) * 200
    finally:
        restored.clean_up()


def test_a_backup_misses_no_log_that_is_compressed_meanwhile(start_node, tmp_path):
    node = start_node(compress_logs_after="1h")
    jobs = [job["id"] for job in node.submit_many([{"command": "seq 1 20000"}] * 100)]
    assert all(node.wait(job)["state"] == "succeeded" for job in jobs)
    assert node.terminate() == 0
    copied = 0
    for number in itertools.count():
        # Held between the first log and the last one.
        copy = tmp_path / f"copy{number}"
        logs = tmp_path / f"copy{number}.partial" / "logs" / "0"
        backup = subprocess.Popen([node.program.parent / "kcx", "--data", node.data, "node", "backup", copy])
        while backup.poll() is None and not list(logs.glob("*.log")):
            pass
        backup.send_signal(signal.SIGSTOP)
        copied = len(list(logs.glob("*.log")))
        if backup.poll() is None and 0 < copied < len(jobs):
            break
        backup.send_signal(signal.SIGCONT)
        assert backup.wait() == 0
    node.start(compress_logs_after="0s")
    wait_until(lambda: all(compressed(node, job) for job in jobs), what="the logs are compressed")
    backup.send_signal(signal.SIGCONT)
    assert backup.wait() == 0
    assert len(list((copy / "logs" / "0").glob("*.log"))) <= copied + 1, "the others are copied compressed"
    restored = Node(tmp_path / "restored", data=copy)
    restored.start()
    try:
        text = b"".join(b"%d\n" % i for i in range(1, 20001))
        assert [job for job in jobs if restored.request("GET", f"/v1/jobs/{job}/log").body != text] == []
    finally:
        restored.clean_up()


def test_a_backup_never_touches_what_is_there(node, tmp_path):
    (tmp_path / "mine").mkdir()
    refused = node.cli("node", "backup", tmp_path / "mine")
    assert refused.returncode == 2 and "exists already" in refused.stderr, refused
    refused = node.cli("node", "backup", tmp_path / "x", data=False, env={"KCX_URL": node.url, "KCX_TOKEN": node.token})
    assert refused.returncode == 2 and "--data" in refused.stderr, refused
    refused = node.cli("--data", tmp_path, "node", "backup", tmp_path / "x", data=False)
    assert refused.returncode == 2 and "no data directory" in refused.stderr, refused
    for inside in ("", node.data / "copy", "data/../data/logs/copy"):
        refused = node.cli("node", "backup", inside)
        assert refused.returncode == 2, refused
    assert not list(node.data.rglob("copy*"))
    assert sorted(os.listdir(tmp_path / "mine")) == [] and not (tmp_path / "x").exists()


def findings(node):
    done = node.cli("--json", "node", "doctor")
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)["checks"]}


def test_the_doctor_finds_nothing_on_a_sound_node(node):
    node.run("true")
    code, found = findings(node)
    assert code == 0
    # Whether this machine's clock is synchronized and how full its disk is, is its own affair.
    others = {name: each for name, each in found.items() if name not in ("clock", "free space")}
    assert {each["verdict"] for each in others.values()} == {"ok"}, others
    assert set(found) == {"data directory", "file system", "free space", "admin token", "node", "version", "database",
                          "write-ahead log", "clock", "left-over processes"}
    shown = node.cli("node", "doctor")
    assert shown.returncode == 0 and "database" in shown.stdout


def test_the_doctor_tells_what_is_wrong_and_what_to_do(node):
    node.run("true")
    os.chmod(node.data / "admin.token", 0o644)
    code, found = findings(node)
    assert code == 1 and found["admin token"]["verdict"] == "fail"
    assert found["admin token"]["remedy"] == f"chmod 600 {node.data / 'admin.token'}"
    assert node.terminate() == 0
    os.chmod(node.data / "admin.token", 0o600)
    code, found = findings(node)
    assert code == 0 and found["node"]["verdict"] == "warn" and "kcx-node --data" in found["node"]["remedy"]
    database = bytearray((node.data / "kcx.db").read_bytes())
    database[4096:8192] = b"\xff" * 4096
    (node.data / "kcx.db").write_bytes(database)
    code, found = findings(node)
    assert code == 1 and found["database"]["verdict"] == "fail" and "backup" in found["database"]["remedy"]


def test_the_doctor_finds_processes_a_dead_node_left(node):
    sleep = unique_sleep()
    job = node.submit(sleep)
    node.wait_for_state(job["id"], "running")
    code, found = findings(node)
    assert found["left-over processes"]["verdict"] == "ok", found
    assert code == 0
