#define CAF_SUITE describe
#include "actors/cli/view/describe.hpp"

#include "actors/cli/view/text.hpp"
#include "caf/test/unit_test.hpp"

#include <string>
#include <utility>

using namespace kcx::cli;
using nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in \"" << text << "\"");
  return false;
}

json some_job() {
  return {{"id", 12},
          {"name", "build"},
          {"project", "default"},
          {"queue", "default"},
          {"state", "failed"},
          {"reason", "exit_code"},
          {"exit_code", 3},
          {"signal", nullptr},
          {"message", nullptr},
          {"command", {"make", "all it", "it's"}},
          {"attempt", 1},
          {"max_attempts", 2},
          {"worker", "node/1"},
          {"created_at", "2026-01-01T10:00:00.123Z"},
          {"duration_s", 61.2},
          {"log", {{"bytes", 2048}, {"cut", true}}},
          {"steps", json::array()},
          {"history", {{{"at", "2026-01-01T10:00:00.123Z"}, {"state", "queued"}, {"attempt", 0}}}}};
}

} // namespace

CAF_TEST(a summary tells state and cause and time) {
  CAF_CHECK_EQUAL(job_summary(some_job()), "job 12 build: failed (exit code 3) after 1 min 01 s");
  CAF_CHECK_EQUAL(job_summary({{"id", 3}, {"name", ""}, {"state", "failed"}, {"signal", "SIGSEGV"}}),
                  "job 3: failed (SIGSEGV)");
  CAF_CHECK_EQUAL(
    job_summary({{"id", 3}, {"state", "failed"}, {"reason", "spawn_failed"}, {"message", "No such file"}}),
    "job 3: failed (spawn_failed): No such file");
  CAF_CHECK_EQUAL(job_summary({{"id", 3}, {"state", "succeeded"}, {"exit_code", 0}}), "job 3: succeeded");
}

CAF_TEST(the reason is told and not the signal that kcx sent for it) {
  const std::pair<json, const char*> cases[] = {
    {{{"state", "timed_out"}, {"reason", "time_limit"}, {"signal", "SIGTERM"}}, "timed_out (time_limit)"},
    {{{"state", "interrupted"}, {"reason", "node_stopped"}, {"signal", "SIGKILL"}}, "interrupted (node_stopped)"},
    {{{"state", "failed"}, {"reason", "signal"}, {"signal", "SIGSEGV"}}, "failed (SIGSEGV)"},
    {{{"state", "failed"}, {"reason", "exit_code"}, {"exit_code", 3}}, "failed (exit code 3)"},
    {{{"state", "failed"}, {"reason", "worker_crashed"}, {"signal", "SIGKILL"}}, "failed (worker_crashed)"},
    {{{"state", "timed_out"}, {"signal", "SIGTERM"}}, "timed_out"},
    {{{"state", "cancelled"}, {"reason", "cancelled_by"}, {"message", "admin"}, {"signal", "SIGTERM"}},
     "cancelled by admin"},
    {{{"state", "cancelling"}, {"reason", "cancelled_by"}, {"message", "admin"}}, "cancelling (by admin)"},
    {{{"state", "cancelled"}, {"reason", "cancelled_by"}, {"message", "superseded by job 7 of its group"}},
     "cancelled (superseded by job 7 of its group)"},
    {{{"state", "cancelled"}, {"reason", "cancelled_by"}, {"message", nullptr}}, "cancelled (cancelled_by)"}};
  for (const auto& [job, shown] : cases)
    CAF_CHECK_EQUAL(state_text(job), shown);
  CAF_CHECK_EQUAL(job_summary({{"id", 3}, {"state", "cancelled"}, {"reason", "cancelled_by"}, {"message", "admin"}}),
                  "job 3: cancelled by admin");
}

CAF_TEST(a job is shown with its needs limits and results) {
  auto job = some_job();
  job.update({{"state", "blocked"},
              {"needs", {{{"id", 3}, {"if", "success"}}, {{"id", 4}, {"if", "always"}, {"artifacts", true}}}},
              {"group", "deploy"},
              {"group_limit", 2},
              {"unique_key", "k"},
              {"weight", 3},
              {"user", "ci"},
              {"time_limit_s", 1800},
              {"wait_limit_s", nullptr},
              {"limits", {{"memory_bytes", 1048576}, {"cpu_s", 90}, {"cpus", 1.5}, {"processes", nullptr}}},
              {"outputs", {{"version", "1.2"}}},
              {"artifacts_kept", {{"files", 1}, {"bytes", 2048}, {"cut", true}}},
              {"secrets", {"TOKEN"}},
              {"retry_of", 11}});
  const auto text = job_text(job, {});
  for (const char* part :
       {"waits for  the end of 3, 4 (always, with artifacts)", "group      deploy, 2 at once", "unique key k",
        "weight     3", "user       ci", "time limit 30 min 00 s", "memory limit 1.0 MiB", "CPU time limit 1 min 30 s",
        "CPU limit  1.5", "output     version=1.2", "artifacts  1 file of 2.0 KiB, some left out", "secrets    TOKEN",
        "retry of   11"})
    CAF_CHECK(contains(text, part));
  for (const char* part : {"wait limit", "process limit"})
    CAF_CHECK(text.find(part) == std::string::npos);
  job["state"] = "queued";
  CAF_CHECK(contains(job_text(job, {}), "needs      3, 4 (always, with artifacts)"));
}

CAF_TEST(a job is shown with all that is known) {
  auto text = job_text(some_job(), {});
  for (const char* part : {"job 12 build: failed (exit code 3)", "make 'all it' 'it'\\''s'", "1 of 2, on node/1",
                           "2026-01-01 10:00:00Z", "2.0 KiB, its middle cut", "queued"})
    CAF_CHECK(contains(text, part));
  CAF_CHECK(text.find("message") == std::string::npos);
}

CAF_TEST(an answer of another form is shown as far as it goes) {
  for (const auto& odd :
       {json{}, json::object(), json{{"id", "x"}, {"steps", 3}, {"log", 1}, {"state", {1}}}, json(7)}) {
    CAF_CHECK(contains(job_text(odd, {}), "job "));
    CAF_CHECK(!job_summary(odd).empty());
    CAF_CHECK(!node_text(odd, {}).empty());
  }
  CAF_CHECK(!jobs_table{{}}.add(json::array({1, "x", nullptr})).empty());
}

CAF_TEST(names from elsewhere cannot move the cursor) {
  auto job = some_job();
  job["name"] = "a\x1b[2J\nb";
  job["command"] = "x\x07";
  CAF_CHECK(job_text(job, {}).find('\x1b') == std::string::npos);
  CAF_CHECK(contains(jobs_table{{}}.add(json::array({job})), "a\\x1b[2J\\x0ab"));
  CAF_CHECK(job_text(job, {}).find('\x07') == std::string::npos);
}

CAF_TEST(a list fits the terminal) {
  auto job = some_job();
  job["name"] = std::string(200, 'n');
  auto superseded = job;
  superseded.update({{"id", 123'456'789},
                     {"state", "cancelled"},
                     {"reason", "cancelled_by"},
                     {"message", "superseded by job 123456790 of its group"},
                     {"duration_s", 3'661}});
  for (const auto& list : {json::array({job}), json::array({job, superseded})}) {
    auto text = jobs_table{{80, false}}.add(list);
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      CAF_CHECK(columns(text.substr(at, end - at)) <= 80);
    CAF_CHECK(contains(text, "nnnnnn…  "));
    CAF_CHECK(contains(text, "  failed (exit code 3)"));
  }
  CAF_CHECK_EQUAL(jobs_table{{}}.add(json::array()), "");
}

CAF_TEST(a further page keeps the columns of the table and cuts nothing) {
  jobs_table shown{{}};
  auto job = some_job();
  const auto first = shown.add(json::array({job}));
  job["name"] = "b";
  const auto second = shown.add(json::array({job}));
  CAF_CHECK(second.find("NAME") == std::string::npos);
  const auto line = first.find('\n') + 1;
  CAF_CHECK_EQUAL(second.find("2026-01-01"), first.find("2026-01-01", line) - line);
  job["name"] = std::string(300, 'n');
  CAF_CHECK(contains(shown.add(json::array({job})), std::string(300, 'n')));
}

CAF_TEST(a column that is new on a further page brings its header) {
  jobs_table shown{{}};
  auto job = some_job();
  job.update({{"project", "default"}, {"queue", "default"}});
  CAF_CHECK(shown.add(json::array({job})).find("PROJECT") == std::string::npos);
  job["project"] = "web";
  const auto second = shown.add(json::array({job}));
  CAF_CHECK(second.starts_with("ID"));
  CAF_CHECK(contains(second, "PROJECT"));
  job["project"] = "default";
  CAF_CHECK(contains(shown.add(json::array({job})), "default"));
}

CAF_TEST(a list tells the zone of its times) {
  const auto text = jobs_table{{}}.add(json::array({some_job()}));
  CAF_CHECK(contains(text, "  CREATED (UTC)     TIME\n"));
  CAF_CHECK(contains(text, "  2026-01-01 10:00  1 min 01 s\n"));
}

CAF_TEST(a problem names each field) {
  auto text = problem_text(422, R"({"title":"Invalid input","status":422,"code":"invalid_input","detail":"2 fields",
    "errors":[{"pointer":"/steps/0/command","detail":"is missing"},{"pointer":"","detail":"odd"}]})");
  CAF_CHECK_EQUAL(text, "Invalid input: 2 fields [invalid_input, HTTP 422]\n"
                        "  /steps/0/command: is missing\n  (the whole document): odd\n");
}

CAF_TEST(an answer that is no problem document shows its status) {
  CAF_CHECK_EQUAL(problem_text(502, "<html>\x1b"), "the node answered with HTTP status 502: <html>\\x1b\n");
  CAF_CHECK_EQUAL(problem_text(500, ""), "the node answered with HTTP status 500\n");
}

CAF_TEST(a step tells its number state and time) {
  CAF_CHECK_EQUAL(step_text({{"index", 1}, {"name", "build"}, {"state", "running"}}, 4), "step 2/4 build: running");
  CAF_CHECK_EQUAL(step_text({{"index", 0},
                             {"name", "fetch"},
                             {"state", "failed"},
                             {"exit_code", 5},
                             {"started_at", "2026-01-01T23:59:59.500Z"},
                             {"finished_at", "2026-01-02T00:00:01.000Z"}},
                            2),
                  "step 1/2 fetch: failed (exit code 5), 1.5 s");
}
