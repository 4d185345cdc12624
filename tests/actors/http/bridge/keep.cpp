#define CAF_SUITE bridge_keep
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;

// -- jobs that have ended ---------------------------------------------------------------------------------------------

CAF_TEST(a retry answers with the new job and passes secrets on) {
  bridge_harness bridge;
  auto again = some_job(9, job_state::queued);
  again.retry_of = job_id{7};
  bridge.node.retry_answer = again;
  const auto plain = bridge.ask("POST", "/v1/jobs/7/retry");
  CAF_CHECK_EQUAL(plain->status(), 201u);
  CAF_CHECK_EQUAL(plain->header("Location"), "/v1/jobs/9");
  CAF_CHECK_EQUAL(plain->json()["retry_of"], 7);
  bridge.post("/v1/dead-letters/7/requeue", R"({"secrets":{"A":"b"}})");
  CAF_REQUIRE_EQUAL(bridge.node.retries.size(), 2u);
  CAF_CHECK(!bridge.node.retries[0].dead_letter && bridge.node.retries[1].dead_letter);
  CAF_CHECK_EQUAL(bridge.node.retries[1].secrets.at("A"), "b");
  bridge.node.retry_answer = error{ec::conflict, "not final", {}};
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/jobs/7/retry")->status(), 409u);
  const auto wrong = bridge.post("/v1/jobs/7/retry", R"({"secrets":{"A":1},"x":2})");
  CAF_CHECK_EQUAL(wrong->status(), 422u);
  CAF_CHECK_EQUAL(wrong->json()["errors"][0]["pointer"], "/secrets/A");
  CAF_CHECK_EQUAL(wrong->json()["errors"][1]["pointer"], "/x");
}

CAF_TEST(a retry with an idempotency key is refused as it would make a job each time) {
  bridge_harness bridge;
  for (const auto* target : {"/v1/jobs/7/retry", "/v1/dead-letters/7/requeue"}) {
    const auto refused = bridge.ask("POST", target, {{}, {{"Idempotency-Key", "k"}}, true});
    CAF_CHECK_EQUAL(refused->status(), 400u);
    CAF_CHECK_EQUAL(refused->code(), "invalid_parameter");
  }
  CAF_CHECK(bridge.node.retries.empty());
  const auto many = bridge.ask("POST", "/v1/dead-letters/requeue",
                               {"{}", {{"Content-Type", "application/json"}, {"Idempotency-Key", "k"}}, true});
  CAF_CHECK_EQUAL(many->code(), "invalid_parameter");
  CAF_CHECK(bridge.node.bulks.empty());
}

CAF_TEST(a removed job is answered without a body and its files go) {
  bridge_harness bridge;
  const auto removed = bridge.ask("DELETE", "/v1/jobs/7");
  CAF_CHECK_EQUAL(removed->status(), 204u);
  CAF_CHECK((bridge.node.removed == std::vector<job_id>{{7}}));
  bridge.node.simple_answer = error{ec::conflict, "it runs", {}};
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/jobs/8")->status(), 409u);
  CAF_CHECK_EQUAL(bridge.node.removed.size(), 1u);
}

CAF_TEST(dead letters are listed by their mark and discarded) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::failed, 2);
  bridge.ask("GET", "/v1/dead-letters?project=web");
  CAF_REQUIRE_EQUAL(bridge.node.filters.size(), 1u);
  CAF_CHECK(bridge.node.filters[0].dead_letters);
  CAF_CHECK_EQUAL(bridge.node.filters[0].project.value_or(""), "web");
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/dead-letters/7/discard")->json()["id"], 7);
  CAF_CHECK((bridge.node.discarded == std::vector<job_id>{{7}}));
}

// -- many jobs --------------------------------------------------------------------------------------------------------

CAF_TEST(a call about many jobs counts and lists what became of them) {
  bridge_harness bridge;
  for (const auto id : {12, 13, 14})
    bridge.node.jobs[id] = some_job(id, job_state::failed, 2);
  const auto requeued = bridge.post("/v1/dead-letters/requeue", R"({"project":"web"})");
  CAF_CHECK_EQUAL(requeued->status(), 200u);
  CAF_CHECK_EQUAL(requeued->json()["matched"], 3);
  CAF_CHECK_EQUAL(requeued->json()["requeued"], 2);
  CAF_CHECK_EQUAL(requeued->json()["refusals"][0]["id"], 13);
  CAF_CHECK_EQUAL(requeued->json()["items"][0]["retry_of"], 12);
  const auto cancelled = bridge.post("/v1/jobs/cancel", R"({"state":["queued","running"]})");
  CAF_CHECK_EQUAL(cancelled->json()["cancelled"], 2);
  CAF_CHECK_EQUAL(bridge.node.filters.back().states.size(), 2u);
}

CAF_TEST(a node that drains requeues no dead letters and discards them) {
  bridge_harness bridge;
  bridge.node.jobs[12] = some_job(12, job_state::failed, 2);
  bridge.start_draining();
  CAF_CHECK_EQUAL(bridge.post("/v1/dead-letters/requeue", "{}")->code(), "draining");
  CAF_CHECK(bridge.node.bulks.empty());
  CAF_CHECK_EQUAL(bridge.post("/v1/dead-letters/discard", "{}")->status(), 200u);
}

CAF_TEST(a call about many jobs must say which) {
  bridge_harness bridge;
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs/cancel", "{}")->status(), 422u);
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs/cancel", R"({"state":"failed"})")->json()["errors"][0]["pointer"], "/state");
  CAF_CHECK_EQUAL(bridge.post("/v1/jobs/cancel", R"({"queue":7})")->json()["errors"][0]["pointer"], "/queue");
  CAF_CHECK_EQUAL(bridge.post("/v1/dead-letters/discard", "[]")->status(), 422u);
  // All of them only to who says so.
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/dead-letters/requeue")->status(), 415u);
  CAF_CHECK(bridge.node.bulks.empty());
}

// -- queues, workers, what waits --------------------------------------------------------------------------------------

CAF_TEST(a queue is paused and resumed by its name) {
  bridge_harness bridge;
  bridge.node.queues = {{"slow", 3, 1, queue_pause{timestamp{}, "ann"}}};
  const auto paused = bridge.ask("POST", "/v1/queues/slow/pause");
  CAF_CHECK_EQUAL(paused->status(), 200u);
  CAF_CHECK_EQUAL(paused->json()["paused"], true);
  CAF_CHECK(bridge.node.paused.contains("slow"));
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/queues")->json()["items"][0]["queued"], 3);
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/queues/other/resume")->json()["paused"], false);
}

CAF_TEST(however many jobs there are a node is ready and a queue is paused and a job explained) {
  bridge_harness bridge;
  bridge.node.counting = true;
  bridge.node.jobs[1] = some_job(1, job_state::queued);
  bridge.node.blockers.paused = queue_pause{timestamp{}, "ann"};
  CAF_CHECK_EQUAL(bridge.ask("GET", "/readyz")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/queues/slow/pause")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/1/why")->json()["reasons"][0]["kind"], "paused");
}

CAF_TEST(what no queue can be called is not paused) {
  bridge_harness bridge;
  for (const std::string name : {"a%2Fb", "%20", "-x"})
    CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/queues/" + name + "/pause")->status(), 422u);
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/queues/" + std::string(65, 'q') + "/pause")->status(), 422u);
  CAF_CHECK(bridge.node.paused.empty());
}

CAF_TEST(slots and cordons reach the worker supervisor) {
  bridge_harness bridge;
  const auto changed = bridge.ask("PATCH", "/v1/node", {R"({"slots":5})", {{"Content-Type", "application/json"}}});
  CAF_CHECK_EQUAL(changed->json()["slots"], 5);
  CAF_CHECK_EQUAL(bridge.node.slots, 5u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/node")->json()["slots"], 5);
  const auto wrong = bridge.ask("PATCH", "/v1/node", {R"({"slots":0,"x":1})", {{"Content-Type", "application/json"}}});
  CAF_CHECK_EQUAL(wrong->json()["errors"].size(), 2u);
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/workers/node/1/cordon")->json()["cordoned"], true);
  CAF_REQUIRE_EQUAL(bridge.node.cordons.size(), 1u);
  CAF_CHECK_EQUAL(bridge.node.cordons[0].first, "node/1");
}

CAF_TEST(a waiting job is changed field by field) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::queued);
  bridge.node.cancel_answer = transition_result{};
  const auto patch = [&](const char* body) {
    return bridge.ask("PATCH", "/v1/jobs/7", {body, {{"Content-Type", "application/json"}}});
  };
  CAF_CHECK_EQUAL(patch(R"({"priority":3,"run_at":null})")->status(), 200u);
  CAF_REQUIRE_EQUAL(bridge.node.patches.size(), 1u);
  CAF_CHECK(bridge.node.patches[0].second.priority == 3);
  CAF_CHECK(bridge.node.patches[0].second.run_at.has_value() && !*bridge.node.patches[0].second.run_at);
  CAF_CHECK_EQUAL(patch("{}")->status(), 422u);
  CAF_CHECK_EQUAL(patch(R"({"weight":1})")->json()["errors"][0]["pointer"], "/weight");
}
