/// What node and runner say to each other over their socket pair.
///
/// Each message is a frame: its length as 4 bytes, big endian, then that many bytes of JSON. Commands go from the node
/// to the runner, events come back. Both ends are of one build and one release: there is no version negotiation, and
/// anything malformed ends the connection.
#pragma once

#include "actors/runner/frame_splitter.hpp"
#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/log_writer.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kcx {

using milliseconds = std::chrono::milliseconds;

// -- commands: node to runner -----------------------------------------------------------------------------------------

/// One step as the runner executes it.
struct runner_step {
  std::string name;
  /// Never empty; a shell line has become {"/bin/sh", "-c", line}.
  std::vector<std::string> argv;
  bool continue_on_error = false;
  bool always = false;
  /// Limit of this step alone.
  std::optional<milliseconds> time_limit;

  bool operator==(const runner_step&) const = default;
};

/// The artifacts of a needed job, for the workspace of the one that needs it.
struct artifact_source {
  job_id job;
  /// Empty if it kept none.
  std::string directory;
  /// Why they cannot be had, and the job cannot start.
  std::string problem;

  bool operator==(const artifact_source&) const = default;
};

/// Runs a job. Only while the runner is idle; a busy runner answers with `finished` (spawn_failed) for this attempt.
struct start_command {
  attempt_key key;
  std::vector<runner_step> steps;
  /// The complete environment; see job_environment(). The runner adds KCX_STEP and KCX_STEP_INDEX per step, and makes
  /// the file that KCX_OUTPUT names.
  std::map<std::string, std::string> env;
  /// Fresh directory that the runner makes and, by `keep_workspace`, removes. Absolute. Its parent must exist.
  std::string workspace;
  keep_policy keep_workspace = keep_policy::never;
  /// Copied into the workspace before the first step, in order; later ones replace files of earlier ones.
  std::vector<artifact_source> fetch;
  /// Globs of what is kept of the workspace once the job's processes are gone; see path_patterns.
  std::vector<std::string> artifacts;
  /// Where; must not exist. Absolute.
  std::string artifacts_dir;
  std::uint64_t artifacts_limit_bytes = 1U << 30;
  /// Where the steps run: empty is the workspace; relative is below it.
  std::string working_dir;
  /// Data file of the log (log_path()); must not exist.
  std::string log_file;
  std::uint64_t log_limit_bytes = 64U << 20;
  /// Space on the disk that log and artifacts leave to others: what would go below is dropped, with a notice.
  std::uint64_t log_reserve_bytes = 0;
  /// Limit of all steps together that are not `always`.
  std::optional<milliseconds> time_limit;
  /// Limit of silence on both streams of the running step.
  std::optional<milliseconds> no_output_limit;
  /// Between TERM and KILL, for whatever ends the job.
  milliseconds cancel_grace{10'000};
  /// Values that are masked in the log and in messages.
  std::vector<std::string> secrets;
  /// Account to run as; only a runner of root can. Empty: the runner's own.
  std::string user;
  /// Of each process.
  resource_limits limits;
  /// Of all processes together, by a cgroup that the runner makes and removes. Empty: none.
  std::string cgroup;
  resource_limits cgroup_limits;
  std::uint32_t umask = 022;

  bool operator==(const start_command&) const = default;
};

/// Why a job is to end before it ends by itself.
enum class cancel_cause : std::uint8_t {
  /// A user wants it: `always` steps still run.
  cancelled,
  /// The node stops: `always` steps are left out.
  node_stop,
};

/// Ends the job: TERM to its whole tree, after the grace period KILL. Ignored if the attempt is not the running one.
struct cancel_command {
  attempt_key key;
  cancel_cause cause = cancel_cause::cancelled;
  /// Replaces the job's own grace period, for a node that has less time.
  std::optional<milliseconds> grace;

  bool operator==(const cancel_command&) const = default;
};

/// Ends the running job's whole tree with KILL at once. Nothing happens if the runner is idle.
struct kill_command {
  bool operator==(const kill_command&) const = default;
};

/// The runner exits; a running job is ended first, as if the node had died.
struct quit_command {
  bool operator==(const quit_command&) const = default;
};

/// Answered by pong_event as soon as the runner reads it.
struct ping_command {
  bool operator==(const ping_command&) const = default;
};

using runner_command = std::variant<start_command, cancel_command, kill_command, quit_command, ping_command>;

// -- events: runner to node -------------------------------------------------------------------------------------------

/// The runner is up and idle. Its first message.
struct ready_event {
  std::int32_t pid = 0;
  bool operator==(const ready_event&) const = default;
};

/// The log has been created and the job's first process runs. Not sent for a job that cannot start, or that ends before
/// event_outbox lets it go.
struct started_event {
  attempt_key key;
  timestamp at;
  std::int32_t pid = 0;
  bool operator==(const started_event&) const = default;
};

/// A step changed its state. The last ones before `finished` may be left out, which has them all.
struct step_event {
  attempt_key key;
  std::int32_t index = 0;
  step_state state = step_state::pending;
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  timestamp at;
  bool operator==(const step_event&) const = default;
};

/// Readers can see `bytes` bytes of the log now. At most every 100 ms, and once before `finished`.
struct log_event {
  attempt_key key;
  std::uint64_t bytes = 0;
  bool operator==(const log_event&) const = default;
};

/// How a job ended. Exactly one holds; what came first wins.
enum class run_outcome : std::uint8_t {
  /// `exit_code` is that of the step that decided.
  exited,
  /// `signal` ended the step that decided, and KCX did not send it.
  signalled,
  /// A step, the log or the workspace could not be made; `message` has the system's words.
  spawn_failed,
  time_limit,
  no_output,
  /// By cancel_command; `cause` tells which.
  cancelled,
  /// By kill_command, or because the runner itself had to end.
  killed,
};
[[nodiscard]] std::string_view to_string(run_outcome value) noexcept;

/// One step of a finished job.
struct step_result {
  step_state state = step_state::pending;
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  std::optional<timestamp> started_at;
  std::optional<timestamp> finished_at;
  bool operator==(const step_result&) const = default;
};

/// The job is over: its process tree is empty, its artifacts and outputs are taken, its log closed, its workspace
/// removed or kept.
struct finished_event {
  attempt_key key;
  run_outcome outcome = run_outcome::exited;
  cancel_cause cause = cancel_cause::cancelled;
  /// Of the step that decided, whatever the outcome; absent if none ended that way.
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  std::string message;
  log_sizes log;
  artifact_summary artifacts;
  job_outputs outputs;
  std::vector<step_result> steps;
  /// Absent if nothing could be started.
  std::optional<timestamp> started_at;
  timestamp finished_at;
  /// By the monotonic clock, so never negative; 0 if nothing could be started.
  milliseconds duration{0};
  bool workspace_kept = false;
  /// Set if the workspace, or what the job put beside it, should have been removed and could not be.
  std::string workspace_error;
  bool operator==(const finished_event&) const = default;
};

/// A sign of life: the answer to ping_command.
struct pong_event {
  bool operator==(const pong_event&) const = default;
};

using runner_event = std::variant<ready_event, started_event, step_event, log_event, finished_event, pong_event>;

// -- frames -----------------------------------------------------------------------------------------------------------

/// A complete frame. Fails with ec::invalid_input if it would pass max_frame_bytes.
[[nodiscard]] expected<std::string> encode(const runner_command& command);
[[nodiscard]] expected<std::string> encode(const runner_event& event);

/// The message of a frame's JSON. Fails with ec::invalid_input on anything encode() does not produce.
[[nodiscard]] expected<runner_command> decode_command(std::string_view json);
[[nodiscard]] expected<runner_event> decode_event(std::string_view json);

} // namespace kcx
