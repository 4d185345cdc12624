"""What jobs leave: artifacts, listed and downloaded, and outputs; both for the jobs that need them."""
import os
import urllib.parse

import pytest

from kcx_node import wait_until


def listed(node, job, path=""):
    return [item["path"] for item in node.get(f"/v1/jobs/{job['id']}/artifacts{path}")["items"]]


def download(node, job, path, **headers):
    return node.request("GET", f"/v1/jobs/{job['id']}/artifacts/{urllib.parse.quote(path)}", headers=headers)


def test_artifacts_are_kept_after_the_workspace_is_gone(node):
    job = node.run("mkdir -p dist/lib; seq 1 100000 > 'dist/a b.txt'; echo lib > dist/lib/x.so; echo no > other; exit 4",
                   artifacts=["dist", "*.xml"])
    assert (job["state"], job["exit_code"]) == ("failed", 4)
    size = len("".join(f"{n}\n" for n in range(1, 100001)))
    assert job["artifacts_kept"] == {"files": 2, "bytes": size + 4, "cut": False}
    assert job["artifacts"] == ["dist", "*.xml"]
    assert listed(node, job) == ["dist/a b.txt", "dist/lib/x.so"] and listed(node, job, "/dist/lib") == ["dist/lib/x.so"]
    answer = download(node, job, "dist/a b.txt")
    assert answer.status == 200 and len(answer.body) == size and answer.headers["Content-Type"].startswith("text/plain")
    part = download(node, job, "dist/a b.txt", Range="bytes=0-5")
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, b"1\n2\n3\n", f"bytes 0-5/{size}")
    assert download(node, job, "dist/a b.txt", **{"If-None-Match": answer.headers["ETag"]}).status == 304
    download(node, job, "other").problem(404)
    assert 'nothing in the workspace matches "*.xml"' in node.log(job["id"])
    assert list((node.data / "workspaces").iterdir()) == []


def test_artifacts_go_with_their_job(node):
    job = node.run("echo x > file", artifacts=["file"])
    kept = node.data / "artifacts" / f"{job['id']}-1"
    assert kept.is_dir()
    assert node.request("DELETE", f"/v1/jobs/{job['id']}").status == 204
    node.request("GET", f"/v1/jobs/{job['id']}/artifacts").problem(410)
    wait_until(lambda: not kept.exists(), what="the artifacts are removed")


def test_links_and_what_is_too_much_are_left_out_and_told(start_node, tmp_path):
    node = start_node(artifacts_limit="1K")
    (tmp_path / "secret").write_text("of the node")
    job = node.run(f"ln -s {tmp_path}/secret link; ln -s {tmp_path} folder; head -c 2000 /dev/zero > big; echo a > small",
                   artifacts=["*", "folder/secret"])
    assert job["state"] == "succeeded"
    assert job["artifacts_kept"] == {"files": 1, "bytes": 2, "cut": True} and listed(node, job) == ["small"]
    log = node.log(job["id"])
    assert "artifacts: 2 left out, the first: folder: a symbolic link" in log
    assert "artifacts: not complete: big with 2000 bytes would pass the limit of 1024 bytes" in log


def test_a_dependent_gets_outputs_and_artifacts(node):
    build, test, plain = node.submit_many([
        {"ref": "build-all", "command": "mkdir out; echo '#!/bin/sh\necho I run' > out/app; chmod +x out/app; "
                                        "echo version=1.2 >> $KCX_OUTPUT; echo '=broken' >> $KCX_OUTPUT",
         "artifacts": ["out/*"]},
        {"command": "echo v=$KCX_NEED_build_all_version; out/app", "needs": [{"ref": "build-all", "artifacts": True}]},
        {"command": "ls", "needs": ["build-all"]}])
    assert node.wait(test["id"])["state"] == "succeeded"
    assert node.log(test["id"]) == "v=1.2\nI run\n"
    assert node.job(build["id"])["outputs"] == {"version": "1.2"}
    assert "KCX_OUTPUT line 2 has no valid key" in node.log(build["id"])
    node.wait(plain["id"])
    assert node.log(plain["id"]) == ""
    late = node.run("echo v=$KCX_NEED_%d_version" % plain["id"], needs=[plain["id"]])
    assert node.log(late["id"]) == "v=\n"


def test_a_retry_gets_outputs_and_artifacts_again(node):
    build, test = node.submit_many([
        {"ref": "build", "command": "echo 1 > app; echo version=1 >> $KCX_OUTPUT", "artifacts": ["app"]},
        {"command": "cat app; echo v=$KCX_NEED_build_version", "needs": [{"ref": "build", "artifacts": True}]}])
    assert node.wait(test["id"])["state"] == "succeeded"
    again = node.wait(node.post(f"/v1/jobs/{test['id']}/retry", status=201)["id"])
    assert again["state"] == "succeeded" and node.log(again["id"]) == "1\nv=1\n"
    # Of a need that was retried meanwhile, its latest life counts.
    rebuilt = node.wait(node.post(f"/v1/jobs/{build['id']}/retry", status=201)["id"])
    again = node.wait(node.post(f"/v1/jobs/{test['id']}/retry", status=201)["id"])
    assert again["needs"] == [{"id": rebuilt["id"], "if": "success", "artifacts": True}]
    assert node.log(again["id"]) == "1\nv=1\n"


def test_a_dependent_whose_artifacts_are_gone_does_not_start(start_node):
    node = start_node(slots=1, artifacts_limit="1K")
    whole = node.run("head -c 2000 /dev/zero > big", artifacts=["big"])
    job = node.run("true", needs=[{"id": whole["id"], "artifacts": True}])
    assert (job["state"], job["reason"]) == ("failed", "spawn_failed")
    assert f"the artifacts of job {whole['id']}, which this job needs, are not complete" in job["message"]


def test_a_directory_in_the_place_of_the_outputs_goes_with_the_job(node):
    job = node.run("rm $KCX_OUTPUT; mkdir -p $KCX_OUTPUT/a; touch $KCX_OUTPUT/a/b; ln -s / $KCX_OUTPUT/a/root")
    assert job["state"] == "succeeded" and job["outputs"] == {}
    assert "KCX_OUTPUT is no regular file any more" in node.log(job["id"])
    assert os.listdir(node.data / "workspaces") == []


def test_outputs_with_secrets_never_leave_the_job(node):
    job = node.run('echo "token=$TOKEN" >> $KCX_OUTPUT; echo "$KEY=1" >> $KCX_OUTPUT; echo "name=x" >> $KCX_OUTPUT',
                   secrets={"TOKEN": "hush-hush-hush", "KEY": "hunter22"})
    assert job["outputs"] == {"name": "x"}
    assert 'the output "token" holds a secret and is left out' in node.log(job["id"])


def test_a_runner_killed_while_it_keeps_artifacts_leaves_nothing(start_node):
    node = start_node(slots=1)
    # Many files: gathering them takes long enough to be met.
    job = node.submit("mkdir a; for i in $(seq 1 5000); do echo $i > a/$i; done", artifacts=["a"])
    partial = node.data / "artifacts" / f"{job['id']}-1.part"
    wait_until(partial.exists, what="artifacts are gathered")
    runner = node.workers()[0]["runner_pid"]
    os.kill(runner, 9)
    job = node.wait(job["id"])
    assert (job["state"], job["reason"]) == ("failed", "worker_crashed")
    wait_until(lambda: not partial.exists(), what="what was gathered is removed")
    assert listed(node, job) == []
    wait_until(lambda: list((node.data / "workspaces").iterdir()) == [], what="the workspace is removed")


def test_what_a_killed_node_left_of_artifacts_goes_at_the_next_start(node):
    kept = node.run("echo x > file", artifacts=["file"])
    node.kill9()
    for name in ("artifacts/99-1.part", "workspaces/99-1.out"):
        path = node.data / name
        if name.endswith(".part"):
            path.mkdir()
            (path / "file").write_text("x")
        else:
            path.write_text("x")
    node.start()
    assert not (node.data / "artifacts/99-1.part").exists() and not (node.data / "workspaces/99-1.out").exists()
    assert listed(node, kept) == ["file"]


@pytest.mark.parametrize("globs, pointer", [(["/etc/passwd"], "/artifacts/0"), (["ok", "a/../../b"], "/artifacts/1"),
                                            ([""], "/artifacts/0"), ("dist", "/artifacts"), (["x"] * 101, "/artifacts")])
def test_globs_that_lead_out_of_the_workspace_are_refused(node, globs, pointer):
    problem = node.submit_raw({"command": "true", "artifacts": globs}).problem(422, "invalid_input")
    assert [each["pointer"] for each in problem["errors"]] == [pointer]
