"""Logs as their readers see them: whole, live, resumed, cut, masked, and unchanged once the job is final."""
import base64
import http.client
import json
import os
import pathlib
import random
import subprocess
import threading
import time
import urllib.parse

import pytest

from kcx_node import BUILD, unique_sleep, wait_until
from proxy import Proxy

NUMBERS = "".join(f"{n}\n" for n in range(1, 100_001))


class EventStream:
    """One connection to a log's event stream, from a byte offset on. Iterating gives (event, id, data)."""

    def __init__(self, node, job_id, offset=0):
        address = urllib.parse.urlsplit(node.url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        headers = {"Authorization": f"Bearer {node.token}", "Accept": "text/event-stream"}
        if offset:
            headers["Last-Event-ID"] = str(offset)
        self.connection.request("GET", f"/v1/jobs/{job_id}/log", headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def __iter__(self):
        fields = {}
        for line in self.response:
            line = line.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields.get("data"):
                yield fields.get("event", "message"), int(fields["id"]), json.loads(fields["data"])
                fields = {}

    def close(self):
        self.connection.close()


def in_threads(count, work):
    """Runs work(index) in as many threads and gives the results; raises what one of them raised."""
    results = [None] * count

    def run(index):
        try:
            results[index] = work(index)
        except BaseException as failure:  # handed to the test below
            results[index] = failure
    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


# -- live ----------------------------------------------------------------------

def test_the_size_of_a_log_is_told_while_it_grows(node, fifo):
    job = node.submit(f"echo 12345; read x < {fifo.path}; echo 1")
    assert wait_until(lambda: node.job(job["id"])["log"]["bytes"], what="a log") == 6
    fifo.release()
    assert node.wait(job["id"])["log"] == {"bytes": 8, "cut": False}


def test_one_line_of_ten_megabytes_arrives_and_delays_nobody(start_node, fifo):
    node = start_node(slots=2)
    other = node.submit(f"while read x; do echo $x; done < {fifo.path}")
    lines = node.follow(other["id"])
    with open(fifo.path, "w", encoding="ascii") as gate:
        print("before", file=gate, flush=True)
        assert next(lines) == "before"
        job = node.submit("head -c 10000000 /dev/zero | tr '\\0' a", log_limit_bytes=20_000_000)
        received = threading.Thread(target=lambda: got.append(sum(len(line) for line in node.follow(job["id"]))))
        got = []
        received.start()
        longest = 0.0
        while received.is_alive():
            began = time.monotonic()
            print("tick", file=gate, flush=True)
            assert next(lines) == "tick"
            longest = max(longest, time.monotonic() - began)
        assert got == [10_000_000]
        assert longest < 5, "another follower waits for its line no longer than usual"
    assert node.wait(other["id"])["state"] == "succeeded"
    assert node.wait(job["id"])["log"] == {"bytes": 10_000_000, "cut": False}


def test_twenty_followers_that_come_and_go_each_get_the_whole_log(node):
    job = node.submit("for i in 1 2 3 4 5 6 7 8 9 10; do seq $(((i - 1) * 10000 + 1)) $((i * 10000)); sleep 0.1; done")

    def follow(index):
        dice = random.Random(index)
        text, offset, ended = "", 0, None
        while ended is None:
            stream = EventStream(node, job["id"], offset)
            left = dice.randrange(1, 12)
            for event, position, data in stream:
                if event == "end":
                    ended = data
                    break
                text += data["text"]
                assert position == offset + len(data["text"].encode()), "the id is the offset behind the text"
                offset = position
                left -= 1
                if left == 0:
                    break  # hang up in the middle
            stream.close()
        assert ended["id"] == job["id"] and ended["state"] == "succeeded"
        return text
    stored = None
    for copy in in_threads(20, follow):
        stored = stored or node.log(job["id"])
        assert copy == stored == NUMBERS


def test_a_follower_that_stops_reading_holds_up_nobody(node):
    job = node.submit("seq 1 1000000")
    stalled = EventStream(node, job["id"])  # never read from
    assert node.wait(job["id"])["state"] == "succeeded"
    assert len(node.log(job["id"])) == 6_888_896
    text = "".join(data["text"] for event, _, data in stalled if event == "message")
    assert text == node.log(job["id"]), "slow, and all the same complete"
    stalled.close()


# -- the end -------------------------------------------------------------------

def test_a_log_ends_with_all_output_and_a_notice_and_never_changes_again(node):
    job = node.run("seq 1 100000; sleep 99", time_limit_s=1, cancel_grace_s=0.2)
    log = node.log(job["id"])
    assert (job["state"], job["reason"]) == ("timed_out", "time_limit")
    assert log.startswith(NUMBERS)
    (notice,) = log[len(NUMBERS):].splitlines()
    assert notice.startswith("kcx: ") and "time limit" in notice
    assert job["log"] == {"bytes": len(log), "cut": False}
    for _ in range(3):
        node.run("true")
        assert node.log(job["id"]) == log
    node.restart()
    assert node.log(job["id"]) == log and node.job(job["id"]) == job


def test_what_a_job_wrote_just_before_its_end_is_there_when_it_is_final(node):
    for n in range(20):
        job = node.run(["printf", f"last words {n}"])
        assert node.log(job["id"]) == f"last words {n}"


def test_output_of_a_daemon_does_not_keep_a_job(node):
    sleep = unique_sleep()
    began = time.monotonic()
    job = node.run(f"({sleep}) & echo done", cancel_grace_s=0.5)
    assert job["state"] == "succeeded" and time.monotonic() - began < 10
    assert node.log(job["id"]).startswith("done\n")


def test_any_byte_is_kept(node):
    job = node.run(["printf", r"\377\000\001\n\303\050"])
    response = node.request("GET", f"/v1/jobs/{job['id']}/log")
    assert response.body == b"\xff\0\1\n\xc3("


def test_streams_and_times_are_no_part_of_the_text(node):
    job = node.run("echo out; echo err >&2; echo out again")
    assert sorted(node.log(job["id"]).splitlines()) == ["err", "out", "out again"]
    for line in node.log(job["id"], timestamps=1).splitlines():
        stamp, text = line.split(" ", 1)
        assert stamp.endswith("Z") and text in ("err", "out", "out again")


# -- limits --------------------------------------------------------------------

def test_a_log_beyond_its_limit_keeps_head_and_tail_and_tells_what_is_missing(node):
    job = node.run("seq 1 100000", log_limit_bytes=20_000)
    log = node.log(job["id"])
    assert job["log"]["cut"] is True and job["log"]["bytes"] > len(NUMBERS)
    assert log.startswith(NUMBERS[:9_000]) and len(log) <= 21_000
    assert "99999\n100000\n" in log
    lines = log.splitlines()
    assert lines[-1].startswith("kcx: ") and "limit of 20000 bytes" in lines[-1]
    cut = lines.index("kcx: the middle of this log is left out")
    numbers = [int(line) for line in lines[:cut] + lines[cut + 1:-1]]
    assert numbers[:cut] == list(range(1, cut + 1)) and numbers[cut:] == list(range(numbers[cut], 100_001))


def test_a_follower_of_a_log_that_is_cut_sees_lines_of_the_job_and_where_some_are_left_out(node):
    job = node.submit("seq 1 100000", log_limit_bytes=20_000)
    text = "\n".join(node.follow(job["id"]))
    parts = text.split("\nkcx: the middle of this log is left out\n")
    for part in parts:
        numbers = [int(line) for line in part.splitlines() if not line.startswith("kcx: the log passed")]
        # Where the rest of a line was cut before it could be sent, it stops in its middle.
        whole = numbers[:-1]
        assert max(numbers) <= 100_000 and whole == list(range(whole[0], whole[0] + len(whole))), part[-100:]


def test_an_offset_in_what_was_left_out_begins_with_the_line_that_says_so(node):
    job = node.run("seq 1 60000", log_limit_bytes=10_000)
    lines = node.log(job["id"], offset=100_000).lstrip("\n").splitlines()
    assert lines[0] == "kcx: the middle of this log is left out" and "60000" in lines


def test_the_limit_of_the_node_is_for_jobs_without_one(start_node):
    node = start_node(log_limit="4K")
    job = node.run("seq 1 10000")
    assert job["log"]["cut"] and job["log_limit_bytes"] is None and len(node.log(job["id"])) < 6_000
    other = node.run("seq 1 10000", log_limit_bytes=100_000)
    assert not other["log"]["cut"] and other["log_limit_bytes"] == 100_000


# -- secrets -------------------------------------------------------------------

SECRET = 'p@ss"w\nline2'


def everything_shown(node, job, live):
    job_id = job["id"]
    shown = [live, node.log(job_id), node.log(job_id, timestamps=1), json.dumps(node.job(job_id)),
             json.dumps(node.jobs()), node.output(), json.dumps(node.actors())]
    shown += [path.read_bytes().decode("latin-1") for path in (node.data / "logs").rglob("*") if path.is_file()]
    return shown


def test_a_secret_is_masked_wherever_it_is_shown(node):
    script = ('printf "plain %s\\n" "$S"; printf "%s" "p@ss\\"w"; sleep 0.2; printf "\\nline2\\n"; '
              'printf "%s" "$S" | base64 -w0; echo; printf "%s" "$S" >&2; echo "letter x in text"; '
              'false || no_such_command_"$S"; exit 3')
    job = node.submit(script, secrets={"S": SECRET, "SHORT": "x"}, name="secret")
    assert "secrets" not in job and SECRET not in json.dumps(job)
    live = "\n".join(node.follow(job["id"]))
    job = node.wait(job["id"])
    assert job["exit_code"] == 3
    forms = [SECRET, 'p@ss"w', "line2", base64.b64encode(SECRET.encode()).decode(), json.dumps(SECRET)[1:-1],
             urllib.parse.quote(SECRET)]
    for text in everything_shown(node, job, live):
        for form in forms:
            assert form not in text.replace(script, "").replace(json.dumps(script)[1:-1], ""), (form, text[:2000])
    assert "plain" in live and "letter x in text" in live, "one letter masks nothing"


def test_a_secret_is_in_no_command_line_and_gone_from_the_disk_after_the_job(node, fifo):
    secret = "s3cr3t-of-the-disk"
    job = node.submit(f'read x < {fifo.path}; printf %s "$S" | wc -c', secrets={"S": secret})
    node.wait_for_state(job["id"], "running")
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                assert secret.encode() not in (entry / "cmdline").read_bytes()
            except OSError:
                continue
    fifo.release()
    node.wait(job["id"])
    assert node.log(job["id"]).strip() == str(len(secret))
    assert node.terminate() == 0
    for path in node.data.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_a_secret_is_masked_as_other_programs_escape_it(node):
    secret = "p\u00e4ss&w\u00f6rd/~1 +"
    forms = [json.dumps(secret), json.dumps(secret).replace("e4", "E4").replace("f6", "F6"),
             json.dumps(secret, ensure_ascii=False).replace("&", "\\u0026"), urllib.parse.quote_plus(secret).replace("~", "%7E"),
             urllib.parse.quote(secret, safe="-_.!~*'();/?:@&=+$,#"), urllib.parse.quote(secret).lower()]
    job = node.run(["printf", "%s\n", *forms], secrets={"S": secret})
    assert node.log(job["id"]).replace('"', "").split() == ["***"] * len(forms)


def test_a_secret_that_the_end_of_a_step_or_a_notice_cuts_in_two_is_masked(node):
    secrets = {"S": "abcdEFGH1234"}
    first = ("mkfifo half go end; (printf 'token=abcdEF'; echo > half; read x < go; echo GH1234; echo > end) & read x < half")
    job = node.submit(steps=[{"name": "a", "command": first}, {"name": "b", "command": "echo > go; read x < end"}],
                      secrets=secrets)
    assert "".join(node.follow(job["id"])) == "token=***" and node.wait(job["id"])["state"] == "succeeded"
    assert node.log(job["id"]) == "token=***\n"
    job = node.run("printf abcd; trap 'printf EFGH1234; exit' TERM; sleep 99 & wait", time_limit_s=0.3,
                   secrets=secrets)
    assert node.log(job["id"]) == "kcx: the time limit of 0.3 s is reached, ending the job\n***"


def test_a_secret_in_what_cannot_start_is_masked(node):
    job = node.run(["/no/such/hunter2-program"], secrets={"S": "hunter2-program"})
    assert job["reason"] == "spawn_failed"
    assert "hunter2" not in job["message"] and "hunter2" not in node.log(job["id"])


@pytest.mark.parametrize("secrets,pointer", [({"A=B": "x"}, "/secrets/A=B"), ({"A": 1}, "/secrets/A"),
                                             ({"KCX_X": "y"}, "/secrets/KCX_X")])
def test_a_wrong_secret_is_refused_without_its_value(node, secrets, pointer):
    problem = node.submit_raw({"command": "true", "secrets": dict(secrets, OTHER="hunter2")})
    assert [e["pointer"] for e in problem.problem(422, "invalid_input")["errors"]] == [pointer]
    assert b"hunter2" not in problem.body


@pytest.mark.parametrize("flags", [[], ["--timestamps"], ["--tail", "100000"]])
def test_kcx_follows_over_a_broken_connection_behind_which_the_log_was_cut(node, fifo, flags):
    """What it had seen is cut out of the log while it is away: it goes on where the kept part begins, and repeats nothing."""
    job = node.submit(f"seq 1 10000; read x < {fifo.path}; seq 10001 100000", log_limit_bytes=60_000)
    # Past the first half that is kept, and then away until the job is final.
    broken, back = threading.Event(), threading.Event()

    def passes(_, piece):
        if b"10000\\n" in piece and not broken.is_set():
            broken.set()
            return Proxy.LAST
        return not broken.is_set() or back.is_set()

    proxy = Proxy(node.url, passes)
    client = subprocess.Popen([BUILD / "kcx", "--url", proxy.url, "logs", "-f", *flags, str(job["id"])], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "KCX_TOKEN": node.token})
    assert broken.wait(60)
    fifo.release()
    assert node.wait(job["id"])["log"]["cut"]
    back.set()
    out, err = client.communicate(timeout=60)
    proxy.close()
    assert client.returncode == 0, (out[-300:], err)
    lines = [line[25:] if "--timestamps" in flags and line[10:11] == "T" else line for line in out.splitlines()]
    numbers = [int(line) for line in lines if line.isdigit()]
    # One line may be torn where the kept part begins.
    steps = [b - a for a, b in zip(numbers, numbers[1:])]
    assert numbers[:10000] == list(range(1, 10001)) and numbers[-1] == 100000, (numbers[:3], numbers[-3:])
    jumps = [(numbers[i], numbers[i + 1]) for i, step in enumerate(steps) if step != 1]
    assert len(jumps) <= 2 and sum(a > b for a, b in jumps) <= 1, jumps
    assert out.count("\n99999\n") + out.count(" 99999\n") == 1


def test_kcx_prints_bytes_that_are_no_text_as_they_are(node):
    job = node.submit("printf 'a\\377\\200b\\303'; printf '\\251\\n'")
    line = [BUILD / "kcx", "--data", node.data, "logs", "-f", str(job["id"])]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"a\xff\x80b\xc3\xa9\n"


# -- compressed ----------------------------------------------------------------

def every_view(node, job_id):
    """All that the API tells of a log."""
    def get(query="", **headers):
        answer = node.request("GET", f"/v1/jobs/{job_id}/log{query}", headers=headers)
        return answer.status, answer.headers.get("Content-Range"), answer.headers.get("ETag"), answer.body

    return [get(), get("?tail=7"), get("?timestamps=1"), get("?offset=300000"), get("?follow=1"),
            get(Range="bytes=100000-100999"), get(Range="bytes=-20"), get(Accept="text/event-stream")]


def compressed(node, job_id):
    return (node.data / "logs" / "0" / f"{job_id}-1.log.zst").exists()


def test_a_compressed_log_is_served_as_before(start_node):
    node = start_node(compress_logs_after="1h")
    jobs = [node.run("seq 1 100000; seq 1 9 >&2", **spec)["id"] for spec in ({}, {"log_limit_bytes": 100_000})]
    before = [every_view(node, job_id) for job_id in jobs]
    assert not any(compressed(node, job_id) for job_id in jobs)
    # Those that a node had not come to are found by the next one.
    node.restart(compress_logs_after="0s")
    wait_until(lambda: all(compressed(node, job_id) for job_id in jobs), what="the logs are compressed")
    plain = [node.data / "logs" / "0" / f"{job_id}-1.log" for job_id in jobs]
    wait_until(lambda: not any(path.exists() for path in plain), what="the plain files are gone")
    assert [every_view(node, job_id) for job_id in jobs] == before
    assert subprocess.run(["zstd", "-dc", f"{plain[0]}.zst"], capture_output=True, check=True).stdout == before[0][0][3]


def test_logs_are_compressed_after_their_end_and_go_with_their_job(start_node):
    node = start_node(compress_logs_after="0s")
    job = node.run("seq 1 100000")
    wait_until(lambda: compressed(node, job["id"]), what="the log is compressed")
    small = node.run("echo small")
    assert node.log(small["id"]) == "small\n" and not compressed(node, small["id"])
    for each in (job, small):
        assert node.request("DELETE", f"/v1/jobs/{each['id']}").status == 204
    wait_until(lambda: list((node.data / "logs" / "0").iterdir()) == [], what="every file is removed")
