#define CAF_SUITE progress
#include "actors/cli/pipeline/progress.hpp"

#include "actors/cli/pipeline/job_log.hpp"
#include "caf/test/unit_test.hpp"

#include <string>

using namespace kcx;
using namespace kcx::cli;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

pipeline plan_of(std::vector<std::pair<std::string, std::vector<pipeline_need>>> jobs) {
  pipeline made;
  made.name = "p";
  for (auto& [name, needs] : jobs)
    made.jobs.push_back({name, "", nullptr, std::move(needs)});
  return made;
}

json job(const std::string& state, json more = json::object()) {
  json whole{{"id", 7}, {"state", state}};
  whole.update(more);
  return whole;
}

} // namespace

CAF_TEST(the code of a pipeline is that of the first job that did not succeed) {
  const auto plan = plan_of({{"a", {}}, {"b", {}}, {"c", {}}});
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("succeeded"), job("succeeded"), job("succeeded")}), 0);
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("succeeded"), job("timed_out"), job("failed", {{"exit_code", 3}})}), 124);
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("cancelled"), job("succeeded"), job("succeeded")}), 130);
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("succeeded"), nullptr, job("succeeded")}), 3);
}

CAF_TEST(a job skipped for the failure of another stands behind that failure) {
  const auto plan = plan_of({{"pack", {{1, "success"}}}, {"test", {}}});
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("skipped"), job("failed", {{"exit_code", 9}})}), 9);
  // Skipped for something outside of the pipeline.
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("skipped"), job("skipped")}), 76);
}

CAF_TEST(a job that waited for a failure that did not come was skipped as planned) {
  const auto plan = plan_of({{"test", {}}, {"alarm", {{0, "failure"}}}, {"after", {{1, "success"}}}});
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("succeeded"), job("skipped"), job("skipped")}), 0);
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("failed", {{"exit_code", 2}}), job("succeeded"), job("succeeded")}), 2);
  CAF_CHECK_EQUAL(exit_code_of(plan, {job("skipped"), job("skipped"), job("skipped")}), 76);
}

CAF_TEST(a job waits until all its needs have ended) {
  const auto plan = plan_of({{"a", {}}, {"b", {}}, {"c", {{0, "success"}, {1, "always"}}}});
  CAF_CHECK(needs_ended(plan, {nullptr, nullptr, nullptr}, 0));
  CAF_CHECK(!needs_ended(plan, {job("succeeded"), job("running"), nullptr}, 2));
  CAF_CHECK(needs_ended(plan, {job("succeeded"), job("failed"), nullptr}, 2));
}

CAF_TEST(a line tells what became of a job) {
  const pipeline_job which{"test (gcc)", "", nullptr, {}};
  CAF_CHECK_EQUAL(progress_line(which, job("running")), "test (gcc): running (job 7)");
  CAF_CHECK_EQUAL(progress_line(which, job("failed", {{"exit_code", 2}, {"duration_s", 1.25}})),
                  "test (gcc): failed (exit code 2) after 1.2 s");
  CAF_CHECK_EQUAL(progress_line(which, job("skipped", {{"reason", "need_failed"}, {"message", "job 6 failed"}})),
                  "test (gcc): skipped (need_failed): job 6 failed");
}

CAF_TEST(the block shows counts each job its step and what it waits for) {
  const auto plan = plan_of({{"build", {}}, {"test", {{0, "success"}}}, {"pack", {{0, "success"}, {1, "success"}}}});
  const job_states jobs{
    job("running", {{"duration_s", 2.0},
                    {"steps", {{{"name", "get"}, {"state", "succeeded"}}, {{"name", "make"}, {"state", "running"}}}}}),
    job("blocked"), job("blocked")};
  const auto lines = progress_block(plan, jobs, 3s, {80, false, 20});
  CAF_REQUIRE(lines.size() == 4);
  CAF_CHECK_EQUAL(lines[0].text, "p: 0 of 3 ended after 3.0 s: 1 running, 2 blocked");
  CAF_CHECK_EQUAL(lines[1].text, "  build  running  2.0 s  step 2/2 make");
  CAF_CHECK_EQUAL(lines[2].text, "  test   blocked  needs build");
  CAF_CHECK_EQUAL(lines[3].text, "  pack   blocked  needs build and 1 more");
}

CAF_TEST(a small terminal shows what matters most) {
  const auto plan = plan_of({{"ok", {}}, {"waits", {}}, {"bad", {}}, {"runs", {}}, {"ok2", {}}});
  const job_states jobs{job("succeeded"), job("blocked"), job("failed"), job("running"), job("succeeded")};
  const auto lines = progress_block(plan, jobs, 0s, {80, false, 4});
  CAF_REQUIRE(lines.size() == 4);
  CAF_CHECK(lines[1].text.starts_with("  bad"));
  CAF_CHECK(lines[2].text.starts_with("  runs"));
  CAF_CHECK_EQUAL(lines[3].text, "  … and 3 more");
}

CAF_TEST(the summary is a table of all jobs and a line of counts) {
  const auto plan = plan_of({{"build", {}}, {"test (gcc)", {}}});
  const job_states jobs{job("succeeded", {{"id", 1}, {"duration_s", 61.0}}),
                        job("failed", {{"id", 2}, {"exit_code", 3}, {"duration_s", 2.0}})};
  CAF_CHECK_EQUAL(summary_table(plan, jobs, {}), "JOB         ID  STATE      REASON       TIME\n"
                                                 "build       1   succeeded  -            1 min 01 s\n"
                                                 "test (gcc)  2   failed     exit code 3  2.0 s\n");
  CAF_CHECK_EQUAL(summary_line(plan, jobs, 63s), "p: 1 succeeded, 1 failed in 1 min 03 s");
}

CAF_TEST(every line of a log stands behind the name of its job) {
  line_prefixer lines{"a"};
  CAF_CHECK_EQUAL(lines.take("one\ntw"), "a | one\na | tw");
  CAF_CHECK_EQUAL(lines.take("o\n\nx"), "o\na | \na | x");
  CAF_CHECK_EQUAL(std::string{lines.end()}, "\n");
  CAF_CHECK_EQUAL(std::string{lines.end()}, "");
}
