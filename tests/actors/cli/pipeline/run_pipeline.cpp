#define CAF_SUITE run_pipeline
#include "actors/cli/commands.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

#include <csignal>
#include <string>
#include <unistd.h>

using namespace kcx;
using namespace kcx::test;
using nlohmann::json;

namespace {

constexpr auto two_jobs = "jobs:\n  build: {command: make}\n  test: {needs: build, command: make test}\n";

/// A node that accepts two jobs, 7 and 8.
struct pipeline_node : fake_node {
  pipeline_node() {
    answer("POST", "/v1/jobs", 201, R"({"items":[{"id":7,"state":"queued"},{"id":8,"state":"blocked"}]})");
    write_file(dir / "ci.yaml", two_jobs);
  }
  finished run(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"run", dir / "ci.yaml"});
    return run_kcx(*this, std::move(more));
  }
  temp_dir dir;
};

std::string second(const std::string& state, json more = json::object()) {
  more["id"] = 8;
  return job(state, more);
}

} // namespace

CAF_TEST(a pipeline is submitted as one array followed and summed up) {
  pipeline_node node;
  node.answer_in_turn("GET", "/v1/jobs/7", {job("running"), job("succeeded", {{"duration_s", 1.0}})});
  node.answer_in_turn(
    "GET", "/v1/jobs/8",
    {second("blocked", {{"attempt", 0}}), second("running"), second("succeeded", {{"duration_s", 2.0}})});
  const auto done = node.run();
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs"), 1u);
  CAF_CHECK_EQUAL(json::parse(node.seen().front().body).dump(),
                  json::parse(R"([{"name":"build","ref":"build","command":"make"},
                    {"name":"test","ref":"test","command":"make test","needs":[{"ref":"build","if":"success"}]}])")
                    .dump());
  CAF_CHECK_EQUAL(done.err, "2 jobs submitted: 7 to 8\nbuild: running (job 7)\nbuild: succeeded after 1.0 s\n"
                            "test: running (job 8)\ntest: succeeded after 2.0 s\n");
  CAF_CHECK(contains(done.out, "JOB    ID  STATE      REASON  TIME\nbuild  7   succeeded  -       1.0 s\n"));
  CAF_CHECK(contains(done.out, "\n2 succeeded in "));
}

CAF_TEST(the end of the log of what failed is printed behind its name) {
  pipeline_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("failed", {{"exit_code", 3}}));
  node.answer("GET", "/v1/jobs/8", 200, second("skipped", {{"reason", "need_failed"}, {"attempt", 0}}));
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) {
    return log_from(ask, "tail " + std::string{ask.parameter("tail").value_or("none")} + "\nno newline");
  });
  const auto done = node.run();
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(done.out.starts_with("build | tail 50\nbuild | no newline\n"));
  CAF_CHECK(contains(done.out, "1 failed, 1 skipped"));
  CAF_CHECK_EQUAL(node.count("GET", "/v1/jobs/8/log"), 0u);
}

CAF_TEST(all logs are printed attempt after attempt and go on where they broke off) {
  pipeline_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded", {{"attempt", 2}}));
  node.answer("GET", "/v1/jobs/8", 200, second("succeeded"));
  node.react("GET", "/v1/jobs/8/log", [](const http::request& ask) { return log_from(ask, "eight\n"); });
  node.react("GET", "/v1/jobs/7/log", [calls = 0](const http::request& ask) mutable {
    const auto attempt = std::string{ask.parameter("attempt").value_or("?")};
    if (++calls == 1)
      return broken_off("id: 4\ndata: {\"text\":\"atte\"}\n\nid: 16\ndata: {\"text\":\"mpt");
    return log_from(ask, "attempt " + attempt + " log\n");
  });
  const auto done = node.run({"--logs", "all"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK(done.out.starts_with("build | attempt 1 log\nbuild | attempt 2 log\ntest | eight\n"));
}

CAF_TEST(with json only the final jobs are printed) {
  pipeline_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded"));
  node.answer("GET", "/v1/jobs/8", 200, second("cancelled"));
  const auto done = node.run({"--json", "--quiet"});
  CAF_CHECK_EQUAL(done.code, 130);
  CAF_CHECK_EQUAL(json::parse(done.out).at("items").at(1).value("id", 0), 8);
  CAF_CHECK_EQUAL(done.err, "");
}

CAF_TEST(fail fast cancels the rest) {
  pipeline_node node;
  write_file(node.dir / "ci.yaml", "jobs:\n  a: {command: x}\n  b: {command: y}\n");
  node.answer("GET", "/v1/jobs/7", 200, job("failed", {{"exit_code", 1}}));
  node.react("GET", "/v1/jobs/8", [&node](const http::request&) {
    return http::json_response(200, second(node.count("POST", "/v1/jobs/8/cancel") == 0 ? "running" : "cancelled"));
  });
  node.answer("POST", "/v1/jobs/8/cancel", 202, second("cancelling"));
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, ""); });
  const auto done = node.run({"--fail-fast"});
  CAF_CHECK_EQUAL(done.code, 1);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs/8/cancel"), 1u);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs/7/cancel"), 0u);
  CAF_CHECK(contains(done.err, "because a did not succeed"));
}

CAF_TEST(an interrupt cancels every job from the last on and waits) {
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  pipeline_node node;
  node.answer("POST", "/v1/jobs/8/cancel", 200, second("cancelled"));
  node.answer("POST", "/v1/jobs/7/cancel", 202, job("cancelling"));
  node.react("GET", "/v1/jobs/7", [&node](const http::request&) {
    if (node.count("GET", "/v1/jobs/7") == 2)
      ::kill(::getpid(), SIGINT);
    return http::json_response(200, job(node.count("POST", "/v1/jobs/7/cancel") == 0 ? "running" : "cancelled"));
  });
  node.react("GET", "/v1/jobs/8", [&node](const http::request&) {
    return http::json_response(200, second(node.count("POST", "/v1/jobs/8/cancel") == 0 ? "blocked" : "cancelled"));
  });
  const auto done = node.run();
  CAF_CHECK_EQUAL(done.code, 130);
  std::vector<std::string> cancels;
  for (const auto& call : node.seen())
    if (call.target.ends_with("/cancel"))
      cancels.push_back(call.target);
  CAF_CHECK((cancels == std::vector<std::string>{"/v1/jobs/8/cancel", "/v1/jobs/7/cancel"}));
}

CAF_TEST(a node that comes back is followed again and one that stays away is no success) {
  pipeline_node node;
  node.answer("GET", "/v1/jobs/8", 200, second("succeeded"));
  node.react("GET", "/v1/jobs/7", [calls = 0](const http::request&) mutable {
    return ++calls == 2 ? broken_off("") : http::json_response(200, job(calls < 4 ? "running" : "succeeded"));
  });
  auto done = node.run();
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK(contains(done.err, "reached the node again"));
  node.react("GET", "/v1/jobs/7", [](const http::request&) { return broken_off(""); });
  done = node.run();
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "kcx wait 7 8"));
  node.answer("GET", "/v1/jobs/7", 401, R"({"title":"Token required","code":"unauthorized","detail":"expired"})");
  done = node.run();
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "[unauthorized, HTTP 401]\nkcx: what becomes of the jobs is unknown here"));
}

CAF_TEST(what the node refuses is told with file and line) {
  pipeline_node node;
  node.answer("POST", "/v1/jobs", 422,
              R"({"title":"Invalid","code":"invalid_input","errors":[{"pointer":"/1/command","detail":"bad"}]})");
  const auto done = node.run();
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK(contains(done.err, "/ci.yaml:3: /jobs/test/command (test): bad"));
}

CAF_TEST(a dry run prints the array and asks no node) {
  pipeline_node node;
  const auto done = node.run({"--dry-run"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(json::parse(done.out).at(1).at("needs").at(0).value("ref", ""), "build");
  CAF_CHECK_EQUAL(node.seen().size(), 0u);
}

CAF_TEST(a submission whose answer is lost is sent again with the same key) {
  fake_node node;
  std::vector<std::string> keys;
  node.react("POST", "/v1/jobs", [&](const http::request& ask) {
    keys.emplace_back(ask.headers.find("Idempotency-Key").value_or(""));
    if (keys.size() == 1)
      return broken_off("");
    if (keys.size() == 2)
      return http::json_response(503, R"({"title":"Unknown","code":"outcome_unknown","detail":"d"})");
    return http::json_response(201, job("queued"));
  });
  auto done = run_kcx(node, {"--patience", "20s", "submit", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "7\n");
  CAF_REQUIRE(keys.size() == 3);
  CAF_CHECK(keys[0].size() >= 32 && keys[0] == keys[1] && keys[1] == keys[2]);
  CAF_CHECK_EQUAL(run_kcx(node, {"submit", "--", "x"}).code, 0);
  CAF_CHECK(keys[3] != keys[0]);
  CAF_CHECK_EQUAL(run_kcx(node, {"submit", "--idempotency-key", "mine", "--", "x"}).code, 0);
  CAF_CHECK_EQUAL(keys[4], "mine");
}

CAF_TEST(a node that never answers is told with the key and one that refuses is asked once) {
  fake_node node;
  node.react("POST", "/v1/jobs", [](const http::request&) { return broken_off(""); });
  auto done = run_kcx(node, {"submit", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "--idempotency-key kcx-"));
  node.answer("POST", "/v1/jobs", 503, R"({"title":"Draining","code":"draining","detail":"d"})");
  const auto before = node.count("POST", "/v1/jobs");
  CAF_CHECK_EQUAL(run_kcx(node, {"submit", "--", "x"}).code, 4);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs"), before + 1);
}
