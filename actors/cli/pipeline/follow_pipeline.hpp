/// Follows the jobs of a pipeline until all are final, through broken connections and a restarted node.
#pragma once

#include "actors/cli/line/command_line.hpp"
#include "actors/cli/node_client.hpp"
#include "actors/cli/pipeline/progress.hpp"
#include "actors/cli/view/screen.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace kcx::cli {

struct pipeline_options {
  /// The numbers of the jobs, in the pipeline's order.
  std::vector<std::int64_t> ids;
  shown_logs logs = shown_logs::failed;
  /// The first job that does not succeed ends the others.
  bool fail_fast = false;
  std::chrono::milliseconds patience{60'000};
};

struct pipeline_result {
  job_states jobs;
  std::chrono::milliseconds took{0};
  /// As in follow_result.
  std::optional<error> lost;
  std::optional<reply> refusal;
  bool left = false;
  /// A log that was to be printed could not be had.
  bool log_missing = false;
};

/// Blocks until all jobs are final, or something of the above happens. SIGINT and SIGTERM, which must be blocked,
/// cancel all jobs; a second one leaves.
[[nodiscard]] pipeline_result follow_pipeline(const node_location& where, const pipeline& what,
                                              const pipeline_options& options, screen& out);

} // namespace kcx::cli
