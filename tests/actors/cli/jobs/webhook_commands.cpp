#define CAF_SUITE webhook_commands
#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

using namespace kcx;
using namespace kcx::test;
using nlohmann::json;

CAF_TEST(a webhook of a project is set with a secret from a file) {
  fake_node node;
  node.answer("PUT", "/v1/projects/a/b/webhook", 200,
              R"({"project":"a/b","url":"https://x.example/hook","events":["failed"],"signed":true})");
  temp_dir dir;
  write_file(dir / "secret", "s3cret\n");
  const auto done = run_kcx(
    node, {"webhook", "set", "a/b", "https://x.example/hook", "--secret-file", dir / "secret", "--event", "failed"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "jobs of a/b are told to https://x.example/hook: failed\n");
  const auto sent = json::parse(node.seen().at(0).body);
  CAF_CHECK_EQUAL(sent, json::parse(R"({"url":"https://x.example/hook","secret":"s3cret","events":["failed"]})"));
}

CAF_TEST(a secret that cannot be read sets no webhook) {
  fake_node node;
  const auto done = run_kcx(node, {"webhook", "set", "web", "https://x.example/", "--secret-file", "/nowhere/secret"});
  CAF_CHECK_EQUAL(done.code, 2);
  CAF_CHECK(contains(done.err, "/nowhere/secret: No such file"));
  CAF_CHECK(node.seen().empty());
}

CAF_TEST(webhooks are listed and removed) {
  fake_node node;
  node.answer("GET", "/v1/webhooks", 200,
              R"({"items":[{"project":"web","url":"http://x/","events":["failed","succeeded"],"signed":false}]})");
  const auto listed = run_kcx(node, {"webhook", "list"});
  CAF_CHECK_EQUAL(listed.out,
                  "PROJECT  URL        EVENTS            SIGNED\nweb      http://x/  failed,succeeded  no\n");
  node.react("DELETE", "/v1/projects/web/webhook", [](const http::request&) {
    http::response gone;
    gone.status = 204;
    return gone;
  });
  CAF_CHECK_EQUAL(std::string{run_kcx(node, {"webhook", "remove", "web"}).out}, "jobs of web are told no more\n");
  CAF_CHECK_EQUAL(json::parse(run_kcx(node, {"--json", "webhook", "remove", "web"}).out),
                  json::parse(R"({"project":"web","removed":true})"));
}

CAF_TEST(deliveries are listed by job and state and sent again) {
  fake_node node;
  node.answer("GET", "/v1/deliveries", 200,
              R"({"items":[{"id":17,"job":7,"event":"job.failed","state":"failed","tries":16,"created_at":"T",
                            "status":null,"failure":"refused","url":"http://x/"},
                           {"id":16,"job":7,"event":"job.running","state":"delivered","tries":1,"created_at":"T",
                            "status":204,"failure":null,"url":"http://x/"}],"next_cursor":null})");
  const auto listed = run_kcx(node, {"deliveries", "list", "--job", "7", "--state", "failed", "--limit", "2"});
  CAF_CHECK_EQUAL(listed.code, 0);
  CAF_CHECK(contains(listed.out, "refused"));
  CAF_CHECK(contains(listed.out, "answered 204"));
  CAF_CHECK_EQUAL(std::string{node.seen().at(0).target}, "/v1/deliveries?limit=2&job=7&state=failed");
  node.answer("POST", "/v1/deliveries/17/redeliver", 202, R"({"id":17,"state":"pending"})");
  CAF_CHECK_EQUAL(std::string{run_kcx(node, {"deliveries", "redeliver", "17"}).out}, "delivery 17 is sent again\n");
}
