#define CAF_SUITE bridge_claims
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<bridge_answer> send(bridge_harness& bridge, const std::string& token, const std::string& target,
                                    const std::string& body = "{}") {
  return bridge.ask("POST", target, {body, {{"Content-Type", "application/json"}}, true, token});
}

} // namespace

CAF_TEST(a claim waits until there is a job) {
  bridge_harness bridge;
  const auto answer = send(bridge, bridge.make_token("work"), "/v1/claims?wait=1m", R"({"worker":"arm"})");
  CAF_CHECK(!answer->came());
  CAF_CHECK_EQUAL(bridge.node.claims, std::vector<std::string>{"arm"});
  bridge.job_is_ready();
  CAF_REQUIRE_EQUAL(answer->status(), 200u);
  CAF_CHECK_EQUAL(answer->json()["items"][0]["id"], 7);
  CAF_CHECK(bridge.node.given_back.empty());
}

CAF_TEST(a claim that waits ends with its token and its job goes back) {
  bridge_harness bridge;
  const auto answer = send(bridge, bridge.make_token("work"), "/v1/claims?wait=1m");
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  CAF_CHECK_EQUAL(answer->code(), "unauthorized");
  bridge.job_is_ready();
  CAF_CHECK_EQUAL(bridge.node.given_back, (std::vector<attempt_key>{{{7}, 1}}));
}

CAF_TEST(a job whose grant does not reach its client goes back) {
  bridge_harness bridge;
  const auto answer = send(bridge, bridge.make_token("work"), "/v1/claims?wait=1m");
  bridge.job_is_ready();
  CAF_REQUIRE(answer->came() && answer->answer->receipt);
  CAF_CHECK(bridge.node.given_back.empty());
  answer->answer.reset();
  bridge.advance(1s);
  CAF_CHECK_EQUAL(bridge.node.given_back, (std::vector<attempt_key>{{{7}, 1}}));
}

CAF_TEST(a job that was granted when the token had expired goes back) {
  bridge_harness bridge;
  const auto token = bridge.make_token("work", 1min);
  const auto answer = send(bridge, token, "/v1/claims?wait=2m");
  bridge.now += 1min;
  bridge.job_is_ready();
  CAF_CHECK_EQUAL(answer->code(), "unauthorized");
  CAF_CHECK_EQUAL(bridge.node.given_back, (std::vector<attempt_key>{{{7}, 1}}));
}

CAF_TEST(a claim that nothing comes for ends when its token expires) {
  bridge_harness bridge;
  const auto token = bridge.make_token("work", 1min);
  const auto answer = send(bridge, token, "/v1/claims?wait=2m");
  bridge.now += 1min;
  bridge.advance(5s);
  CAF_CHECK_EQUAL(answer->code(), "unauthorized");
}

CAF_TEST(a report whose token ends while it waits for more is answered without more) {
  bridge_harness bridge;
  const auto answer = send(bridge, bridge.make_token("work"), "/v1/claims/3.1.abc/complete?next=1&wait=1m");
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  CAF_CHECK(!answer->came());
  bridge.job_is_ready();
  CAF_REQUIRE_EQUAL(answer->status(), 200u);
  CAF_CHECK(answer->json()["claims"].empty());
  CAF_CHECK_EQUAL(bridge.node.given_back, (std::vector<attempt_key>{{{7}, 1}}));
}
