/// One job from its start command to its finished event: steps, limits, and the end of its process tree.
///
/// A state machine without a loop of its own: the runner's only thread polls what wants() names until deadline() and
/// then calls take_output(), reap() and tick(). Nothing here blocks except disk writes: copies of artifacts are
/// made a few MiB at a time, and the workspace is removed some entries at a time.
///
/// Phases (job_run.cpp holds the steps, job_end.cpp the ends, job_keep.cpp what is copied before and after): `fetching`
/// while artifacts of needed jobs are copied into the workspace; `running` while the main process of a step lives;
/// `ending` while the tree of an ended step is brought down; `settling` for a moment after the last step, while its
/// remaining output arrives; `keeping` while its own artifacts are copied; `removing` while the workspace goes; `over`
/// once `finished` is sent.
#pragma once

#include "actors/runner/cgroup.hpp"
#include "actors/runner/job_output.hpp"
#include "actors/runner/protocol.hpp"
#include "actors/runner/spawn.hpp"
#include "actors/runner/tree_copy.hpp"
#include "actors/runner/tree_removal.hpp"

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kcx {

/// Growth of the log is told at most this often.
inline constexpr milliseconds log_event_every{100};

class job_run {
public:
  using event_sink = std::function<void(const runner_event&)>;

  /// All limits are measured by `clock`; the log's own times are those of the steady clock.
  job_run(start_command start, event_sink emit, std::function<steady_time()> clock = std::chrono::steady_clock::now);

  /// Makes log and workspace and starts the first step.
  void begin();

  /// As cancel_command. Ignored for another attempt, and once the last step has ended by itself.
  void cancel(const cancel_command& command);

  /// KILL to everything, now.
  void kill();

  /// Ends the tree with at most this grace period, without `always` steps; `why` is for the log: "its node is gone".
  void abandon(milliseconds grace, const std::string& why);

  /// Adds the descriptors to poll.
  void wants(std::vector<pollfd>& polled) const;
  /// When tick() is due at the latest; nothing if only descriptors and SIGCHLD matter.
  [[nodiscard]] std::optional<steady_time> deadline() const;

  void take_output();
  /// Reaps every dead child. Called after each SIGCHLD.
  void reap();
  /// Acts on limits and due work.
  void tick();

  [[nodiscard]] bool over() const noexcept { return phase_ == phase::over; }
  [[nodiscard]] const attempt_key& key() const noexcept { return start_.key; }

private:
  enum class phase { idle, fetching, running, ending, settling, keeping, removing, over };
  enum class end_cause { none, time_limit, no_output, cancelled, node_stop, killed };

  // -- steps ----------------------------------------------------------------
  [[nodiscard]] bool decided() const noexcept;
  /// The job ends with this step: it is decided how, or nothing but `always` steps is left.
  [[nodiscard]] bool winding_up() const noexcept;
  [[nodiscard]] bool should_run(const runner_step& step) const noexcept;
  void next_step();
  bool start_step();
  void step_ended(int status);
  void set_step(std::size_t index, step_state state);
  void fail_to_start(const error& failure);
  [[nodiscard]] outcome make_cgroup();
  /// Tells of a job that met the memory limit of its cgroup.
  void look_at_memory();

  // -- ends -----------------------------------------------------------------
  void end_step(end_cause cause, const std::string& notice);
  void hurry(const std::string& why);
  /// The job is to end while a clean-up step runs, which goes on: that is what would be started next.
  void wind_up(end_cause cause);
  void begin_ladder(milliseconds grace);
  void climb(steady_time now);
  /// The job's time limit counts for the present step.
  [[nodiscard]] bool bound_by_job() const noexcept;
  void check_limits(steady_time now);
  void check_job_limit(steady_time now);
  void settle();
  void check_settled(steady_time now);
  void finish();
  void plan_removal();
  /// Nobody may wait long for what is left to remove.
  void hurry_removal();
  /// Removes one more piece, if something is being removed; reports the end once nothing is left.
  void remove_on();
  void report();
  void report_log(steady_time now, bool last);
  [[nodiscard]] run_outcome outcome_now() const noexcept;

  // -- artifacts and outputs -------------------------------------------------
  void fetch_next();
  void fetched(const copy_report& report);
  void keep();
  void kept(const copy_report& report);
  void leave_no_artifacts();
  void take_outputs();
  /// Copies one more piece, if something is being copied.
  void copy_on();

  start_command start_;
  event_sink emit_;
  std::function<steady_time()> clock_;
  std::unique_ptr<job_output> output_;
  std::optional<account> user_;
  unique_fd null_;
  std::optional<job_cgroup> cgroup_;
  bool has_workspace_ = false;
  std::optional<tree_copy> copy_;
  /// How many of the sources have been begun.
  std::size_t fetched_ = 0;
  artifact_summary artifacts_;
  job_outputs outputs_;
  /// The first of them is being removed.
  std::deque<std::filesystem::path> to_remove_;
  std::optional<tree_removal> removal_;
  std::optional<steady_time> remove_until_;
  bool workspace_kept_ = false;
  std::string workspace_error_;

  phase phase_ = phase::idle;
  std::vector<step_result> steps_;
  std::size_t current_ = 0;
  bool first_ = true;
  pid_t main_ = 0;
  bool tree_empty_ = true;

  /// Why the job ends early; the first cause stays.
  end_cause cause_ = end_cause::none;
  /// Why the present step is ended; differs from cause_ where a step may fail.
  end_cause step_cause_ = end_cause::none;
  /// Nothing more is begun, and nothing takes longer than it must: the node stops or is gone. Empty: there is time.
  std::string hurried_by_;
  bool failed_ = false;
  bool spawn_failed_ = false;
  std::optional<std::int32_t> exit_code_;
  std::optional<std::int32_t> signal_;
  std::string message_;

  std::optional<steady_time> started_;
  std::optional<timestamp> started_at_;
  std::optional<steady_time> job_deadline_;
  std::optional<milliseconds> step_limit_;
  std::optional<steady_time> step_deadline_;
  steady_time silent_since_{};
  steady_time settle_until_{};

  /// The kill ladder, while it is in use.
  std::optional<steady_time> kill_at_;
  milliseconds next_kill_{0};

  std::uint64_t log_told_ = 0;
  steady_time log_told_at_{};
};

} // namespace kcx
