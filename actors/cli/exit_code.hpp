/// The exit codes of kcx. Unknown is never success.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace kcx::cli {

/// What kcx itself ends with when it is not a job's own code.
namespace exit_codes {
inline constexpr int success = 0;
inline constexpr int failed = 1;      ///< Something here failed, e.g. standard output was closed.
inline constexpr int usage = 2;       ///< The command line is wrong; nothing was sent.
inline constexpr int unreachable = 3; ///< The node did not answer: what became of the request or the job is unknown.
inline constexpr int refused = 4;     ///< The node answered with a problem.
} // namespace exit_codes

/// All of them with their meaning, for people: "128 + N", "signal N ended the job".
[[nodiscard]] std::vector<std::pair<std::string, std::string>> exit_code_table();

/// A member that is text; empty where there is none.
[[nodiscard]] std::string text_at(const nlohmann::json& object, const char* key);

/// Whether the job object's state is final.
[[nodiscard]] bool is_final(const nlohmann::json& job);

/// The code for a job object: the command's own; 128 + n for signal n; 1 for a failure without a code; 124 timed out,
/// 130 cancelled, 75 interrupted, 76 skipped. A job that is not final, or no job object at all, gives `unreachable`.
[[nodiscard]] int exit_code_of(const nlohmann::json& job);

} // namespace kcx::cli
