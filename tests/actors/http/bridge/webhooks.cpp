#define CAF_SUITE bridge_webhooks
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;

namespace {

std::shared_ptr<bridge_answer> put(bridge_harness& bridge, const std::string& body) {
  return bridge.ask("PUT", "/v1/projects/group/repo/webhook", {body, {{"Content-Type", "application/json"}}});
}

} // namespace

CAF_TEST(a project gets a webhook whose secret is never shown) {
  bridge_harness bridge;
  const auto made = put(bridge, R"({"url":"https://ci.example.org/x?y=1","secret":"s3cret","events":["running"]})");
  CAF_REQUIRE_EQUAL(made->status(), 200u);
  CAF_CHECK_EQUAL(made->json()["project"], "group/repo");
  CAF_CHECK_EQUAL(made->json()["signed"], true);
  CAF_CHECK(made->answer->body.find("s3cret") == std::string::npos);
  CAF_CHECK_EQUAL(bridge.node.webhooks.at("group/repo").secret, "s3cret");
  const auto listed = bridge.ask("GET", "/v1/webhooks");
  CAF_CHECK_EQUAL(listed->json()["items"][0]["url"], "https://ci.example.org/x?y=1");
  CAF_CHECK_EQUAL(listed->json()["items"][0]["events"], (nlohmann::json{"running"}));
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/projects/group/repo/webhook")->status(), 204u);
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/projects/group/repo/webhook")->status(), 404u);
}

CAF_TEST(a webhook that cannot work is refused by field) {
  bridge_harness bridge;
  const std::pair<const char*, const char*> cases[] = {
    {R"({})", "/url"},
    {R"({"url":"ftp://a/b"})", "/url"},
    {R"({"url":"http:///x"})", "/url"},
    {R"({"url":"http://me:pw@a/x"})", "/url"},
    {R"({"url":"http://a/ x"})", "/url"},
    {R"({"url":"http://127.0.0.1:99999/"})", "/url"},
    {R"({"url":"http://a:0/"})", "/url"},
    {R"({"url":"http://a:/"})", "/url"},
    {R"({"url":"http://a:8x"})", "/url"},
    {R"({"url":"http://[::1"})", "/url"},
    {R"({"url":"http://[::1]x/"})", "/url"},
    {R"({"url":"http://[]/"})", "/url"},
    {R"({"url":"http://[nonsense]/"})", "/url"},
    {R"({"url":"http://::1/"})", "/url"},
    {R"({"url":"http://a]/"})", "/url"},
    {R"({"url":"http://a/","events":[]})", "/events"},
    {R"({"url":"http://a/","events":["queued"]})", "/events/0"},
    {R"({"url":"http://a/","colour":"red"})", "/colour"},
    {R"([])", ""},
  };
  for (const auto& [body, pointer] : cases) {
    const auto refused = put(bridge, body);
    CAF_CHECK_EQUAL(refused->status(), 422u);
    CAF_CHECK_EQUAL(refused->json()["errors"][0]["pointer"], pointer);
  }
  CAF_CHECK(bridge.node.webhooks.empty());
}

CAF_TEST(addresses with a port or of IPv6 are taken) {
  bridge_harness bridge;
  for (const auto* url : {"http://a:1", "https://a:65535/x", "http://[::1]", "http://[fe80::1%eth0]:8080/?x=[1:2]"})
    CAF_CHECK_EQUAL(put(bridge, nlohmann::json{{"url", url}}.dump())->status(), 200u);
}

CAF_TEST(deliveries are listed with their filters and sent again when asked) {
  bridge_harness bridge;
  delivery sent;
  sent.id = 5;
  sent.job = {3};
  sent.url = "http://a/";
  sent.secret = "s3cret";
  sent.status = 500;
  bridge.node.deliveries = {{sent}, 5};
  const auto listed = bridge.ask("GET", "/v1/deliveries?job=3&state=pending&limit=1&cursor=9");
  CAF_REQUIRE_EQUAL(listed->status(), 200u);
  CAF_CHECK_EQUAL(listed->json()["items"][0]["status"], 500);
  CAF_CHECK_EQUAL(listed->json()["next_cursor"], "5");
  CAF_CHECK(listed->answer->body.find("s3cret") == std::string::npos);
  const auto& filter = bridge.node.delivery_filters.at(0);
  CAF_CHECK(filter.job == job_id{3} && filter.state == delivery_state::pending && filter.limit == 1 &&
            filter.before == 9);
  for (const auto* wrong : {"job=x", "state=lost", "state=", "limit=0", "cursor=-1"})
    CAF_CHECK_EQUAL(bridge.ask("GET", std::string{"/v1/deliveries?"} + wrong)->code(), "invalid_parameter");
  CAF_CHECK_EQUAL(bridge.ask("POST", "/v1/deliveries/5/redeliver")->status(), 202u);
  CAF_CHECK_EQUAL(bridge.node.redelivered, std::vector<std::int64_t>{5});
}
