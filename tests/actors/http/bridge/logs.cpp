#define CAF_SUITE bridge_logs
#include "caf/test/unit_test.hpp"
#include "storage/log_writer.hpp"
#include "tests/actors/http/bridge/harness.hpp"
#include "tests/support/files.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

/// A bridge over a directory with the log of job 7, which runs its first attempt.
struct running_job {
  temp_dir dir;
  bridge_harness bridge{dir.path()};
  log_writer log = writer(1);

  running_job() {
    bridge.node.jobs[7] = some_job(7, job_state::running, 1);
    bridge.node.log_bytes[{{7}, 1}] = -1;
  }

  log_writer writer(std::uint32_t attempt) {
    std::filesystem::create_directories(log_path(dir.path(), 7, attempt).parent_path());
    auto made = log_writer::create(log_path(dir.path(), 7, attempt), 1 << 20, 0);
    CAF_REQUIRE(made.has_value());
    return std::move(*made);
  }

  void write(std::string_view text) {
    log.append(log_stream::out, 0, text, 1'000);
    log.flush(1'000);
  }

  /// The follower that the hub knows, woken as the hub would.
  void tell_grown() { bridge.grew(bridge.node.followed.back().second); }

  void end(job_state state = job_state::succeeded) {
    bridge.node.log_bytes[{{7}, 1}] = static_cast<std::int64_t>(log.close(2'000).bytes);
    bridge.change(job_id{7}, state, 1);
  }
};

std::string all(bridge_answer& result) {
  return result.answer ? body_reader{*result.answer}.take() : std::string{};
}

} // namespace

// -- as it is ---------------------------------------------------------------------------------------------------------

CAF_TEST(the log is sent raw with its size) {
  running_job job;
  job.write("one\ntwo\n");
  job.end();
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log");
  CAF_REQUIRE_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(result->header("Content-Type"), "text/plain; charset=utf-8");
  CAF_CHECK_EQUAL(result->answer->stream->size().value_or(0), 8u);
  CAF_CHECK_EQUAL(all(*result), "one\ntwo\n");
}

CAF_TEST(the log of a running job is sent as far as it goes) {
  running_job job;
  job.write("one\n");
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log")), "one\n");
}

CAF_TEST(a range of the log is sent as 206) {
  running_job job;
  job.write("0123456789");
  job.end();
  const auto middle = job.bridge.ask("GET", "/v1/jobs/7/log", {"", {{"Range", "bytes=2-4"}}});
  CAF_CHECK_EQUAL(middle->status(), 206u);
  CAF_CHECK_EQUAL(middle->header("Content-Range"), "bytes 2-4/10");
  CAF_CHECK_EQUAL(all(*middle), "234");
  const auto last = job.bridge.ask("GET", "/v1/jobs/7/log", {"", {{"Range", "bytes=-3"}}});
  CAF_CHECK_EQUAL(all(*last), "789");
  const auto beyond = job.bridge.ask("GET", "/v1/jobs/7/log", {"", {{"Range", "bytes=10-"}}});
  CAF_CHECK_EQUAL(beyond->status(), 416u);
  CAF_CHECK_EQUAL(beyond->header("Content-Range"), "bytes */10");
  const auto stale = job.bridge.ask("GET", "/v1/jobs/7/log", {"", {{"Range", "bytes=2-4"}, {"If-Range", "\"old\""}}});
  CAF_CHECK_EQUAL(stale->status(), 200u);
}

CAF_TEST(a tail sends the last lines) {
  running_job job;
  job.write("a\nb\nc\n");
  job.end();
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log?tail=2")), "b\nc\n");
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log?tail=0")), "");
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log?offset=4")), "c\n");
}

CAF_TEST(time stamps stand before each line) {
  running_job job;
  job.write("a\nb\n");
  job.end();
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log?timestamps=1")),
                  "1970-01-01T00:00:01.000Z a\n1970-01-01T00:00:01.000Z b\n");
}

CAF_TEST(an attempt is chosen by its number) {
  running_job job;
  job.write("first\n");
  job.end();
  auto second = job.writer(2);
  second.append(log_stream::out, 0, "second\n", 0);
  job.bridge.node.log_bytes[{{7}, 2}] = static_cast<std::int64_t>(second.close(0).bytes);
  job.bridge.node.jobs[7].attempt = 2;
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log")), "second\n");
  CAF_CHECK_EQUAL(all(*job.bridge.ask("GET", "/v1/jobs/7/log?attempt=1")), "first\n");
  CAF_CHECK_EQUAL(job.bridge.ask("GET", "/v1/jobs/7/log?attempt=3")->status(), 404u);
  CAF_CHECK_EQUAL(job.bridge.ask("GET", "/v1/jobs/7/log?attempt=0")->status(), 400u);
}

CAF_TEST(a job that never ran has an empty log) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  const auto result = bridge.ask("GET", "/v1/jobs/7/log");
  CAF_CHECK_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(all(*result), "");
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/8/log")->status(), 404u);
}

CAF_TEST(a log that was removed is gone and one that is too short fails) {
  running_job job;
  job.write("12345");
  job.end();
  job.bridge.node.log_bytes[{{7}, 1}] = 6;
  CAF_CHECK_EQUAL(job.bridge.ask("GET", "/v1/jobs/7/log")->code(), "storage_failed");
  std::filesystem::remove_all(job.dir / "logs");
  CAF_CHECK_EQUAL(job.bridge.ask("GET", "/v1/jobs/7/log")->code(), "gone");
}

// -- followed ---------------------------------------------------------------------------------------------------------

CAF_TEST(a follower gets what is there and what comes and the end) {
  running_job job;
  job.write("one\n");
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  CAF_REQUIRE_EQUAL(result->status(), 200u);
  CAF_CHECK(!result->answer->stream->size());
  body_reader body{*result->answer};
  CAF_CHECK_EQUAL(body.take(), "one\n");
  job.write("two\n");
  job.tell_grown();
  CAF_CHECK_EQUAL(body.take(), "two\n");
  CAF_CHECK(!body.ended());
  job.write("three\n"); // The hub never tells of these.
  job.end();
  CAF_CHECK_EQUAL(body.take(), "three\n");
  CAF_CHECK(body.ended());
  CAF_CHECK_EQUAL(job.bridge.status("followers"), 0);
}

CAF_TEST(a follower sees what was written before its subscription stood) {
  running_job job;
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  body_reader body{*result->answer};
  CAF_CHECK_EQUAL(body.take(), "");
  // A new hub knows no follower: what is written before they are registered again wakes nobody.
  job.write("unheard\n");
  job.bridge.replace_log_hub();
  CAF_CHECK_EQUAL(job.bridge.node.followed.size(), 2u);
  CAF_CHECK_EQUAL(body.take(), "unheard\n");
}

CAF_TEST(a follower of a queued job waits for its start) {
  temp_dir dir;
  bridge_harness bridge{dir.path()};
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  const auto result = bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  body_reader body{*result->answer};
  CAF_CHECK_EQUAL(body.take(), "");
  CAF_CHECK(bridge.node.followed.empty());
  bridge.node.log_bytes[{{7}, 1}] = -1;
  bridge.change(job_id{7}, job_state::running, 1);
  CAF_REQUIRE_EQUAL(bridge.node.followed.size(), 1u);
  // The file comes after the claim.
  CAF_CHECK_EQUAL(body.take(), "");
  CAF_CHECK(!body.failed());
  std::filesystem::create_directories(log_path(dir.path(), 7, 1).parent_path());
  auto log = log_writer::create(log_path(dir.path(), 7, 1), 1 << 20, 0);
  CAF_REQUIRE(log.has_value());
  log->append(log_stream::out, 0, "hello\n", 0);
  log->flush(0);
  bridge.grew(bridge.node.followed[0].second);
  CAF_CHECK_EQUAL(body.take(), "hello\n");
}

CAF_TEST(a follower of a job that is cancelled before it starts ends) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  const auto result = bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  body_reader body{*result->answer};
  body.take();
  bridge.change(job_id{7}, job_state::cancelled, 0);
  CAF_CHECK_EQUAL(body.take(), "");
  CAF_CHECK(body.ended());
}

CAF_TEST(events carry offsets and pings and the job at the end) {
  running_job job;
  job.write("one\n");
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log", {"", {{"Accept", "text/event-stream"}}});
  CAF_CHECK_EQUAL(result->header("Content-Type"), "text/event-stream");
  body_reader body{*result->answer};
  CAF_CHECK_EQUAL(body.take(), "id: 4\ndata: {\"text\":\"one\\n\"}\n\n");
  for (int i = 0; i < 3; ++i)
    job.bridge.advance(5'000ms);
  CAF_CHECK_EQUAL(body.take(), ": ping\n\n");
  job.end(job_state::failed);
  const auto end = body.take();
  CAF_CHECK(end.starts_with("id: 4\nevent: end\ndata: {"));
  CAF_CHECK(end.find("\"state\":\"failed\"") != std::string::npos);
  CAF_CHECK(body.ended());
}

CAF_TEST(events resume behind the last one that came) {
  running_job job;
  job.write("one\ntwo\n");
  job.end();
  const auto result =
    job.bridge.ask("GET", "/v1/jobs/7/log", {"", {{"Accept", "text/event-stream"}, {"Last-Event-ID", "4"}}});
  body_reader body{*result->answer};
  CAF_CHECK(body.take().starts_with("id: 8\ndata: {\"text\":\"two\\n\"}\n\nid: 8\nevent: end\n"));
  CAF_CHECK(body.ended());
}

CAF_TEST(a client that goes away is forgotten by the hub) {
  running_job job;
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  {
    body_reader body{*result->answer};
    body.take();
    body.hang_up();
  }
  CAF_CHECK_EQUAL(job.bridge.status("followers"), 0);
  CAF_REQUIRE_EQUAL(job.bridge.node.unfollowed.size(), 1u);
  CAF_CHECK_EQUAL(job.bridge.node.unfollowed[0].second, job.bridge.node.followed[0].second);
}

CAF_TEST(a body that is never read is forgotten as well) {
  running_job job;
  const auto result = job.bridge.ask("HEAD", "/v1/jobs/7/log?follow=1");
  result->answer.reset();
  CAF_CHECK_EQUAL(job.bridge.status("followers"), 0);
}

CAF_TEST(a look at the job that fails is repeated) {
  running_job job;
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  body_reader body{*result->answer};
  body.take();
  job.write("last\n");
  job.bridge.node.reader_silent[0] = job.bridge.node.reader_silent[1] = true;
  job.end();
  job.bridge.advance(5'001ms);
  job.bridge.advance(5'001ms);
  CAF_CHECK(!body.ended());
  job.bridge.node.reader_silent[0] = job.bridge.node.reader_silent[1] = false;
  job.bridge.advance(5'001ms);
  CAF_CHECK_EQUAL(body.take(), "last\n");
  CAF_CHECK(body.ended());
}

CAF_TEST(followers of a bridge that dies are cut off and not left waiting) {
  running_job job;
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  body_reader body{*result->answer};
  body.take();
  job.bridge.crash();
  body.take();
  CAF_CHECK(body.failed());
}

CAF_TEST(a log is followed no longer than its token holds) {
  running_job job;
  const auto token = job.bridge.make_token("read");
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1", {{}, {}, true, token});
  body_reader body{*result->answer};
  job.write("one\n");
  job.tell_grown();
  CAF_CHECK_EQUAL(body.take(), "one\n");
  CAF_CHECK_EQUAL(job.bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  job.write("two\n");
  job.tell_grown();
  CAF_CHECK_EQUAL(body.take(), "");
  CAF_CHECK(body.failed());
  CAF_CHECK_EQUAL(job.bridge.status("followers"), 0);
}

CAF_TEST(a log that grows is followed no longer than until its token expires) {
  running_job job;
  const auto token = job.bridge.make_token("read", 1min);
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1", {{}, {}, true, token});
  body_reader body{*result->answer};
  body.take();
  job.bridge.now += 1min;
  job.write("one\n");
  job.tell_grown();
  CAF_CHECK_EQUAL(body.take(), "");
  CAF_CHECK(body.failed());
}

CAF_TEST(a follower of a job that was removed is cut off) {
  running_job job;
  const auto result = job.bridge.ask("GET", "/v1/jobs/7/log?follow=1");
  CAF_REQUIRE(result->came());
  body_reader reader{*result->answer};
  reader.take();
  CAF_CHECK(!reader.failed());
  job.bridge.node.jobs.clear();
  job.bridge.node.log_bytes.clear();
  job.bridge.replace_database(); // It looks at its job.
  CAF_CHECK(reader.failed());
  CAF_CHECK_EQUAL(job.bridge.status("followers"), 0);
}
