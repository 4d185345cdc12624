#define CAF_SUITE bridge_jobs
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

transition_result moved(std::int64_t id, job_state state) {
  transition_result result;
  result.change.id = job_id{id};
  result.change.state = state;
  return result;
}

} // namespace

// -- submit -----------------------------------------------------------------------------------------------------------

CAF_TEST(a job is answered 201 with its place after it is stored) {
  bridge_harness bridge;
  const auto result = bridge.post("/v1/jobs", R"({"name":"build","command":["make","all"]})");
  CAF_REQUIRE_EQUAL(result->status(), 201u);
  CAF_CHECK_EQUAL(result->header("Location"), "/v1/jobs/1");
  CAF_CHECK_EQUAL(result->json()["name"], "build");
  CAF_CHECK_EQUAL(result->json()["state"], "queued");
  CAF_REQUIRE_EQUAL(bridge.node.enqueued.size(), 1u);
  CAF_CHECK_EQUAL(bridge.node.enqueued[0].command->words.at(1), "all");
}

CAF_TEST(an array of jobs is stored in one message and answered as items) {
  bridge_harness bridge;
  const auto result = bridge.post("/v1/jobs", R"([{"name":"a","command":"x"},{"name":"b","command":"y"}])");
  CAF_REQUIRE_EQUAL(result->status(), 201u);
  CAF_CHECK_EQUAL(result->header("Location"), "");
  CAF_CHECK_EQUAL(result->json()["items"].size(), 2u);
  CAF_CHECK_EQUAL(result->json()["items"][1]["name"], "b");
}

CAF_TEST(an array of one is answered as items) {
  bridge_harness bridge;
  const auto result = bridge.post("/v1/jobs", R"([{"name":"a","command":"x"}])");
  CAF_CHECK_EQUAL(result->json()["items"].size(), 1u);
}

CAF_TEST(a submission with a key is stored with its digest and its answer) {
  bridge_harness bridge;
  const auto send = [&](const std::string& body) {
    return bridge.ask("POST", "/v1/jobs",
                      {body, {{"Content-Type", "application/json"}, {"Idempotency-Key", "deploy-1"}}});
  };
  CAF_CHECK_EQUAL(send(R"({"command":"x","name":"n"})")->status(), 201u);
  send(R"({ "name":"n", "command":"x" })");
  send(R"({"command":"y","name":"n"})");
  CAF_REQUIRE_EQUAL(bridge.node.keys.size(), 3u);
  CAF_CHECK_EQUAL(bridge.node.keys[0].key, "deploy-1");
  CAF_CHECK_EQUAL(bridge.node.keys[0].digest, bridge.node.keys[1].digest);
  CAF_CHECK_NOT_EQUAL(bridge.node.keys[0].digest, bridge.node.keys[2].digest);
  const auto answer = bridge.node.keys[0].answer({{some_job(9, job_state::queued)}, {}, {}});
  CAF_CHECK_EQUAL(answer.status, 201);
  CAF_CHECK_EQUAL(answer.location, "/v1/jobs/9");
  const auto shown = nlohmann::json::parse(answer.body);
  CAF_CHECK_EQUAL(shown["id"], 9);
}

CAF_TEST(a repeated submission gets the stored answer) {
  bridge_harness bridge;
  accepted_jobs repeated;
  repeated.answer = stored_answer{201, "/v1/jobs/5", R"({"id":5})"};
  repeated.repeated = true;
  bridge.node.enqueue_answer = repeated;
  const auto result = bridge.ask(
    "POST", "/v1/jobs", {R"({"command":"x"})", {{"Content-Type", "application/json"}, {"Idempotency-Key", "k"}}});
  CAF_CHECK_EQUAL(result->status(), 201u);
  CAF_CHECK_EQUAL(result->header("Location"), "/v1/jobs/5");
  CAF_CHECK_EQUAL(result->header("Idempotency-Replayed"), "true");
  CAF_CHECK_EQUAL(result->json()["id"], 5);
}

CAF_TEST(a key that is none is refused) {
  bridge_harness bridge;
  for (const auto& key : {std::string{}, std::string{"a b"}, std::string(256, 'k'), std::string{"\xc3\xbc"}}) {
    const auto result = bridge.ask(
      "POST", "/v1/jobs", {R"({"command":"x"})", {{"Content-Type", "application/json"}, {"Idempotency-Key", key}}});
    CAF_CHECK_EQUAL(result->code(), "invalid_parameter");
  }
  CAF_CHECK(bridge.node.enqueued.empty());
}

CAF_TEST(a parameter that is given twice is refused by every call) {
  bridge_harness bridge;
  for (const auto* target : {"/v1/jobs?state=failed&state=queued", "/v1/events?after=1&after=2"}) {
    const auto result = bridge.ask("GET", target);
    CAF_CHECK_EQUAL(result->status(), 400u);
    CAF_CHECK_EQUAL(result->code(), "invalid_parameter");
  }
}

CAF_TEST(a job that stood before is answered 200 with its place) {
  bridge_harness bridge;
  bridge.node.enqueue_answer = accepted_jobs{{some_job(7, job_state::running, 1)}, {job_id{7}}, {}};
  const auto result = bridge.post("/v1/jobs", R"({"command":"x","unique_key":"k","on_conflict":"return"})");
  CAF_CHECK_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(result->header("Location"), "/v1/jobs/7");
  CAF_CHECK_EQUAL(result->json()["state"], "running");
}

CAF_TEST(broken JSON is refused with its position) {
  bridge_harness bridge;
  const auto result = bridge.post("/v1/jobs", "{\"name\":\n  oops}");
  CAF_CHECK_EQUAL(result->status(), 400u);
  CAF_CHECK_EQUAL(result->code(), "malformed_body");
  CAF_CHECK(result->json()["detail"].get<std::string>().find("line 2") != std::string::npos);
}

CAF_TEST(a number that nothing can hold is malformed and is not repeated) {
  bridge_harness bridge;
  for (const std::string& number : {std::string{"1e999"}, std::string(10'000, '9')}) {
    const auto result = bridge.post("/v1/jobs", R"({"command":"true","priority":)" + number + "}");
    CAF_CHECK_EQUAL(result->status(), 400u);
    CAF_CHECK_EQUAL(result->code(), "malformed_body");
    CAF_CHECK_LESS(result->json().dump().size(), 1'000u);
  }
}

CAF_TEST(an empty body is malformed) {
  bridge_harness bridge;
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs", "")->code(), "malformed_body");
}

CAF_TEST(JSON nested without end is refused) {
  bridge_harness bridge;
  const auto deep = R"({"metadata":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs", deep)->code(), "malformed_body");
  // Brackets inside a string are no nesting.
  const auto flat = R"({"name":")" + std::string(100, '[') + R"(","command":"x"})";
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs", flat)->status(), 201u);
}

CAF_TEST(another content type is refused) {
  bridge_harness bridge;
  const auto form = bridge.ask("POST", "/v1/jobs", {R"({"command":"x"})", {{"Content-Type", "text/plain"}}});
  CAF_CHECK_EQUAL(form->status(), 415u);
  CAF_CHECK_EQUAL(form->code(), "unsupported_media_type");
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/jobs", {R"({"command":"x"})", {}})->status(), 415u);
  CAF_CHECK(bridge.node.enqueued.empty());
}

CAF_TEST(every wrong field of every job is named) {
  bridge_harness bridge;
  const auto result = bridge.post("/v1/jobs", R"([{"command":"x"},{"command":"x","bogus":1},{"priority":"high"}])");
  CAF_REQUIRE_EQUAL(result->status(), 422u);
  CAF_CHECK_EQUAL(result->code(), "invalid_input");
  bool second = false;
  bool third = false;
  for (const auto& each : result->json()["errors"]) {
    second = second || each["pointer"] == "/1/bogus";
    third = third || each["pointer"] == "/2/priority";
  }
  CAF_CHECK(second);
  CAF_CHECK(third);
  CAF_CHECK(bridge.node.enqueued.empty());
}

CAF_TEST(an array is refused when it is empty or too long) {
  bridge_harness bridge;
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs", "[]")->status(), 422u);
  const auto job = std::string{R"({"command":"x"})"};
  const auto four = "[" + job + "," + job + "," + job + "," + job + "]";
  const auto refused = bridge.post("/v1/jobs", four);
  CAF_CHECK_EQUAL(refused->status(), 413u);
  CAF_CHECK(refused->json()["detail"].get<std::string>().find("application/x-ndjson") != std::string::npos);
  CAF_CHECK(bridge.node.enqueued.empty());
}

CAF_TEST(others are answered while a large body is read) {
  bridge_harness bridge;
  bridge.hold_files = true;
  const auto padding = std::string(100'000, ' ');
  const auto large = bridge.post("/v1/jobs", padding + R"({"command":"x"})");
  const auto broken = bridge.post("/v1/jobs", padding + "{");
  const auto small = bridge.post("/v1/jobs", R"({"command":"y"})");
  CAF_CHECK_EQUAL(small->status(), 201u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/healthz")->status(), 200u);
  CAF_CHECK(!large->came());
  CAF_CHECK(!broken->came());
  bridge.run_held_files();
  CAF_CHECK_EQUAL(large->status(), 201u);
  CAF_CHECK_EQUAL(broken->code(), "malformed_body");
}

CAF_TEST(a large body that was read while the node began to stop is refused) {
  bridge_harness bridge;
  bridge.hold_files = true;
  const auto large = bridge.post("/v1/jobs", std::string(100'000, ' ') + R"({"command":"x"})");
  bridge.start_draining();
  bridge.run_held_files();
  CAF_CHECK_EQUAL(large->code(), "draining");
  CAF_CHECK(bridge.node.enqueued.empty());
}

CAF_TEST(calls that take one small document refuse a large one) {
  bridge_harness bridge;
  const auto refused = bridge.ask(
    "PATCH", "/v1/jobs/7", {std::string(3'000'000, ' ') + R"({"priority":1})", {{"Content-Type", "application/json"}}});
  CAF_CHECK_EQUAL(refused->status(), 413u);
  CAF_CHECK_EQUAL(refused->code(), "body_too_large");
}

CAF_TEST(an error of the database becomes its problem) {
  bridge_harness bridge;
  bridge.node.enqueue_failure = error{ec::storage_full, "the disk is full", {}};
  const auto result = bridge.post("/v1/jobs", R"({"command":"x"})");
  CAF_CHECK_EQUAL(result->status(), 507u);
  CAF_CHECK_EQUAL(result->code(), "storage_full");
  CAF_CHECK_EQUAL(result->json()["detail"], "the disk is full");
}

CAF_TEST(a database that does not answer leaves the outcome unknown) {
  bridge_harness bridge;
  bridge.node.database_silent = true;
  const auto result = bridge.post("/v1/jobs", R"({"command":"x"})");
  CAF_CHECK(!result->came());
  bridge.advance(10'001ms);
  CAF_CHECK_EQUAL(result->status(), 503u);
  CAF_CHECK_EQUAL(result->code(), "outcome_unknown");
  CAF_CHECK(!result->header("Retry-After").empty());
}

CAF_TEST(a dead database is told at once) {
  bridge_harness bridge;
  bridge.kill_database();
  const auto result = bridge.post("/v1/jobs", R"({"command":"x"})");
  CAF_CHECK_EQUAL(result->code(), "outcome_unknown");
  bridge.replace_database();
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs", R"({"command":"x"})")->status(), 201u);
  CAF_CHECK_EQUAL(bridge.node.change_subscriptions, 2);
}

// -- get --------------------------------------------------------------------------------------------------------------

CAF_TEST(a job is shown with an ETag that saves reading it again) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  const auto first = bridge.ask("GET", "/v1/jobs/7");
  CAF_REQUIRE_EQUAL(first->status(), 200u);
  CAF_CHECK_EQUAL(first->json()["id"], 7);
  const auto etag = first->header("ETag");
  const auto again = bridge.ask("GET", "/v1/jobs/7", {"", {{"If-None-Match", "\"other\", " + etag}}});
  CAF_CHECK_EQUAL(again->status(), 304u);
  CAF_CHECK_EQUAL(again->header("ETag"), etag);
  bridge.change(job_id{7}, job_state::running, 1);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/7", {"", {{"If-None-Match", etag}}})->status(), 200u);
}

CAF_TEST(a step that moves on changes the ETag) {
  bridge_harness bridge;
  auto job = some_job(7, job_state::running, 1);
  job.steps.resize(2);
  bridge.node.jobs[7] = job;
  const auto before = bridge.ask("GET", "/v1/jobs/7")->header("ETag");
  bridge.node.jobs[7].steps[1].state = step_state::running;
  CAF_CHECK(bridge.ask("GET", "/v1/jobs/7")->header("ETag") != before);
}

CAF_TEST(an unknown job and a word for an id are not found) {
  bridge_harness bridge;
  for (const auto* target :
       {"/v1/jobs/9", "/v1/jobs/nine", "/v1/jobs/0", "/v1/jobs/-1", "/v1/jobs/99999999999999999999"}) {
    const auto result = bridge.ask("GET", target);
    CAF_CHECK_EQUAL(result->status(), 404u);
    CAF_CHECK_EQUAL(result->code(), "not_found");
  }
}

CAF_TEST(a long poll is woken by the final state only) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  const auto result = bridge.ask("GET", "/v1/jobs/7?wait=30s");
  CAF_CHECK(!result->came());
  CAF_CHECK_EQUAL(bridge.status("waiting"), 1);
  bridge.change(job_id{7}, job_state::running, 1);
  CAF_CHECK(!result->came());
  bridge.change(job_id{7}, job_state::succeeded, 1);
  CAF_REQUIRE_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(result->json()["state"], "succeeded");
  CAF_CHECK_EQUAL(bridge.status("waiting"), 0);
}

CAF_TEST(a long poll whose time is up shows the job as it is) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto result = bridge.ask("GET", "/v1/jobs/7?wait=500ms");
  bridge.advance(499ms);
  CAF_CHECK(!result->came());
  bridge.advance(2ms);
  CAF_REQUIRE_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(result->json()["state"], "running");
}

CAF_TEST(a long poll for a final or unknown job does not wait) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::failed, 1);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/7?wait=5m")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/8?wait=30")->status(), 404u);
  CAF_CHECK_EQUAL(bridge.status("waiting"), 0);
}

CAF_TEST(a long poll survives a new database and sees what it missed) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto result = bridge.ask("GET", "/v1/jobs/7?wait=30s");
  bridge.node.jobs[7].state = job_state::interrupted; // Nobody told the bridge.
  bridge.replace_database();
  CAF_REQUIRE_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(result->json()["state"], "interrupted");
}

CAF_TEST(requests under way end with the bridge) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto poll = bridge.ask("GET", "/v1/jobs/7?wait=30s");
  bridge.node.database_silent = true;
  const auto submission = bridge.post("/v1/jobs", R"({"command":"x"})");
  CAF_CHECK(!poll->dropped);
  CAF_CHECK(!submission->dropped);
  bridge.crash();
  CAF_CHECK(poll->dropped);
  CAF_CHECK(submission->dropped);
  CAF_CHECK(bridge.ask("GET", "/healthz")->dropped);
}

CAF_TEST(a wait that is none is refused) {
  bridge_harness bridge;
  for (const auto* wait : {"6m", "-1", "soon", "", "1h"}) {
    const auto result = bridge.ask("GET", std::string{"/v1/jobs/7?wait="} + wait);
    CAF_CHECK_EQUAL(result->status(), 400u);
    CAF_CHECK_EQUAL(result->code(), "invalid_parameter");
  }
}

CAF_TEST(more long polls than allowed are turned away) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto one = bridge.ask("GET", "/v1/jobs/7?wait=30s");
  const auto two = bridge.ask("GET", "/v1/jobs/7?wait=30s");
  const auto three = bridge.ask("GET", "/v1/jobs/7?wait=30s");
  CAF_CHECK(!one->came());
  CAF_CHECK(!two->came());
  CAF_CHECK_EQUAL(three->code(), "overloaded");
}

CAF_TEST(a long poll whose client may be gone is answered at once) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto stays = bridge.ask("GET", "/v1/jobs/7?wait=30s", {.body = {}, .headers = {}, .id = 5});
  const auto leaves = bridge.ask("GET", "/v1/jobs/7?wait=30s", {.body = {}, .headers = {}, .id = 6});
  bridge.abandon(6);
  bridge.abandon(7);
  CAF_CHECK(!stays->came());
  CAF_CHECK_EQUAL(leaves->json()["state"], "running");
  CAF_CHECK_EQUAL(bridge.status("waiting"), 1);
}

CAF_TEST(a long poll for a job that has ended leaves no timer) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::succeeded, 1);
  bridge.ask("GET", "/v1/jobs/7?wait=5m"); // There may be a tick from now on.
  const auto before = bridge.timers();
  bridge.ask("GET", "/v1/jobs/7");
  const auto plain = bridge.timers() - before;
  bridge.ask("GET", "/v1/jobs/7?wait=5m");
  CAF_CHECK_EQUAL(bridge.timers(), before + 2 * plain);
}

CAF_TEST(a long poll ends with its token) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto token = bridge.make_token("read");
  const auto result = bridge.ask("GET", "/v1/jobs/7?wait=30s", {{}, {}, true, token});
  CAF_CHECK(!result->came());
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  CAF_CHECK_EQUAL(result->code(), "unauthorized");
  CAF_CHECK_EQUAL(bridge.status("waiting"), 0);
}

CAF_TEST(a long poll tells nothing once its token has expired) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto token = bridge.make_token("read", 1min);
  const auto result = bridge.ask("GET", "/v1/jobs/7?wait=2m", {{}, {}, true, token});
  bridge.now += 1min;
  bridge.change(job_id{7}, job_state::succeeded, 1);
  CAF_CHECK_EQUAL(result->code(), "unauthorized");
}

CAF_TEST(a write that was done is told as such although its job cannot be read) {
  bridge_harness bridge;
  bridge.node.cancel_answer = moved(7, job_state::cancelled);
  for (auto& silent : bridge.node.reader_silent)
    silent = true;
  for (const auto& answer :
       {bridge.ask("POST", "/v1/jobs/7/cancel"), bridge.ask("POST", "/v1/dead-letters/7/discard"),
        bridge.ask("PATCH", "/v1/jobs/7", {R"({"priority":1})", {{"Content-Type", "application/json"}}}),
        bridge.ask("POST", "/v1/queues/slow/pause")}) {
    bridge.advance(5'001ms);
    bridge.advance(5'001ms);
    CAF_CHECK_EQUAL(answer->code(), "outcome_unknown");
    CAF_CHECK(answer->json().value("detail", "").find("it was done") == 0);
  }
}

CAF_TEST(a reader that fails is passed over once) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  bridge.kill_reader(0);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/7")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/7")->status(), 200u);
  bridge.kill_reader(1);
  const auto result = bridge.ask("GET", "/v1/jobs/7");
  CAF_CHECK_EQUAL(result->status(), 503u);
  CAF_CHECK_EQUAL(result->code(), "timeout");
  CAF_CHECK(!result->header("Retry-After").empty());
}

CAF_TEST(a reader that hangs is passed over after its time) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  bridge.node.reader_silent[0] = true;
  const auto result = bridge.ask("GET", "/v1/jobs/7");
  CAF_CHECK(!result->came());
  bridge.advance(5'001ms);
  CAF_CHECK_EQUAL(result->status(), 200u);
}

// -- list -------------------------------------------------------------------------------------------------------------

CAF_TEST(a list hands on its filters and tells the next page) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  bridge.node.next_page = job_id{7};
  const auto result = bridge.ask("GET", "/v1/jobs?state=queued,running&project=p&label=gpu&limit=1&cursor=8&other=x");
  CAF_REQUIRE_EQUAL(result->status(), 200u);
  CAF_CHECK_EQUAL(result->json()["items"].size(), 1u);
  CAF_CHECK_EQUAL(result->json()["next_cursor"], "7");
  CAF_CHECK_EQUAL(result->header("Link"),
                  "</v1/jobs?state=queued%2Crunning&project=p&label=gpu&limit=1&other=x&cursor=7>; rel=\"next\"");
  const auto& filter = bridge.node.filters.at(0);
  CAF_CHECK_EQUAL(filter.states.size(), 2u);
  CAF_CHECK_EQUAL(filter.project.value_or(""), "p");
  CAF_CHECK_EQUAL(filter.label.value_or(""), "gpu");
  CAF_CHECK_EQUAL(filter.limit, 1u);
  CAF_CHECK_EQUAL(filter.before.value_or(job_id{}).value, 8);
}

CAF_TEST(the last page has no next one) {
  bridge_harness bridge;
  const auto result = bridge.ask("GET", "/v1/jobs");
  CAF_CHECK(result->json()["next_cursor"].is_null());
  CAF_CHECK_EQUAL(result->header("Link"), "");
  CAF_CHECK_EQUAL(bridge.node.filters.at(0).limit, 50u);
}

CAF_TEST(a wrong parameter of a list is named) {
  bridge_harness bridge;
  for (const auto* query :
       {"state=asleep", "state=", "state=,,", "state=queued,", "limit=0", "limit=1001", "limit=x", "cursor=abc"}) {
    const auto result = bridge.ask("GET", std::string{"/v1/jobs?"} + query);
    CAF_CHECK_EQUAL(result->status(), 400u);
    CAF_CHECK_EQUAL(result->code(), "invalid_parameter");
  }
}

// -- cancel -----------------------------------------------------------------------------------------------------------

CAF_TEST(cancelling a running job is accepted and a waiting one done) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::cancelling, 1);
  bridge.node.cancel_answer = moved(7, job_state::cancelling);
  const auto running = bridge.ask("POST", "/v1/jobs/7/cancel");
  CAF_CHECK_EQUAL(running->status(), 202u);
  CAF_CHECK_EQUAL(running->json()["state"], "cancelling");
  bridge.node.jobs[7].state = job_state::cancelled;
  bridge.node.cancel_answer = moved(7, job_state::cancelled);
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/jobs/7/cancel")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.node.cancelled_by.size(), 2u);
}

CAF_TEST(cancelling a final job conflicts and an unknown one is not found) {
  bridge_harness bridge;
  bridge.node.cancel_answer = error{ec::conflict, "job 7 has succeeded", {}};
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/jobs/7/cancel")->status(), 409u);
  bridge.node.cancel_answer = error{ec::not_found, "there is no job 8", {}};
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/jobs/8/cancel")->status(), 404u);
}
