/// From a grant to what the runner is told, and from what the runner reports back to what is stored. Pure functions.
#pragma once

#include "actors/runner/cgroup.hpp"
#include "actors/runner/protocol.hpp"
#include "storage/job_store.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace kcx {

/// What a node's runs have in common.
struct run_settings {
  /// Logs and workspaces lie below it. Absolute.
  std::filesystem::path data_dir;
  /// Marks every process of this node's jobs; see process_mark().
  std::string node_id;
  /// From TERM to KILL when the node stops, unless the job's own grace is shorter.
  std::chrono::milliseconds stop_grace{2'000};
  /// The account of jobs that name none; empty: the node's own.
  std::string job_user = {};
  /// Whether limits of whole jobs are possible.
  cgroup_access cgroups = {};
  /// Kept of the log of a job that does not say itself.
  std::int64_t log_limit = 64LL << 20;
  /// Kept of the workspace of a job with artifacts.
  std::int64_t artifacts_limit = 1LL << 30;
  /// Free space that logs and artifacts leave on the disk.
  std::int64_t disk_reserve = 0;
};

/// How the runner runs this attempt. A job of one command becomes one step.
[[nodiscard]] start_command plan_run(const job_grant& grant, const run_settings& settings);

/// Whether the job of the attempt has steps of its own to show; the one step of a plain command is none.
[[nodiscard]] bool shows_steps(const job_spec& spec) noexcept;

/// How to end this attempt for `cause`.
[[nodiscard]] cancel_command plan_cancel(const job_grant& grant, cancel_cause cause, const run_settings& settings);

/// The step as it is now, given when it began, if that was told before.
[[nodiscard]] step_record to_record(const step_event& event, std::optional<timestamp> began);

/// What is stored about the end of an attempt.
[[nodiscard]] attempt_result to_result(const finished_event& event, const job_spec& spec);

} // namespace kcx
