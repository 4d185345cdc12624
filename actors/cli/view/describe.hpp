/// What the API answers, as text for people. Pure; every string that came from the node is made visible first.
///
/// A member that is missing or of another type is shown as "-": a newer node may answer differently.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace kcx::cli {

/// How wide and how colourful: what standard output can take.
struct look {
  /// Columns; 0 where nothing bounds a line (a file, a pipe).
  std::size_t width = 0;
  bool colours = false;
  /// Lines; 0 as for the width.
  std::size_t height = 0;
};

/// "command" or a step's command as one line: words quoted as a shell needs it.
[[nodiscard]] std::string command_text(const nlohmann::json& command);

/// "exit code 3", "SIGSEGV", "time_limit", "by admin": why a job or a step is in its state. Empty where nothing is to
/// be told.
[[nodiscard]] std::string cause_text(const nlohmann::json& job);

/// "failed (exit code 3)", "timed_out (time_limit)", "cancelled by admin", "succeeded": of a job or a step.
[[nodiscard]] std::string state_text(const nlohmann::json& job);

/// One job with its steps and history, several lines.
[[nodiscard]] std::string job_text(const nlohmann::json& job, look how);

/// "job 12 build: failed (exit_code 3) after 1.2 s", one line without its end.
[[nodiscard]] std::string job_summary(const nlohmann::json& job);

/// A table of jobs that comes page by page, as wide as what came so far needs.
class jobs_table {
public:
  explicit jobs_table(look how) : how_{how} {}

  /// The next jobs, a line each. The header stands in front of the first, and again where a column is new.
  [[nodiscard]] std::string add(const nlohmann::json& items);

private:
  look how_;
  bool projects_ = false;
  bool queues_ = false;
  std::vector<std::size_t> widths_;
};

/// A table of workers, or a sentence where there is none.
[[nodiscard]] std::string workers_text(const nlohmann::json& items, look how);

/// A table of what a job kept, or a sentence where that is nothing.
[[nodiscard]] std::string artifacts_text(const nlohmann::json& items, look how);

/// A problem document (RFC 9457) with its fields, several lines. Anything else: the status, and what came as text.
[[nodiscard]] std::string problem_text(unsigned status, const std::string& body);

/// The node with its workers and counts.
[[nodiscard]] std::string node_text(const nlohmann::json& node, look how);

/// "step 2/4 build: running"; with state, exit code and time once it ended.
[[nodiscard]] std::string step_text(const nlohmann::json& step, std::size_t count);

} // namespace kcx::cli
