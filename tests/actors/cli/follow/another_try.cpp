#define CAF_SUITE another_try
#include "actors/cli/follow/another_try.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <unistd.h>

using namespace kcx;
using namespace kcx::cli;
using namespace kcx::test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

http::response not_now(unsigned status, const std::string& code, const std::string& seconds) {
  auto answer = http::json_response(status, R"({"title":"Not now","code":")" + code + "\"}");
  if (!seconds.empty())
    answer.headers.add("Retry-After", seconds);
  return answer;
}

http::response too_many() {
  return not_now(429, "rate_limited", "1");
}

/// Answers to the first request of the path with `first`, then as given.
void stumble(fake_node& node, const std::string& method, const std::string& path, http::response first,
             fake_node::reaction then) {
  node.react(method, path,
             [first = std::move(first), then = std::move(then), calls = 0](const http::request& ask) mutable {
               return ++calls == 1 ? first : then(ask);
             });
}

fake_node::reaction always(unsigned status, std::string document) {
  return
    [status, document = std::move(document)](const http::request&) { return http::json_response(status, document); };
}

finished timed(fake_node& node, std::vector<std::string> arguments, std::chrono::milliseconds& took) {
  const auto began = std::chrono::steady_clock::now();
  auto done = run_kcx(node, std::move(arguments));
  took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  return done;
}

reply answer_of(unsigned status, const std::string& code, std::optional<std::chrono::seconds> retry_after) {
  const json document{{"code", code}};
  return {status, document.dump(), document, retry_after};
}

} // namespace

CAF_TEST(what decides is not asked again and what does not tells how long to wait) {
  const auto state = [](const reply& answer) { return another_try(answer, asked_for::state); };
  const auto submission = [](const reply& answer) { return another_try(answer, asked_for::submission); };
  CAF_CHECK(!state(answer_of(200, "", {})));
  CAF_CHECK(!state(answer_of(404, "not_found", 5s)));
  CAF_CHECK(state(answer_of(429, "rate_limited", 7s)) == 7'000ms);
  CAF_CHECK(state(answer_of(429, "rate_limited", {})) == 1'000ms);
  CAF_CHECK(state(answer_of(503, "draining", 10s)) == 10'000ms);
  CAF_CHECK(state(answer_of(500, "internal", {})) == 0ms);
  CAF_CHECK(submission(answer_of(429, "rate_limited", 7s)) == 7'000ms);
  CAF_CHECK(submission(answer_of(503, "storage_busy", 1s)) == 1'000ms);
  CAF_CHECK(!submission(answer_of(503, "draining", 10s)));
  CAF_CHECK(!submission(answer_of(507, "storage_full", 30s)));
  CAF_CHECK(another_try(error{ec::system_failed, "gone", {}}, asked_for::submission) == 0ms);
}

CAF_TEST(no pause is longer than what is left of the patience) {
  patience_left still{10s};
  const auto began = patience_left::clock::now();
  CAF_CHECK(still.pause(4s, began) == 4'000ms);
  CAF_CHECK(still.pause(60s, began + 4s) == 6'000ms);
  CAF_CHECK(!still.pause(0s, began + 10s));
  still.renew();
  CAF_CHECK(still.pause(4s, began + 20s) == 4'000ms);
}

CAF_TEST(a job is followed on when its state and its log were asked for too often) {
  fake_node node;
  node.answer("POST", "/v1/jobs", 201, job("queued", {{"attempt", 0}}));
  stumble(node, "GET", "/v1/jobs/7", too_many(), always(200, job("succeeded")));
  stumble(node, "GET", "/v1/jobs/7/log", too_many(), [](const http::request& ask) { return log_from(ask, "x\n"); });
  std::chrono::milliseconds took{};
  const auto done = timed(node, {"--patience", "20s", "run", "--", "x"}, took);
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "x\n");
  CAF_CHECK(contains(done.err, "too many requests"));
  CAF_CHECK(done.err.find("lost the node") == std::string::npos);
  CAF_CHECK_EQUAL(node.count("GET", "/v1/jobs/7"), 2u);
  CAF_CHECK_EQUAL(node.count("GET", "/v1/jobs/7/log"), 2u);
  CAF_CHECK(took >= 2s);
}

CAF_TEST(a submission waits as long as the node asks for) {
  fake_node node;
  for (const auto& first : {too_many(), not_now(503, "storage_busy", "1")}) {
    stumble(node, "POST", "/v1/jobs", first, always(201, job("queued")));
    std::chrono::milliseconds took{};
    const auto done = timed(node, {"--patience", "20s", "submit", "--", "x"}, took);
    CAF_CHECK_EQUAL(done.code, 0);
    CAF_CHECK_EQUAL(done.out, "7\n");
    CAF_CHECK(took >= 1s);
  }
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs"), 4u);
}

CAF_TEST(wait goes on after too many requests and gives up by its patience) {
  fake_node node;
  stumble(node, "GET", "/v1/jobs/7", too_many(), always(200, job("failed", {{"exit_code", 5}})));
  std::chrono::milliseconds took{};
  CAF_CHECK_EQUAL(timed(node, {"--patience", "20s", "wait", "7"}, took).code, 5);
  CAF_CHECK(took >= 1s);
  node.react("GET", "/v1/jobs/7", [](const http::request&) { return not_now(429, "rate_limited", "600"); });
  const auto done = timed(node, {"--patience", "300ms", "wait", "7"}, took);
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK(contains(done.err, "[rate_limited, HTTP 429]"));
  CAF_CHECK(took >= 300ms && took < 60s);
}

CAF_TEST(a followed log waits before it is asked for again) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded"));
  stumble(node, "GET", "/v1/jobs/7/log", not_now(503, "overloaded", "1"),
          [](const http::request& ask) { return log_from(ask, "x\n"); });
  std::chrono::milliseconds took{};
  const auto done = timed(node, {"--patience", "20s", "logs", "-f", "7"}, took);
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "x\n");
  CAF_CHECK(took >= 1s);
}

CAF_TEST(events go on after too many requests) {
  fake_node node;
  int calls = 0;
  node.react("GET", "/v1/events", [&](const http::request&) {
    return ++calls == 1 ? too_many()
           : calls == 2 ? http::text_response(200, "id: 1\ndata: {\"job\":7}\n\n")
                        : http::json_response(404, "{}");
  });
  std::chrono::milliseconds took{};
  const auto done = timed(node, {"--json", "--patience", "20s", "events"}, took);
  CAF_CHECK_EQUAL(done.out, "{\"job\":7}\n");
  CAF_CHECK(took >= 1s);
}

CAF_TEST(a pipeline is followed and cancelled on after too many requests) {
  fake_node node;
  temp_dir dir;
  write_file(dir / "ci.yaml", "jobs:\n  a: {command: x}\n  b: {command: y}\n");
  node.answer("POST", "/v1/jobs", 201, R"({"items":[{"id":7,"state":"queued"},{"id":8,"state":"queued"}]})");
  stumble(node, "GET", "/v1/jobs/7", too_many(), always(200, job("failed", {{"exit_code", 3}})));
  stumble(node, "GET", "/v1/jobs/7/log", too_many(), [](const http::request& ask) { return log_from(ask, "x\n"); });
  stumble(node, "POST", "/v1/jobs/8/cancel", too_many(), always(200, job("cancelled", {{"id", 8}})));
  node.react("GET", "/v1/jobs/8", [&node](const http::request&) {
    const auto state = node.count("POST", "/v1/jobs/8/cancel") < 2 ? "running" : "cancelled";
    return http::json_response(200, job(state, {{"id", 8}}));
  });
  std::chrono::milliseconds took{};
  const auto done = timed(node, {"--patience", "20s", "run", "--fail-fast", dir / "ci.yaml"}, took);
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.out, "a | x\n"));
  CAF_CHECK(contains(done.out, "1 failed, 1 cancelled"));
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs/8/cancel"), 2u);
  CAF_CHECK(took >= 3s);
}

CAF_TEST(an interrupt cancels although there were too many requests) {
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  fake_node node;
  node.answer("POST", "/v1/jobs", 201, job("queued", {{"attempt", 0}}));
  stumble(node, "POST", "/v1/jobs/7/cancel", too_many(), always(202, job("cancelling")));
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "x"); });
  node.react("GET", "/v1/jobs/7", [&node](const http::request&) {
    if (node.count("GET", "/v1/jobs/7") == 2)
      ::kill(::getpid(), SIGINT);
    return http::json_response(200, job(node.count("POST", "/v1/jobs/7/cancel") < 2 ? "running" : "cancelled"));
  });
  std::chrono::milliseconds took{};
  const auto done = timed(node, {"--patience", "20s", "run", "--", "x"}, took);
  CAF_CHECK_EQUAL(done.code, 130);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs/7/cancel"), 2u);
  CAF_CHECK(took >= 1s);
}

CAF_TEST(a command that asks once tells when it can be tried again) {
  fake_node node;
  node.react("GET", "/v1/jobs", [](const http::request&) { return not_now(429, "rate_limited", "12"); });
  const auto done = run_kcx(node, {"list"});
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK(contains(done.err, "tried again in 12 seconds"));
}
