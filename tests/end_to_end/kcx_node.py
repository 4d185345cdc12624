"""A real kcx-node in the words of the domain. Standard library only.

    node = Node(directory); node.start()
    job = node.submit("make all")
    assert node.wait(job["id"])["state"] == "succeeded"

The binaries are taken from $KCX_BUILD (default: build/release of this checkout).
"""
import fcntl
import http.client
import json
import os
import pathlib
import pty
import random
import signal
import struct
import subprocess
import termios
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KCX_BUILD", ROOT / "build" / "release")).resolve()
FINAL = {"succeeded", "failed", "timed_out", "cancelled", "interrupted", "skipped"}
# Sanitized binaries on a busy machine are slow; a test that passes never waits this long.
PATIENCE = 30.0


def wait_until(predicate, timeout=PATIENCE, what=None):
    """The first true value of predicate(). For things that send no event, such as a process that vanishes."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or predicate}")
        time.sleep(0.02)


def state_of(task):
    """The letter that /proc/PID, or /proc/PID/task/TID, shows for its state."""
    return (task / "stat").read_text().rsplit(")", 1)[1].split()[0]


def processes_matching(text):
    """The pids of all live processes with `text` in their command line; zombies and this process do not count."""
    def matches(task):
        command = (task / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return text in command and state_of(task) not in "ZX"

    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            # /proc/PID shows the main thread; a process is alive while any of its threads is.
            threads = list((entry / "task").iterdir()) if state_of(entry) == "Z" else [entry]
            if any(matches(thread) for thread in threads):
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


def headless_processes(text):
    """Those of processes_matching() whose main thread has ended while others go on."""
    def headless(pid):
        try:
            return state_of(pathlib.Path(f"/proc/{pid}")) == "Z"
        except OSError:
            return False
    return [pid for pid in processes_matching(text) if headless(pid)]


def unique_sleep():
    """A sleep command no other process has: processes_matching() finds it and nothing else."""
    return f"sleep {random.randrange(10**6, 10**7)}.{random.randrange(10**6):06}"


def headless(name):
    """A command whose main thread ends while another goes on; `name` is in its command line."""
    return ["/usr/bin/python3", "-c",
            "import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
            "ctypes.CDLL(None).pthread_exit(None)", name]


class Response:
    """The answer to one request. `json()` parses the body; header names are case-insensitive."""

    def __init__(self, raw):
        self.status = raw.status
        self.headers = raw.headers
        self.body = raw.read()

    def json(self):
        return json.loads(self.body)

    def problem(self, status, code=None):
        """Asserts that this is a well-formed problem document of that status (and code); gives the document."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["Content-Type"].startswith("application/problem+json"), self.headers.items()
        document = self.json()
        assert document["status"] == status
        assert document["title"] and document["type"].endswith(document["code"])
        assert code is None or document["code"] == code, document
        return document


class NodeFailed(AssertionError):
    """The node ended instead of becoming ready. `code` is its exit code, `output` what it printed."""

    def __init__(self, code, output):
        super().__init__(f"kcx-node ended with code {code}:\n{output}")
        self.code = code
        self.output = output


class Node:
    """One data directory and the node process on it, which may be started, killed and started again.

    `prefix` is a command line that runs the node's (unshare, setpriv …); the process is that of the prefix then."""

    def __init__(self, directory, prefix=(), **options):
        self.directory = pathlib.Path(directory)
        self.prefix = list(prefix)
        self.data = pathlib.Path(options.get("data", self.directory / "data"))
        self.program = BUILD / "kcx-node"
        self.options = options
        self.process = None
        self.output_file = self.directory / "node.log"

    # -- process ---------------------------------------------------------------

    def arguments(self, **options):
        flags = {"data": self.data, "http": "127.0.0.1:0", "inspect": "127.0.0.1:0", "slots": 2}
        flags.update(self.options)
        flags.update(options)
        line = [str(self.program)]
        for name, value in flags.items():
            name = "--" + name.replace("_", "-")
            if value is True:
                line.append(name)
            elif value not in (None, False):
                line += [name, str(value)]
        return line

    def start(self, env=None, **options):
        """Starts the node and waits until it is ready. Raises NodeFailed if it ends before that."""
        assert self.process is None, "the node is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        offset = self.output_file.stat().st_size if self.output_file.exists() else 0
        with open(self.output_file, "ab") as output:
            self.process = subprocess.Popen(
                self.prefix + self.arguments(**options), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, cwd=self.directory, env={**os.environ, **(env or {})})
        wait_until(self._ready_or_ended, what="the node is ready")
        if self.process.poll() is not None:
            code, self.process = self.process.returncode, None
            raise NodeFailed(code, self.output_file.read_bytes()[offset:].decode(errors="replace"))
        return self

    def _ready_or_ended(self):
        if self.process.poll() is not None:
            return True
        try:
            facts = json.loads((self.data / "node.json").read_text())
        except (OSError, ValueError):
            return False
        if not self.prefix and facts["pid"] != self.process.pid:
            return False
        self.url, self.inspect = facts["http"], facts["inspect"]
        return True

    @property
    def pid(self):
        return self.process.pid

    @property
    def token(self):
        return (self.data / "admin.token").read_text().strip()

    def output(self):
        return self.output_file.read_text(errors="replace") if self.output_file.exists() else ""

    def kill9(self):
        """Ends the node as a crash would: nothing of it gets to say anything."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process = None

    def terminate(self, timeout=PATIENCE):
        """Asks the node to stop and gives its exit code (negative: the signal that ended it)."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended(timeout)

    def ended(self, timeout=PATIENCE):
        """Waits until the node ended by itself and gives its exit code."""
        code = self.process.wait(timeout)
        self.process = None
        return code

    def restart(self, **options):
        if self.process is not None:
            assert self.terminate() == 0
        return self.start(**options)

    def clean_up(self):
        if self.process is not None:
            self.kill9()

    # -- HTTP ------------------------------------------------------------------

    def request(self, method, path, body=None, headers=None, token=True, base=None, timeout=PATIENCE + 30):
        """One request on a connection of its own. A body that is no bytes is sent as JSON. `token` True: the node's."""
        address = urllib.parse.urlsplit(base or self.url)
        sent = dict(headers or {})
        if token:
            sent.setdefault("Authorization", f"Bearer {self.token if token is True else token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=sent)
            return Response(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, status=200, **options):
        response = self.request("GET", path, **options)
        assert response.status == status, (response.status, response.body)
        return response.json()

    def post(self, path, body=None, status=200, **options):
        response = self.request("POST", path, body, **options)
        assert response.status == status, (response.status, response.body)
        return response.json()

    # -- jobs ------------------------------------------------------------------

    def submit(self, command=None, **spec):
        """Submits one job and gives its job object as answered."""
        if command is not None:
            spec["command"] = command
        return self.post("/v1/jobs", spec, status=201)

    def submit_many(self, specs):
        return self.post("/v1/jobs", specs, status=201)["items"]

    def submit_raw(self, body, **options):
        """Sends any body as a submission and gives the Response, whatever it is."""
        return self.request("POST", "/v1/jobs", body, **options)

    def job(self, job_id):
        return self.get(f"/v1/jobs/{job_id}")

    def jobs(self, **query):
        """All jobs that match, newest first, over all pages."""
        query.setdefault("limit", 100)
        found = []
        while True:
            page = self.get("/v1/jobs?" + urllib.parse.urlencode(query))
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]

    def wait(self, job_id, timeout=PATIENCE):
        """The job once it is final. Uses the long poll, so it returns at that moment."""
        deadline = time.monotonic() + timeout
        while True:
            job = self.get(f"/v1/jobs/{job_id}?wait=5s")
            if job["state"] in FINAL:
                return job
            assert time.monotonic() < deadline, f"job {job_id} is still {job['state']} after {timeout} s"

    def run(self, command=None, **spec):
        """Submits a job and waits for its end."""
        return self.wait(self.submit(command, **spec)["id"])

    def wait_for_state(self, job_id, *states, timeout=PATIENCE):
        """The job as soon as it is seen in one of the states."""
        def reached():
            job = self.job(job_id)
            return job if job["state"] in states else None
        return wait_until(reached, timeout, f"job {job_id} is {' or '.join(states)}")

    def cancel(self, job_id):
        return self.request("POST", f"/v1/jobs/{job_id}/cancel")

    def log(self, job_id, **query):
        response = self.request("GET", f"/v1/jobs/{job_id}/log?" + urllib.parse.urlencode(query))
        assert response.status == 200, (response.status, response.body)
        return response.body.decode(errors="replace")

    def follow(self, job_id):
        """The lines of a job's log as they come, until the attempt ends."""
        address = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE + 30)
        try:
            connection.request("GET", f"/v1/jobs/{job_id}/log?follow=1",
                               headers={"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            assert response.status == 200, (response.status, response.read())
            for line in response:
                yield line.decode(errors="replace").rstrip("\n")
        finally:
            connection.close()

    def workers(self):
        return self.get("/v1/workers")["items"]

    def actors(self, name=None):
        found = self.get("/actors", base=self.inspect)["actors"]
        return [actor for actor in found if name is None or actor["name"] == name]

    def inject_fault(self, actor, index=1):
        """Makes that actor's next handler throw; the node must have been started with fault_injection=True."""
        response = self.request("POST", "/v1/node/faults", {"actor": actor, "index": index})
        # The bridge may throw before it has answered this very request.
        assert response.status in ((202, 503) if actor == "http_bridge" else (202,)), (response.status, response.body)

    # -- command line ----------------------------------------------------------

    def cli(self, *args, data=True, env=None, timeout=PATIENCE + 30):
        """Runs kcx and gives the finished process with its output as text."""
        line = [str(BUILD / "kcx")] + (["--data", str(self.data)] if data else []) + [str(arg) for arg in args]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KCX_")}
        environment.update(env or {})
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              env=environment, cwd=self.directory, check=False)

    def cli_on_terminal(self, *args, columns=60, rows=12, env=None):
        """Runs kcx on a terminal of that size and gives its exit code and everything it wrote there."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        line = [str(BUILD / "kcx"), "--data", str(self.data)] + [str(arg) for arg in args]
        client = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, cwd=self.directory,
                                  env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(follower)
        written = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the last one has closed the other end
                break
            if not piece:
                break
            written += piece
        os.close(leader)
        return client.wait(PATIENCE), written.decode()
