/// Follows a job: its log, attempt after attempt, and the progress of its steps, through broken connections and a
/// restarted node, until the job is final.
#pragma once

#include "actors/cli/node_client.hpp"
#include "actors/cli/view/screen.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace kcx::cli {

struct follow_options {
  std::int64_t job = 0;
  /// Follow this attempt only; otherwise from the present one on to the last.
  std::optional<std::int32_t> attempt;
  /// Begin with the first attempt rather than the present one.
  bool from_first = false;
  /// Begin so many lines before the end.
  std::optional<std::uint64_t> tail;
  bool timestamps = false;
  /// Write the log as lines of JSON, {"attempt", "text"}; bytes that are no UTF-8 become U+FFFD.
  bool json = false;
  /// Show the log at all.
  bool log = true;
  /// The log is all that is wanted: without it there is nothing to follow.
  bool log_only = false;
  /// Tell steps and attempts on the screen.
  bool progress = true;
  /// SIGINT and SIGTERM cancel the job instead of ending kcx. Both must be blocked in the calling thread then.
  bool cancel_on_signal = false;
  /// How long to try to reach the node again before giving up.
  std::chrono::milliseconds patience{60'000};
};

/// How following ended.
struct follow_result {
  /// The job as last seen; null if it never was.
  nlohmann::json job;
  /// The node could not be reached any more.
  std::optional<error> lost;
  /// The node answered with this problem.
  std::optional<reply> refusal;
  /// The node refused the log with this problem.
  std::optional<reply> log_refusal;
  /// Something of the log was written.
  bool log_begun = false;
  /// A second signal: the user left.
  bool left = false;
  /// The whole log was written to standard output.
  bool log_complete = false;
};

/// Blocks until the job (or with `attempt` that attempt) is final and its log written, or something of the above
/// happens.
[[nodiscard]] follow_result follow_job(const node_location& where, const follow_options& options, screen& out);

} // namespace kcx::cli
