#define CAF_SUITE run_plan
#include "actors/workers/run_plan.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace std::chrono_literals;

namespace {

run_settings settings() {
  run_settings result;
  result.data_dir = "/data";
  result.node_id = "abc";
  return result;
}

job_grant grant() {
  job_grant result;
  result.key = {{12'034}, 2};
  result.spec.name = "build";
  result.spec.command = command_line{true, {"make all"}};
  return result;
}

} // namespace

CAF_TEST(a job of one command runs as one step) {
  const auto plan = plan_run(grant(), settings());
  CAF_REQUIRE_EQUAL(plan.steps.size(), 1u);
  CAF_CHECK(plan.steps[0].argv == (std::vector<std::string>{"/bin/sh", "-c", "make all"}));
  CAF_CHECK(!plan.steps[0].always);
  CAF_CHECK(plan.key == (attempt_key{{12'034}, 2}));
}

CAF_TEST(steps keep their order and their flags) {
  auto asked = grant();
  asked.spec.command.reset();
  asked.spec.steps = {{"build", {false, {"make", "-j2"}}, true, false}, {"clean", {true, {"rm x"}}, false, true}};
  const auto plan = plan_run(asked, settings());
  CAF_REQUIRE_EQUAL(plan.steps.size(), 2u);
  CAF_CHECK_EQUAL(plan.steps[0].name, "build");
  CAF_CHECK(plan.steps[0].argv == (std::vector<std::string>{"make", "-j2"}));
  CAF_CHECK(plan.steps[0].continue_on_error);
  CAF_CHECK(plan.steps[1].always);
}

CAF_TEST(log and workspace lie in the data directory and belong to the attempt) {
  const auto plan = plan_run(grant(), settings());
  CAF_CHECK_EQUAL(plan.log_file, "/data/logs/12/12034-2.log");
  CAF_CHECK_EQUAL(plan.workspace, "/data/workspaces/12034-2");
}

CAF_TEST(the environment is the base with those of the job and its secrets which are masked) {
  auto asked = grant();
  asked.spec.env = {{"A", "1"}};
  asked.spec.secrets = {{"TOKEN", "s3cret"}};
  const auto plan = plan_run(asked, settings());
  CAF_CHECK_EQUAL(plan.env.at("A"), "1");
  CAF_CHECK_EQUAL(plan.env.at("TOKEN"), "s3cret");
  CAF_CHECK_EQUAL(plan.env.at("KCX_NODE_ID"), "abc");
  CAF_CHECK_EQUAL(plan.env.at("KCX_JOB_ID"), "12034");
  CAF_CHECK(plan.secrets == std::vector<std::string>{"s3cret"});
}

CAF_TEST(outputs of needed jobs are variables named after their ref or number) {
  auto asked = grant();
  asked.needs = {{{{5}, 1}, false, "build-all", {{"version", "1.2"}}, {}, false},
                 {{{6}, 1}, false, "", {{"url", "x"}}, {}, false}};
  const auto plan = plan_run(asked, settings());
  CAF_CHECK_EQUAL(plan.env.at("KCX_NEED_build_all_version"), "1.2");
  CAF_CHECK_EQUAL(plan.env.at("KCX_NEED_6_url"), "x");
  CAF_CHECK(plan.fetch.empty());
}

CAF_TEST(artifacts of needed jobs are fetched where they are asked for and whole) {
  auto asked = grant();
  asked.spec.artifacts = {"*.xml"};
  asked.needs = {{{{5}, 2}, false, "a", {}, {3, 10, false}, true},
                 {{{6}, 1}, false, "b", {}, {0, 0, false}, true},
                 {{{7}, 1}, false, "c", {}, {1, 10, true}, true},
                 {{{8}, 0}, true, "", {}, {}, true},
                 {{{9}, 1}, false, "d", {}, {1, 1, false}, false}};
  const auto plan = plan_run(asked, settings());
  CAF_CHECK(plan.artifacts == std::vector<std::string>{"*.xml"});
  CAF_CHECK_EQUAL(plan.artifacts_dir, "/data/artifacts/12034-2");
  CAF_REQUIRE_EQUAL(plan.fetch.size(), 4u);
  CAF_CHECK_EQUAL(plan.fetch[0].directory, "/data/artifacts/5-2");
  CAF_CHECK(plan.fetch[1].directory.empty() && plan.fetch[1].problem.empty());
  CAF_CHECK_EQUAL(plan.fetch[2].problem,
                  "the artifacts of job 7, which this job needs, are not complete: its log tells what was left out");
  CAF_CHECK_EQUAL(plan.fetch[3].problem, "the artifacts of job 8, which this job needs, are gone: it was removed");
}

CAF_TEST(limits of the whole job go to its cgroup where there is one) {
  auto asked = grant();
  asked.spec.limits.memory_bytes = 1 << 20;
  asked.spec.limits.processes = 7;
  asked.spec.limits.open_files = 99;
  asked.spec.limits.cpu_millis = 1'500;
  CAF_CHECK(plan_run(asked, settings()).limits == asked.spec.limits);
  CAF_CHECK(plan_run(asked, settings()).cgroup.empty());
  auto node = settings();
  node.cgroups.jobs = "/cg/kcx-jobs";
  node.cgroups.memory = node.cgroups.cpu = true; // no pids
  const auto plan = plan_run(asked, node);
  CAF_CHECK_EQUAL(plan.cgroup, "/cg/kcx-jobs/12034-2");
  CAF_CHECK(plan.cgroup_limits.memory_bytes == 1U << 20 && plan.cgroup_limits.cpu_millis == 1'500U);
  CAF_CHECK(!plan.cgroup_limits.processes && plan.limits.processes == 7U);
  CAF_CHECK(!plan.limits.memory_bytes && plan.limits.open_files == 99U);
  asked.spec.limits = {};
  CAF_CHECK(plan_run(asked, node).cgroup.empty());
}

CAF_TEST(limits are those of the job) {
  auto asked = grant();
  asked.spec.time_limit = 60s;
  asked.spec.no_output_limit = 5s;
  asked.spec.cancel_grace = 3s;
  asked.spec.log_limit_bytes = 4'096;
  asked.spec.limits.open_files = 99;
  asked.spec.keep_workspace = keep_policy::on_failure;
  asked.spec.working_dir = "src";
  const auto plan = plan_run(asked, settings());
  CAF_CHECK(plan.time_limit == 60s);
  CAF_CHECK(plan.no_output_limit == 5s);
  CAF_CHECK(plan.cancel_grace == 3s);
  CAF_CHECK_EQUAL(plan.log_limit_bytes, 4'096u);
  CAF_CHECK(plan.limits == asked.spec.limits);
  CAF_CHECK(plan.keep_workspace == keep_policy::on_failure);
  CAF_CHECK_EQUAL(plan.working_dir, "src");
}

CAF_TEST(what a job does not say is taken from the node) {
  auto node = settings();
  node.job_user = "ci";
  node.log_limit = 5'000;
  node.disk_reserve = 77;
  const auto plan = plan_run(grant(), node);
  CAF_CHECK_EQUAL(plan.user, "ci");
  CAF_CHECK_EQUAL(plan.env.at("USER"), "ci");
  CAF_CHECK_EQUAL(plan.log_limit_bytes, 5'000u);
  CAF_CHECK_EQUAL(plan.log_reserve_bytes, 77u);
  auto asked = grant();
  asked.spec.user = "other";
  CAF_CHECK_EQUAL(plan_run(asked, node).user, "other");
}

CAF_TEST(a step keeps its own time limit) {
  auto asked = grant();
  asked.spec.command.reset();
  asked.spec.steps = {{"a", {true, {"true"}}, false, false, 3s}, {"b", {true, {"true"}}, false, true, {}}};
  const auto plan = plan_run(asked, settings());
  CAF_CHECK(plan.steps[0].time_limit == 3s);
  CAF_CHECK(!plan.steps[1].time_limit);
}

CAF_TEST(a stopping node gives a job no more grace than the job asks for) {
  auto asked = grant();
  CAF_CHECK(plan_cancel(asked, cancel_cause::node_stop, settings()).grace == 2s);
  asked.spec.cancel_grace = 500ms;
  CAF_CHECK(plan_cancel(asked, cancel_cause::node_stop, settings()).grace == 500ms);
  CAF_CHECK(!plan_cancel(asked, cancel_cause::cancelled, settings()).grace.has_value());
}

CAF_TEST(every way a run ends has an outcome of its own) {
  const std::vector<std::tuple<run_outcome, cancel_cause, attempt_outcome>> rows{
    {run_outcome::exited, cancel_cause::cancelled, attempt_outcome::exited},
    {run_outcome::signalled, cancel_cause::cancelled, attempt_outcome::signalled},
    {run_outcome::spawn_failed, cancel_cause::cancelled, attempt_outcome::spawn_failed},
    {run_outcome::time_limit, cancel_cause::cancelled, attempt_outcome::time_limit},
    {run_outcome::no_output, cancel_cause::cancelled, attempt_outcome::no_output},
    {run_outcome::cancelled, cancel_cause::cancelled, attempt_outcome::cancelled},
    {run_outcome::cancelled, cancel_cause::node_stop, attempt_outcome::node_stopped},
    {run_outcome::killed, cancel_cause::cancelled, attempt_outcome::worker_crashed},
  };
  for (const auto& [how, cause, expected_outcome] : rows) {
    finished_event event;
    event.outcome = how;
    event.cause = cause;
    CAF_CHECK_EQUAL(to_string(to_result(event, grant().spec).outcome), to_string(expected_outcome));
  }
}

CAF_TEST(a result carries what the runner measured) {
  finished_event event;
  event.key = {{12'034}, 2};
  event.exit_code = 3;
  event.message = "text";
  event.log.bytes = 99;
  event.log.cut = true;
  event.started_at = timestamp{5s};
  event.duration = 1'234ms;
  event.steps = {{step_state::failed, 3, {}, timestamp{5s}, timestamp{6s}}};
  auto result = to_result(event, grant().spec);
  CAF_CHECK(result.key == event.key);
  CAF_CHECK(result.exit_code == 3);
  CAF_CHECK_EQUAL(result.message, "text");
  CAF_CHECK_EQUAL(result.log.bytes, 99);
  CAF_CHECK(result.log.cut);
  CAF_CHECK(result.started_at == timestamp{5s});
  CAF_CHECK(result.duration == 1'234ms);
  CAF_CHECK(result.steps.empty()); // a plain command shows none
  auto with_steps = grant();
  with_steps.spec.command.reset();
  with_steps.spec.steps.emplace_back();
  result = to_result(event, with_steps.spec);
  CAF_REQUIRE_EQUAL(result.steps.size(), 1u);
  CAF_CHECK_EQUAL(result.steps[0].index, 0);
  CAF_CHECK(result.steps[0].state == step_state::failed);
  CAF_CHECK(result.steps[0].exit_code == 3);
}
