#define CAF_SUITE job_run
#include "actors/runner/job_run.hpp"

#include "actors/runner/job_environment.hpp"
#include "actors/runner/workspace.hpp"
#include "caf/test/unit_test.hpp"
#include "storage/log_format.hpp"
#include "tests/support/files.hpp"

#include <filesystem>
#include <fstream>
#include <poll.h>
#include <stdexcept>

using namespace kcx;
namespace fs = std::filesystem;
using clock_type = std::chrono::steady_clock;

namespace {

/// A job whose turns the test takes itself, in the place of a runner's loop.
class driven_job {
public:
  explicit driven_job(const std::vector<std::string>& lines) {
    command.key = {{1}, 1};
    for (const auto& line : lines)
      command.steps.push_back(
        {"step " + std::to_string(command.steps.size()), {"/bin/sh", "-c", line}, false, false, {}});
    command.workspace = workspace_path(data.path(), 1, 1);
    command.log_file = log_path(data.path(), 1, 1);
    command.env = job_environment({command.key, "a job", "default", "default", "test", command.workspace, ""}, {});
    command.cancel_grace = milliseconds{500};
  }

  void begin() {
    const auto note = [this](const runner_event& event) {
      if (const auto* end = std::get_if<finished_event>(&event))
        finished = *end;
      else if (const auto* step = std::get_if<step_event>(&event))
        step_changed(*step);
    };
    run = std::make_unique<job_run>(command, note, [this] { return clock_type::now() + skipped; });
    states.resize(command.steps.size());
    run->begin();
  }

  void step_changed(const step_event& step) {
    states[static_cast<std::size_t>(step.index)] = step.state;
    changes.push_back(step.state);
  }

  void turn() {
    std::vector<pollfd> polled;
    run->wants(polled);
    const auto at = run->deadline();
    ::poll(polled.data(), polled.size(), at && *at <= clock_type::now() ? 0 : 2);
    run->take_output();
    run->reap();
    run->tick();
  }

  template <class Predicate>
  void turn_until(Predicate reached) {
    const auto until = clock_type::now() + std::chrono::seconds{20};
    while (!reached()) {
      if (clock_type::now() > until)
        throw std::runtime_error{"the job does not get there"};
      turn();
    }
  }

  [[nodiscard]] std::size_t entries() const {
    std::error_code failed;
    const fs::recursive_directory_iterator all{command.workspace, failed};
    return failed ? 0 : static_cast<std::size_t>(std::distance(fs::begin(all), fs::end(all)));
  }

  test::temp_dir data;
  start_command command;
  /// What the clock of the job is ahead.
  milliseconds skipped{0};
  std::unique_ptr<job_run> run;
  std::vector<step_state> states;
  /// Every state of every step, in order.
  std::vector<step_state> changes;
  std::optional<finished_event> finished;
};

constexpr const char* thousand_files = "mkdir a b; cd a; seq 500 | xargs touch; cd ../b; seq 500 | xargs touch";

} // namespace

CAF_TEST(steps are reported as they change) {
  driven_job job{{"true", "false"}};
  job.begin();
  job.turn_until([&] { return job.finished.has_value(); });
  CAF_CHECK(
    (job.changes == std::vector{step_state::running, step_state::succeeded, step_state::running, step_state::failed}));
}

CAF_TEST(a workspace is removed in pieces between which the loop goes on) {
  driven_job job{{thousand_files}};
  job.begin();
  job.turn_until([&] { return job.states[0] == step_state::succeeded; });
  std::size_t turns = 1;
  for (std::size_t left = 1002; !job.finished; left = job.entries(), ++turns) {
    // The turn that finds the job ended removes the first piece besides its own.
    CAF_CHECK_LESS_OR_EQUAL(left - job.entries(), 2 * tree_removal::piece_entries);
    CAF_CHECK(fs::exists(job.command.workspace));
    job.turn();
  }
  CAF_CHECK_GREATER_OR_EQUAL(turns, 1002 / (2 * tree_removal::piece_entries));
  CAF_CHECK(!fs::exists(job.command.workspace));
  CAF_CHECK_EQUAL(job.finished->workspace_error, "");
}

CAF_TEST(a node that stops does not wait long for a workspace to go) {
  driven_job job{{thousand_files}};
  job.begin();
  job.turn_until([&] { return job.states[0] == step_state::succeeded; });
  job.run->cancel({job.command.key, cancel_cause::node_stop, {}});
  job.turn();
  CAF_REQUIRE(!job.finished);
  job.skipped = std::chrono::seconds{2};
  job.turn();
  CAF_REQUIRE(job.finished.has_value());
  CAF_CHECK(job.finished->outcome == run_outcome::exited);
  CAF_CHECK_NOT_EQUAL(job.finished->workspace_error, "");
  CAF_CHECK(fs::exists(job.command.workspace));
}

CAF_TEST(a node that stops lets a cancelled job begin no clean up) {
  driven_job job{{"trap '' TERM; echo > up; sleep 60 & wait; wait; sleep 60", "echo cleaning"}};
  job.command.steps[1].always = true;
  job.command.cancel_grace = std::chrono::seconds{30};
  job.begin();
  job.turn_until([&] { return fs::exists(job.command.workspace + "/up"); });
  job.run->cancel({job.command.key, cancel_cause::cancelled, {}});
  job.run->cancel({job.command.key, cancel_cause::node_stop, milliseconds{0}});
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::cancelled);
  CAF_CHECK(job.finished->cause == cancel_cause::cancelled);
  CAF_CHECK(job.states[1] == step_state::skipped);
}

CAF_TEST(a node that stops does not wait for artifacts that are copied) {
  driven_job job{{"seq 1000 | xargs touch"}};
  job.command.artifacts = {"*"};
  job.command.artifacts_dir = job.data / "artifacts/1-1";
  job.command.artifacts_limit_bytes = 1 << 20;
  fs::create_directory(job.data / "artifacts");
  job.begin();
  job.turn_until([&] { return job.states[0] == step_state::succeeded; });
  job.turn_until([&] { return fs::exists(job.data / "artifacts/1-1.part") || job.finished; });
  CAF_REQUIRE(!job.finished);
  job.run->cancel({job.command.key, cancel_cause::node_stop, {}});
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::exited);
  CAF_CHECK((job.finished->artifacts == artifact_summary{0, 0, true}));
  CAF_CHECK(fs::is_empty(job.data / "artifacts"));
}

CAF_TEST(a job whose log cannot be made skips its steps) {
  driven_job job{{"true", "true"}};
  std::ofstream{job.data / "logs"} << "in the way";
  job.begin();
  CAF_REQUIRE(job.finished.has_value());
  CAF_CHECK(job.finished->outcome == run_outcome::spawn_failed);
  for (const auto& step : job.finished->steps)
    CAF_CHECK(step.state == step_state::skipped);
}

CAF_TEST(a cancel while the workspace goes changes nothing) {
  driven_job job{{thousand_files}};
  job.begin();
  job.turn_until([&] { return job.states[0] == step_state::succeeded && job.entries() < 1002; });
  job.run->cancel({job.command.key, cancel_cause::cancelled, {}});
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::exited);
  CAF_CHECK(!fs::exists(job.command.workspace));
}

CAF_TEST(an always step at the end is not bound by the time limit of the job) {
  driven_job job{{"sleep 0.2", "sleep 0.6"}};
  job.command.steps[1].always = true;
  job.command.time_limit = milliseconds{500};
  job.begin();
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::exited);
  CAF_CHECK_EQUAL(job.finished->exit_code.value_or(-1), 0);
  CAF_CHECK((job.states == std::vector{step_state::succeeded, step_state::succeeded}));
}

CAF_TEST(a limit that passes during the clean up of a failed job changes nothing) {
  driven_job job{{"exit 4", "sleep 0.4", "sleep 99", "sleep 99"}};
  for (std::size_t i = 1; i < 4; ++i)
    job.command.steps[i].always = true;
  job.command.time_limit = milliseconds{200};
  job.command.steps[2].time_limit = milliseconds{100};
  job.command.no_output_limit = milliseconds{500};
  job.begin();
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::exited);
  CAF_CHECK_EQUAL(job.finished->exit_code.value_or(-1), 4);
  CAF_CHECK((job.states ==
             std::vector{step_state::failed, step_state::succeeded, step_state::timed_out, step_state::timed_out}));
}

CAF_TEST(a failed job stays failed when the node stops during its clean up) {
  for (const bool told : {true, false}) {
    driven_job job{{"exit 3", "exec sleep 60", "true"}};
    job.command.steps[1].always = job.command.steps[2].always = true;
    job.begin();
    job.turn_until([&] { return job.states[1] == step_state::running; });
    if (told)
      job.run->cancel({job.command.key, cancel_cause::node_stop, {}});
    else
      job.run->abandon(milliseconds{500}, "its runner was told to end");
    job.turn_until([&] { return job.run->over(); });
    CAF_CHECK(job.finished->outcome == run_outcome::exited);
    CAF_CHECK_EQUAL(job.finished->exit_code.value_or(-1), 3);
    CAF_CHECK((job.states == std::vector{step_state::failed, step_state::interrupted, step_state::skipped}));
  }
}

CAF_TEST(a job is interrupted when the node stops during the clean up of one that went well) {
  driven_job job{{"true", "exec sleep 60"}};
  job.command.steps[1].always = true;
  job.begin();
  job.turn_until([&] { return job.states[1] == step_state::running; });
  job.run->cancel({job.command.key, cancel_cause::node_stop, {}});
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::cancelled);
  CAF_CHECK(job.finished->cause == cancel_cause::node_stop);
}

CAF_TEST(a cancel during the clean up of a failed job counts) {
  driven_job job{{"exit 3", "sleep 0.3"}};
  job.command.steps[1].always = true;
  job.begin();
  job.turn_until([&] { return job.states[1] == step_state::running; });
  job.run->cancel({job.command.key, cancel_cause::cancelled, {}});
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::cancelled);
  CAF_CHECK_NOT_EQUAL(test::read_file(job.command.log_file).find("cancelled, ending the job after this step"),
                      std::string::npos);
}

CAF_TEST(an always step without a limit has a minute once the job is to end) {
  struct {
    const char* first;
    std::optional<milliseconds> limit;
  } const cases[] = {{"exit 4", {}}, {"true", {}}, {"true", milliseconds{3'600'000}}, {"exit 4", milliseconds{1'000}}};
  for (const auto& each : cases) {
    driven_job job{{each.first, "exec sleep 99"}};
    job.command.steps[1].always = true;
    job.command.time_limit = each.limit;
    const auto before = clock_type::now();
    job.begin();
    job.turn_until([&] { return job.states[1] == step_state::running && job.run->deadline(); });
    CAF_CHECK(*job.run->deadline() >= before + std::chrono::seconds{60});
    CAF_CHECK(*job.run->deadline() <= clock_type::now() + std::chrono::seconds{60});
    job.run->kill();
    job.turn_until([&] { return job.run->over(); });
  }
}

CAF_TEST(an always step before others has no limit until the job is to end) {
  driven_job job{{"exec sleep 99", "true"}};
  job.command.steps[0].always = true;
  job.begin();
  job.turn_until([&] { return !job.run->deadline(); });
  const auto before = clock_type::now();
  job.run->cancel({job.command.key, cancel_cause::cancelled, {}});
  // Once the log has taken the notice.
  job.turn_until([&] { return job.run->deadline() && *job.run->deadline() >= before + std::chrono::seconds{60}; });
  job.run->kill();
  job.turn_until([&] { return job.run->over(); });
}

CAF_TEST(the limit of the job lets an always step before others end and nothing else begin) {
  driven_job job{{"sleep 0.5", "true", "true"}};
  job.command.steps[0].always = job.command.steps[2].always = true;
  job.command.time_limit = milliseconds{200};
  job.begin();
  job.turn_until([&] { return job.run->over(); });
  CAF_CHECK(job.finished->outcome == run_outcome::time_limit);
  CAF_CHECK((job.states == std::vector{step_state::succeeded, step_state::skipped, step_state::succeeded}));
}
