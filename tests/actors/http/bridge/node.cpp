#define CAF_SUITE bridge_node
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

// -- in front of routing ----------------------------------------------------------------------------------------------

CAF_TEST(every call but health needs the token) {
  bridge_harness bridge;
  for (const auto* target : {"/v1/jobs", "/v1/jobs/1/log", "/v1/node", "/nothing"}) {
    const auto result = bridge.ask("GET", target, {"", {}, false});
    CAF_CHECK_EQUAL(result->status(), 401u);
    CAF_CHECK_EQUAL(result->code(), "unauthorized");
    CAF_CHECK(!result->header("WWW-Authenticate").empty());
  }
  CAF_CHECK_EQUAL(bridge.ask("GET", "/healthz", {"", {}, false})->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/readyz", {"", {}, false})->status(), 200u);
}

CAF_TEST(a wrong token is no token) {
  bridge_harness bridge;
  for (const auto* value : {"Bearer 0123456789abcdeF", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef"}) {
    const auto result = bridge.ask("GET", "/v1/node", {"", {{"Authorization", value}}, false});
    CAF_CHECK_EQUAL(result->status(), 401u);
  }
  // A second header could smuggle one past a proxy.
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/node", {"", {{"Authorization", "Bearer x"}}, true})->status(), 401u);
}

CAF_TEST(an unknown path is told apart from a wrong method) {
  bridge_harness bridge;
  for (const auto* target : {"/v2/jobs", "/v1/jobs/", "/v1/jobs/1/log/x", "/"})
    CAF_CHECK_EQUAL(bridge.ask("GET", target)->code(), "unknown_path");
  const auto wrong = bridge.ask("DELETE", "/v1/jobs");
  CAF_CHECK_EQUAL(wrong->status(), 405u);
  CAF_CHECK_EQUAL(wrong->code(), "method_not_allowed");
  CAF_CHECK_EQUAL(wrong->header("Allow"), "POST, GET, HEAD");
}

CAF_TEST(HEAD is routed as GET) {
  bridge_harness bridge;
  CAF_CHECK_EQUAL(bridge.ask("HEAD", "/v1/node")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("HEAD", "/v1/jobs/1/cancel")->status(), 405u);
}

// -- the node ---------------------------------------------------------------------------------------------------------

CAF_TEST(the node tells who it is and when it drains) {
  bridge_harness bridge;
  const auto before = bridge.ask("GET", "/v1/node")->json();
  CAF_CHECK_EQUAL(before["version"], "1.2.3");
  CAF_CHECK_EQUAL(before["state"], "running");
  bridge.start_draining();
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/node")->json()["state"], "draining");
}

CAF_TEST(a draining node takes no job but answers questions) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto told = bridge.ask("POST", "/v1/node/drain");
  CAF_CHECK_EQUAL(told->status(), 202u);
  CAF_CHECK_EQUAL(told->json()["state"], "draining");
  CAF_CHECK_EQUAL(bridge.node.drains, 1);
  const auto refused = bridge.post("/v1/jobs", R"({"command":"x"})");
  CAF_CHECK_EQUAL(refused->status(), 503u);
  CAF_CHECK_EQUAL(refused->code(), "draining");
  CAF_CHECK(!refused->header("Retry-After").empty());
  CAF_CHECK(bridge.node.enqueued.empty());
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/jobs/7")->status(), 200u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/readyz")->code(), "draining");
  CAF_CHECK_EQUAL(bridge.ask("GET", "/healthz")->status(), 200u);
}

CAF_TEST(a bridge that ended holds no other actor) {
  bridge_harness bridge;
  const auto before = bridge.holders_of_root();
  bridge.crash();
  CAF_CHECK_EQUAL(bridge.holders_of_root(), before - 1);
}

CAF_TEST(workers are listed with what they do) {
  bridge_harness bridge;
  const auto items = bridge.ask("GET", "/v1/workers")->json()["items"];
  CAF_REQUIRE_EQUAL(items.size(), 2u);
  CAF_CHECK_EQUAL(items[0]["name"], "node/1");
  CAF_CHECK_EQUAL(items[0]["job"], 12);
  CAF_CHECK_EQUAL(items[0]["runner_pid"], 4711);
  CAF_CHECK_EQUAL(items[1]["state"], "idle");
  CAF_CHECK(items[1]["job"].is_null());
  CAF_CHECK(items[1]["runner_pid"].is_null());
}

CAF_TEST(a supervisor that does not answer is a problem) {
  bridge_harness bridge;
  bridge.node.workers_silent = true;
  const auto result = bridge.ask("GET", "/v1/workers");
  bridge.advance(5'001ms);
  CAF_CHECK_EQUAL(result->status(), 503u);
  CAF_CHECK_EQUAL(result->code(), "timeout");
}

CAF_TEST(stats name every state) {
  bridge_harness bridge;
  bridge.node.stats.jobs_by_state[job_state::queued] = 3;
  bridge.node.stats.oldest_queued_at = timestamp{0ms};
  const auto stats = bridge.ask("GET", "/v1/stats")->json();
  CAF_CHECK_EQUAL(stats["jobs"].size(), 11u);
  CAF_CHECK_EQUAL(stats["jobs"]["queued"], 3);
  CAF_CHECK_EQUAL(stats["jobs"]["skipped"], 0);
  CAF_CHECK_EQUAL(stats["oldest_queued_at"], "1970-01-01T00:00:00.000Z");
}

CAF_TEST(a node whose database hangs is alive but not ready) {
  bridge_harness bridge;
  bridge.node.database_silent = true;
  const auto result = bridge.ask("GET", "/readyz");
  bridge.advance(5'001ms);
  CAF_CHECK_EQUAL(result->status(), 503u);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/healthz")->status(), 200u);
}

// -- faults -----------------------------------------------------------------------------------------------------------

CAF_TEST(faults are forbidden unless switched on) {
  bridge_harness bridge;
  const auto result = bridge.post("/v1/node/faults", R"({"actor":"worker","index":1})");
  CAF_CHECK_EQUAL(result->status(), 403u);
  CAF_CHECK_EQUAL(result->code(), "forbidden");
  CAF_CHECK(bridge.node.faults.empty());
}

CAF_TEST(a fault goes to the actor that was named) {
  bridge_harness bridge{"/nonexistent", true};
  CAF_CHECK_EQUAL(bridge.post("/v1/node/faults", R"({"actor":"worker","index":2})")->status(), 202u);
  CAF_CHECK_EQUAL(bridge.post("/v1/node/faults", R"({"actor":"database"})")->status(), 202u);
  CAF_REQUIRE_EQUAL(bridge.node.faults.size(), 2u);
  CAF_CHECK_EQUAL(bridge.node.faults[0].first, "worker");
  CAF_CHECK_EQUAL(bridge.node.faults[0].second, 2u);
  CAF_CHECK_EQUAL(bridge.node.faults[1].second, 1u);
  bridge.node.fault_failure = error{ec::not_found, "no actor is named ghost", {}};
  CAF_CHECK_EQUAL(bridge.post("/v1/node/faults", R"({"actor":"ghost"})")->status(), 404u);
}

CAF_TEST(a fault for nobody names the field) {
  bridge_harness bridge{"/nonexistent", true};
  CAF_CHECK_EQUAL(bridge.post("/v1/node/faults", "{}")->json()["errors"][0]["pointer"], "/actor");
  CAF_CHECK_EQUAL(bridge.post("/v1/node/faults", "[]")->status(), 422u);
  const auto result = bridge.post("/v1/node/faults", R"({"actor":"worker","index":-1})");
  CAF_CHECK_EQUAL(result->json()["errors"][0]["pointer"], "/index");
  CAF_CHECK(bridge.node.faults.empty());
}
