#define CAF_SUITE commands
#include "actors/cli/commands.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

#include <nlohmann/json.hpp>

#include <csignal>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

using namespace kcx;
using namespace kcx::cli;
using namespace kcx::test;
using nlohmann::json;

namespace {

void accept_job(fake_node& node) {
  node.answer("POST", "/v1/jobs", 201, job("queued", {{"attempt", 0}}));
}

} // namespace

CAF_TEST(run prints the log and exits with the code of the job) {
  fake_node node;
  accept_job(node);
  node.answer_in_turn(
    "GET", "/v1/jobs/7",
    {job("queued", {{"attempt", 0}}), job("running"), job("failed", {{"exit_code", 3}, {"duration_s", 1.5}})});
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "one\ntwo\n"); });
  auto done = run_kcx(node, {"run", "--name", "j", "--", "make", "all"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK_EQUAL(done.out, "one\ntwo\n");
  CAF_CHECK(contains(done.err, "job 7 j: failed (exit code 3) after 1.5 s"));
  CAF_CHECK_EQUAL(json::parse(node.seen().front().body), (json{{"name", "j"}, {"command", {"make", "all"}}}));
}

CAF_TEST(run tells each step once per state) {
  fake_node node;
  accept_job(node);
  auto steps = [](const char* first, const char* second) {
    return json{
      {"steps", {{{"index", 0}, {"name", "a"}, {"state", first}}, {{"index", 1}, {"name", "b"}, {"state", second}}}}};
  };
  node.answer_in_turn("GET", "/v1/jobs/7",
                      {job("running", steps("running", "pending")), job("running", steps("running", "pending")),
                       job("running", steps("succeeded", "running")),
                       job("succeeded", steps("succeeded", "succeeded"))});
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, ""); });
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK(
    contains(done.err, "step 1/2 a: running\nstep 1/2 a: succeeded\nstep 2/2 b: running\nstep 2/2 b: succeeded\n"));
  CAF_CHECK(done.err.find("pending") == std::string::npos);
}

CAF_TEST(a log that breaks off is continued where it ended) {
  fake_node node;
  accept_job(node);
  std::string log;
  for (int i = 0; i < 20'000; ++i)
    log += std::to_string(i) + '\n';
  node.react("GET", "/v1/jobs/7/log", [log, calls = 0](const http::request& ask) mutable {
    auto whole = log_from(ask, log);
    return ++calls < 4 ? broken_off(whole.body.substr(0, 30'001)) : whole;
  });
  node.react("GET", "/v1/jobs/7", [&node](const http::request&) {
    return http::json_response(200, job(node.count("GET", "/v1/jobs/7/log") < 4 ? "running" : "succeeded"));
  });
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK(done.out == log);
  CAF_CHECK_EQUAL(node.count("GET", "/v1/jobs/7/log"), 4u);
}

CAF_TEST(the log of each attempt is printed) {
  fake_node node;
  accept_job(node);
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) {
    return log_from(ask, "attempt " + std::string{ask.parameter("attempt").value_or("?")} + '\n');
  });
  node.react("GET", "/v1/jobs/7", [&node](const http::request&) {
    const auto logs = node.count("GET", "/v1/jobs/7/log");
    return http::json_response(200, logs == 0   ? job("running")
                                    : logs == 1 ? job("running", {{"attempt", 2}})
                                                : job("succeeded", {{"attempt", 2}}));
  });
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "attempt 1\nattempt 2\n");
}

CAF_TEST(an attempt without a log does not hide the next one) {
  fake_node node;
  accept_job(node);
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) {
    return ask.parameter("attempt") == "1" ? http::json_response(404, "{}") : log_from(ask, "second\n");
  });
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded", {{"attempt", 2}}));
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "second\n");
}

CAF_TEST(run with json prints the final job and nothing else) {
  fake_node node;
  accept_job(node);
  node.answer("GET", "/v1/jobs/7", 200, job("cancelled"));
  auto done = run_kcx(node, {"--json", "--quiet", "run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 130);
  CAF_CHECK_EQUAL(json::parse(done.out).value("state", ""), "cancelled");
  CAF_CHECK_EQUAL(done.err, "");
  CAF_CHECK_EQUAL(node.count("GET", "/v1/jobs/7/log"), 0u);
}

CAF_TEST(an interrupt cancels the job and waits for its end) {
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  fake_node node;
  accept_job(node);
  node.answer("POST", "/v1/jobs/7/cancel", 202, job("cancelling"));
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "x"); });
  node.react("GET", "/v1/jobs/7", [&node](const http::request&) {
    if (node.count("GET", "/v1/jobs/7") == 2)
      ::kill(::getpid(), SIGINT);
    return http::json_response(200, job(node.count("POST", "/v1/jobs/7/cancel") == 0 ? "running" : "cancelled"));
  });
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 130);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs/7/cancel"), 1u);
  CAF_CHECK(contains(done.err, "cancelling job 7"));
}

CAF_TEST(a second interrupt leaves the job alone) {
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  fake_node node;
  accept_job(node);
  node.answer("POST", "/v1/jobs/7/cancel", 202, job("cancelling"));
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "x"); });
  node.react("GET", "/v1/jobs/7", [&node](const http::request&) {
    if (node.count("GET", "/v1/jobs/7") % 3 == 2)
      ::kill(::getpid(), SIGINT);
    return http::json_response(200, job("cancelling"));
  });
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 130);
  CAF_CHECK_EQUAL(node.count("POST", "/v1/jobs/7/cancel"), 1u);
  CAF_CHECK(contains(done.err, "kcx status 7"));
}

CAF_TEST(a node that is gone for good is no success and the job is told how to be asked for) {
  auto node = std::make_unique<fake_node>();
  accept_job(*node);
  node->react("GET", "/v1/jobs/7", [](const http::request&) {
    auto answer = broken_off("");
    return answer;
  });
  auto done = run_kcx(*node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "kcx wait 7"));
  done = run_kcx(*node, {"wait", "7"});
  CAF_CHECK_EQUAL(done.code, 3);
}

CAF_TEST(a node that comes back is followed again) {
  fake_node node;
  accept_job(node);
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "x\n"); });
  node.react("GET", "/v1/jobs/7", [calls = 0](const http::request&) mutable {
    ++calls;
    return calls == 2 ? broken_off("") : http::json_response(200, job(calls < 4 ? "running" : "succeeded"));
  });
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "x\n");
}

CAF_TEST(a refusal is printed with its fields and exits with 4) {
  fake_node node;
  node.answer(
    "POST", "/v1/jobs", 422,
    R"({"title":"Invalid","code":"invalid_input","detail":"d","errors":[{"pointer":"/name","detail":"bad"}]})");
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK(contains(done.err, "/name: bad"));
  done = run_kcx(node, {"--json", "submit", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK_EQUAL(json::parse(done.err).value("code", ""), "invalid_input");
  CAF_CHECK_EQUAL(int{run_kcx(node, {"status", "9"}).code}, 4);
  CAF_CHECK_EQUAL(int{run_kcx(node, {"logs", "9"}).code}, 4);
  CAF_CHECK_EQUAL(int{run_kcx(node, {"logs", "-f", "9"}).code}, 4);
  CAF_CHECK_EQUAL(int{run_kcx(node, {"wait", "9"}).code}, 4);
  CAF_CHECK_EQUAL(int{run_kcx(node, {"cancel", "9"}).code}, 4);
}

CAF_TEST(submit prints the numbers of the jobs) {
  fake_node node;
  accept_job(node);
  CAF_CHECK_EQUAL(std::string{run_kcx(node, {"submit", "--", "x"}).out}, "7\n");
  node.answer("POST", "/v1/jobs", 201, R"({"items":[{"id":8},{"id":9}]})");
  temp_dir dir;
  write_file(dir / "jobs.json", R"([{"command":"a"},{"command":"b"}])");
  CAF_CHECK_EQUAL(std::string{run_kcx(node, {"submit", dir / "jobs.json"}).out}, "8\n9\n");
}

CAF_TEST(logs prints every byte) {
  fake_node node;
  std::string bytes{"\0\xff\x1b[0m\n", 7};
  node.react("GET", "/v1/jobs/7/log", [&](const http::request&) { return http::text_response(200, bytes); });
  auto done = run_kcx(node, {"logs", "7", "--tail", "5", "--attempt", "2"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK(done.out == bytes);
  CAF_CHECK_EQUAL(std::string{node.seen().back().target}, "/v1/jobs/7/log?attempt=2&tail=5");
  node.react("GET", "/v1/jobs/7/log", [](const http::request&) { return broken_off("half"); });
  done = run_kcx(node, {"logs", "7"});
  CAF_CHECK_EQUAL(done.out, "half");
  CAF_CHECK_EQUAL(done.code, 3);
}

CAF_TEST(logs with follow begins at the present attempt) {
  fake_node node;
  node.answer_in_turn("GET", "/v1/jobs/7", {job("running", {{"attempt", 3}}), job("failed", {{"attempt", 3}})});
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, "third\n"); });
  auto done = run_kcx(node, {"logs", "-f", "7"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "third\n");
  CAF_CHECK_EQUAL(done.err, "");
}

CAF_TEST(a followed log is lines of json where json is asked for) {
  fake_node node;
  node.answer_in_turn("GET", "/v1/jobs/7", {job("running"), job("succeeded")});
  node.react("GET", "/v1/jobs/7/log", [](const http::request&) {
    return http::text_response(
      200, "id: 1\ndata: {\"base64\":\"/w==\"}\n\nid: 3\ndata: {\"text\":\"b\\n\"}\n\nid: 3\nevent: "
           "end\ndata: {}\n\n");
  });
  const auto done = run_kcx(node, {"--json", "logs", "-f", "7"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.out, "{\"attempt\":1,\"text\":\"\xEF\xBF\xBD\"}\n{\"attempt\":1,\"text\":\"b\\n\"}\n");
}

CAF_TEST(wait gives the first code that is not success) {
  fake_node node;
  node.answer_in_turn("GET", "/v1/jobs/7", {job("running"), job("succeeded")});
  node.answer("GET", "/v1/jobs/8", 200, job("timed_out", {{"id", 8}}));
  node.answer("GET", "/v1/jobs/9", 200, job("failed", {{"id", 9}, {"exit_code", 5}}));
  auto done = run_kcx(node, {"wait", "7", "8", "9"});
  CAF_CHECK_EQUAL(done.code, 124);
  CAF_CHECK(contains(done.out, "job 9 j: failed (exit code 5)"));
}

CAF_TEST(wait gives up in time with a code of its own) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("running"));
  auto done = run_kcx(node, {"wait", "7", "--timeout", "50ms"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "not final"));
}

CAF_TEST(the state of the node comes with workers and counts) {
  fake_node node;
  node.answer("GET", "/v1/node", 200, R"({"pid":42,"version":"1","state":"running"})");
  node.answer("GET", "/v1/stats", 200, R"({"jobs":{"queued":3,"running":0}})");
  node.answer("GET", "/v1/workers", 200, R"({"items":[{"name":"node/1","state":"busy","job":7}]})");
  auto done = run_kcx(node, {"node", "status"});
  CAF_CHECK_EQUAL(done.code, 0);
  for (const char* part : {"process 42: running", "3 queued", "node/1"})
    CAF_CHECK(contains(done.out, part));
  CAF_CHECK_EQUAL(json::parse(run_kcx(node, {"node", "status", "--json"}).out).value("pid", 0), 42);
  node.answer("POST", "/v1/node/drain", 202, R"({"state":"draining"})");
  CAF_CHECK_EQUAL(int{run_kcx(node, {"node", "drain"}).code}, 0);
}

CAF_TEST(the address of the dashboard carries its code behind the number sign) {
  fake_node node;
  node.answer("GET", "/v1/node", 200, R"({"inspect":"http://127.0.0.1:7071"})");
  node.answer("POST", "/v1/session/code", 201, R"({"code":"kcx_code_1","expires_at":"2026-01-31T12:00:00.000Z"})");
  CAF_CHECK_EQUAL(std::string{run_kcx(node, {"dashboard"}).out}, "http://127.0.0.1:7071/#code=kcx_code_1\n");
  const auto told = json::parse(run_kcx(node, {"dashboard", "--json"}).out);
  CAF_CHECK_EQUAL(told.value("url", ""), "http://127.0.0.1:7071/#code=kcx_code_1");
  node.answer("GET", "/v1/node", 200, R"({"inspect":"http://[::1]:7071"})");
  const auto url = "http://127.0.0.1" + node.url().substr(node.url().rfind(':'));
  const auto there = run_kcx(node, {"--url", url, "--token", node.token(), "dashboard"});
  CAF_CHECK_EQUAL(there.out, "http://127.0.0.1:7071/#code=kcx_code_1\n");
  node.answer("POST", "/v1/session/code", 403, R"({"title":"Forbidden","code":"forbidden","detail":"lacks read"})");
  const auto refused = run_kcx(node, {"dashboard"});
  CAF_CHECK_EQUAL(refused.code, 4);
  CAF_CHECK_EQUAL(refused.out, "");
}

CAF_TEST(a node that cannot answer is asked again after a pause) {
  fake_node node;
  accept_job(node);
  node.answer("GET", "/v1/jobs/7", 503, R"({"title":"Busy","code":"overloaded","detail":"later"})");
  CAF_CHECK_EQUAL(int{run_kcx(node, {"run", "--patience", "300ms", "--", "x"}).code}, 3);
  // 50 ms apart, and more from one to the next.
  CAF_CHECK_LESS(node.count("GET", "/v1/jobs/7"), 10u);
}

CAF_TEST(closed output is no success) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded"));
  node.react("GET", "/v1/jobs/7/log", [](const http::request&) { return http::text_response(200, "x"); });
  auto what = parse_command_line({"--data", node.data(), "logs", "7"});
  CAF_REQUIRE(what.has_value());
  int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  int saved = ::dup(STDOUT_FILENO);
  ::dup2(full, STDOUT_FILENO);
  int code = carry_out(*what);
  ::dup2(saved, STDOUT_FILENO);
  CAF_CHECK_EQUAL(code, 1);
}

CAF_TEST(a job that was taken but is refused to be told of is unknown and not refused) {
  fake_node node;
  accept_job(node);
  constexpr auto problem = R"({"title":"Token required","code":"unauthorized","detail":"expired"})";
  node.answer("GET", "/v1/jobs/7", 401, problem);
  auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "expired [unauthorized, HTTP 401]\nkcx: what became of job 7 is unknown"));
  CAF_CHECK(contains(done.err, "Ask again with \"kcx wait 7\""));
  done = run_kcx(node, {"--json", "--quiet", "run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(json::parse(done.err).value("detail", ""), "expired; what became of job 7 is unknown"));
  CAF_CHECK_EQUAL(int{run_kcx(node, {"wait", "7"}).code}, 4);
  CAF_CHECK_EQUAL(int{run_kcx(node, {"logs", "-f", "7"}).code}, 4);
  for (const auto& command : {std::vector<std::string>{"wait", "7"}, {"logs", "-f", "7"}}) {
    node.react("GET", "/v1/jobs/7", [calls = 0](const http::request&) mutable {
      return ++calls == 1 ? http::json_response(200, job("running")) : http::json_response(403, problem);
    });
    node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, ""); });
    done = run_kcx(node, command);
    CAF_CHECK_EQUAL(done.code, 3);
    CAF_CHECK(contains(done.err, "kcx: what became of job 7 is unknown"));
  }
}

CAF_TEST(a job that was removed while it was followed is not asked for again) {
  fake_node node;
  accept_job(node);
  node.answer("GET", "/v1/jobs/7", 410, R"({"title":"Gone","code":"gone","detail":"removed"})");
  const auto done = run_kcx(node, {"run", "--", "x"});
  CAF_CHECK_EQUAL(done.code, 3);
  CAF_CHECK(contains(done.err, "what became of job 7 is unknown\n"));
}

CAF_TEST(logs with follow tells that there is no such attempt) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("succeeded"));
  node.answer("GET", "/v1/jobs/7/log", 404,
              R"({"title":"Not found","code":"not_found","detail":"job 7 has no attempt 99"})");
  auto done = run_kcx(node, {"logs", "-f", "--attempt", "99", "7"});
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK_EQUAL(done.out, "");
  CAF_CHECK_EQUAL(done.err, "kcx: Not found: job 7 has no attempt 99 [not_found, HTTP 404]\n");
  done = run_kcx(node, {"logs", "-f", "--attempt", "1", "7"});
  CAF_CHECK_EQUAL(done.code, 4);
  node.react("GET", "/v1/jobs/7/log", [](const http::request& ask) { return log_from(ask, ""); });
  done = run_kcx(node, {"logs", "-f", "--attempt", "1", "7"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(done.err, "");
}

CAF_TEST(logs with follow tells why the log is refused) {
  for (const unsigned status : {401u, 403u, 410u, 429u})
    for (const char* state : {"running", "succeeded"}) {
      fake_node node;
      node.answer("GET", "/v1/jobs/7", 200, job(state));
      node.answer("GET", "/v1/jobs/7/log", status, R"({"title":"Refused","code":"c","detail":"the reason"})");
      const auto done = run_kcx(node, {"logs", "-f", "7"});
      CAF_CHECK_EQUAL(done.code, 4);
      CAF_CHECK(contains(done.err, "kcx: Refused: the reason [c, HTTP " + std::to_string(status) + "]\n"));
      CAF_CHECK(done.err.find("log above") == std::string::npos);
    }
}

CAF_TEST(a log that is refused after its beginning is not complete) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7", 200, job("running"));
  node.react("GET", "/v1/jobs/7/log", [calls = 0](const http::request&) mutable {
    return ++calls == 1 ? broken_off("id: 4\ndata: {\"text\":\"half\"}\n\n")
                        : http::json_response(404, R"({"title":"Refused","code":"c","detail":"the reason"})");
  });
  node.answer_in_turn("GET", "/v1/jobs/7", {job("running"), job("succeeded")});
  const auto done = run_kcx(node, {"logs", "-f", "7"});
  CAF_CHECK_EQUAL(done.code, 1);
  CAF_CHECK_EQUAL(done.out, "half");
  CAF_CHECK(contains(done.err, "the reason [c, HTTP 404]\nkcx: the log above is not complete\n"));
}

CAF_TEST(artifacts of which one is not there are shown and the missing one told) {
  fake_node node;
  node.answer("GET", "/v1/jobs/7/artifacts", 200,
              R"({"items":[{"path":"a/x","href":"/v1/jobs/7/artifacts/a/x","bytes":1}]})");
  const auto done = run_kcx(node, {"artifacts", "7", "nope", "a/x"});
  CAF_CHECK_EQUAL(done.code, 1);
  CAF_CHECK(contains(done.out, "a/x"));
  CAF_CHECK_EQUAL(done.err, "kcx: job 7 kept nothing of the name nope\n");
}

CAF_TEST(dead letters that many at once leave out are told one by one) {
  fake_node node;
  node.answer(
    "POST", "/v1/dead-letters/requeue", 200,
    R"({"requeued":1,"matched":2,"refused":1,"refusals":[{"id":3,"detail":"its secrets must be given again"}]})");
  const auto done = run_kcx(node, {"dead-letters", "requeue", "--all"});
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK(contains(done.out, "1 job requeued, 1 refused"));
  CAF_CHECK_EQUAL(done.err, "kcx: job 3: its secrets must be given again\n");
}

CAF_TEST(artifacts are written under their own bytes and nowhere else) {
  fake_node node;
  const auto item = [](const char* path, const char* part) {
    return json{{"path", path}, {"href", std::string{"/v1/jobs/7/artifacts/"} + part}, {"size_bytes", 1}};
  };
  node.answer(
    "GET", "/v1/jobs/7/artifacts", 200,
    json{{"items", {item("d/\xEF\xBF\xBD", "d/%FF?attempt=1"), item("d/\xEF\xBF\xBD", "d/%FE?attempt=1")}}}.dump());
  node.react("GET", "/v1/jobs/7/artifacts/d/\xFF", [](const http::request&) { return http::text_response(200, "1"); });
  node.react("GET", "/v1/jobs/7/artifacts/d/\xFE", [](const http::request&) { return http::text_response(200, "2"); });
  temp_dir dir;
  CAF_CHECK_EQUAL(int{run_kcx(node, {"artifacts", "7", "--download", dir / "out"}).code}, 0);
  CAF_CHECK_EQUAL(read_file(dir / "out/d/\xFF"), "1");
  CAF_CHECK_EQUAL(read_file(dir / "out/d/\xFE"), "2");
  for (const char* bad : {"../x", "a/%2E%2E/x", "", "a//x", "%2Fetc", "a%2Fb", "."}) {
    node.answer("GET", "/v1/jobs/7/artifacts", 200, json{{"items", {item("x", bad)}}}.dump());
    const auto done = run_kcx(node, {"artifacts", "7", "--download", dir / "out"});
    CAF_CHECK(contains(done.err, "outside of what a job can keep"));
    CAF_CHECK_EQUAL(done.code, 3);
  }
}
