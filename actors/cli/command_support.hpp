/// What the commands share: calling the node, telling what went wrong, and their exit codes.
#pragma once

#include "actors/cli/follow/follow.hpp"
#include "actors/cli/line/command_line.hpp"
#include "actors/cli/node_client.hpp"
#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::cli {

/// "/v1/jobs/12".
[[nodiscard]] std::string job_target(std::int64_t id);

/// As --json prints it.
[[nodiscard]] std::string dumped(const nlohmann::json& document);

/// Flushes standard output. If that cannot be written, nobody sees the result: this is told, and success becomes a
/// failure.
[[nodiscard]] int flushed(int code);
/// The same, and tells the numbers of jobs that were made and whose answers could not be printed.
[[nodiscard]] int flushed_or_told(int code, const nlohmann::json& made);

/// Tells what is wrong on standard error, with --json as a problem document; the exit code for it.
int tell(const invocation& what, const error& failure);
int tell(const invocation& what, const reply& refusal);
/// The same where there is no invocation, as the command line could not be read.
int tell(bool as_json, const error& failure);

/// The node went away while a job was followed, or says nothing about it any more: what becomes of the job is unknown.
int tell_lost(const invocation& what, std::int64_t id, const error& lost);
int tell_lost(const invocation& what, std::int64_t id, reply refusal);
/// Why following ended, if not with the job's end; the exit code, otherwise the job's. A refusal about a job that is
/// known to be there (it was `accepted`, or seen) does not mean that nothing was done.
int tell_follow_end(const invocation& what, std::int64_t id, const follow_result& end, bool accepted);

/// A call that must succeed; on failure its exit code is set and nothing is given.
[[nodiscard]] std::optional<nlohmann::json> get_or_tell(const invocation& what, node_client& node,
                                                        std::string_view method, const std::string& target, int& code,
                                                        const nlohmann::json& body = nullptr);

/// The same call for each number of the command line.
struct each_call {
  std::string_view method;
  std::function<std::string(std::int64_t)> target;
  nlohmann::json body = nullptr;
  /// The answer as a line.
  std::function<std::string(std::int64_t, const nlohmann::json&)> line;
  /// What --json prints where the answer has no body: {"id":3,"removed":true}.
  const char* done = "done";
  /// Each answer is a job that was made.
  bool makes_jobs = false;
};
/// Prints one line each, or with --json one document, or several as items; the exit code.
int for_each_id(const invocation& what, const each_call& each);

/// One call that is about no numbers; prints its answer as JSON, or `line` of it. The exit code.
int once(const invocation& what, std::string_view method, const std::string& target, const nlohmann::json& body,
         const std::function<std::string(const nlohmann::json&)>& line);

} // namespace kcx::cli
