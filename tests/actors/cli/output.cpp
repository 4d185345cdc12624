// What kcx does where its output cannot be written, and what it says with --json.
#define CAF_SUITE output
#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

using namespace kcx;
using namespace kcx::test;
using nlohmann::json;

namespace {

constexpr auto no_space = "kcx: cannot write standard output: No space left on device\n";

/// Whether the command says why it failed, and fails.
bool fails_on_full_disk(fake_node& node, const std::vector<std::string>& arguments, const std::string& told = "") {
  const auto done = run_kcx(node, arguments, "/dev/full");
  return done.code == 1 && contains(done.err, no_space + told);
}

} // namespace

CAF_TEST(a full disk is told by every command that prints) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded"));
  node.answer("GET", "/v1/jobs/7/why", 200, R"({"state":"succeeded","text":"t"})");
  node.answer("DELETE", "/v1/jobs/7", 204, "");
  node.answer("POST", "/v1/jobs/7/cancel", 200, job("cancelled"));
  for (const char* list : {"/v1/jobs", "/v1/queues", "/v1/workers", "/v1/tokens", "/v1/dead-letters"})
    node.answer("GET", list, 200, R"({"items":[],"next_cursor":null})");
  node.answer("GET", "/v1/node", 200, R"({"pid":1})");
  node.answer("GET", "/v1/stats", 200, "{}");
  for (const std::vector<std::string>& each : {std::vector<std::string>{"status", "7"},
                                               {"why", "7"},
                                               {"remove", "7"},
                                               {"cancel", "7"},
                                               {"wait", "7"},
                                               {"list"},
                                               {"queues"},
                                               {"workers"},
                                               {"token", "list"},
                                               {"--json", "token", "list"},
                                               {"dead-letters", "list"},
                                               {"node", "status"},
                                               {"completion", "bash"}})
    CAF_CHECK(fails_on_full_disk(node, each));
}

CAF_TEST(jobs that were made are told although their numbers could not be printed) {
  fake_node node;
  node.answer("POST", "/v1/jobs", 201, R"({"items":[{"id":8},{"id":9}]})");
  node.answer("POST", "/v1/jobs/7/retry", 201, R"({"id":10})");
  node.answer("POST", "/v1/tokens", 201, R"({"id":3,"token":"secret"})");
  CAF_CHECK(fails_on_full_disk(node, {"submit", "--", "x"}, "kcx: made all the same: job 8 job 9\n"));
  CAF_CHECK(fails_on_full_disk(node, {"--json", "submit", "--", "x"}, "kcx: made all the same: job 8 job 9\n"));
  CAF_CHECK(fails_on_full_disk(node, {"retry", "7"}, "kcx: made all the same: job 10\n"));
  CAF_CHECK(fails_on_full_disk(node, {"token", "create", "ci", "-s", "read"}, "kcx: token 3 is made all the same"));
}

CAF_TEST(a log that could not be written is no success but a failure of the job stays its own) {
  fake_node node;
  node.answer("POST", "/v1/jobs", 201, job("queued", {{"attempt", 0}}));
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded"));
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "out\n"); });
  CAF_CHECK(fails_on_full_disk(node, {"run", "--", "x"}));
  CAF_CHECK(fails_on_full_disk(node, {"logs", "-f", "7"}));
  node.answer("GET", "/v1/jobs/7", 200, job("failed", {{"exit_code", 5}}));
  const auto done = run_kcx(node, {"run", "--", "x"}, "/dev/full");
  CAF_CHECK_EQUAL(done.code, 5);
  CAF_CHECK(contains(done.err, no_space));
}

CAF_TEST(json tells what was done where the node answers without a document) {
  fake_node node;
  node.answer("DELETE", "/v1/jobs/7", 204, "");
  node.answer("DELETE", "/v1/jobs/8", 204, "");
  node.answer("DELETE", "/v1/tokens/3", 204, "");
  CAF_CHECK_EQUAL(json::parse(run_kcx(node, {"--json", "remove", "7"}).out).dump(), R"({"id":7,"removed":true})");
  CAF_CHECK_EQUAL(json::parse(run_kcx(node, {"--json", "remove", "7", "8"}).out).at("items").size(), 2u);
  CAF_CHECK_EQUAL(json::parse(run_kcx(node, {"--json", "token", "revoke", "3"}).out).dump(),
                  R"({"id":3,"revoked":true})");
}

CAF_TEST(json prints nothing for a job there is only an error of) {
  fake_node node;
  for (const char* command : {"cancel", "status", "wait", "remove"}) {
    const auto done = run_kcx(node, {"--json", command, "9"});
    CAF_CHECK_EQUAL(done.code, 4);
    CAF_CHECK_EQUAL(done.out, "");
    CAF_CHECK_EQUAL(json::parse(done.err).value("code", ""), "not_found");
  }
}

CAF_TEST(json tells whose attempt a log is) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded", {{"attempt", 2}}));
  node.react("GET", "/v1/jobs/7/log", [](const http::request&) { return http::text_response(200, "x"); });
  const auto done = run_kcx(node, {"--json", "logs", "7"});
  CAF_CHECK_EQUAL(json::parse(done.out).dump(), R"({"attempt":2,"id":7,"text":"x"})");
  CAF_CHECK_EQUAL(std::string{node.seen().back().target}, "/v1/jobs/7/log?attempt=2");
}

CAF_TEST(errors of kcx itself are problem documents with json) {
  fake_node node;
  auto done = run_kcx(node, {"--json", "run"});
  CAF_CHECK_EQUAL(done.code, 2);
  CAF_CHECK_EQUAL(json::parse(done.err).value("code", ""), "invalid_input");
  node.answer("GET", "/v1/jobs/7", 200, job("running"));
  done = run_kcx(node, {"--json", "wait", "7", "--timeout", "50ms"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK_EQUAL(json::parse(done.err).value("code", ""), "timeout");
  std::filesystem::remove(std::filesystem::path{node.data()} / "node.json");
  done = run_kcx(node, {"--json", "list"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(json::parse(done.err).value("detail", ""), "no node runs"));
}

CAF_TEST(what was not sent cannot be sent again) {
  fake_node node;
  std::filesystem::remove(std::filesystem::path{node.data()} / "node.json");
  const auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(done.err.find("idempotency") == std::string::npos);
}
