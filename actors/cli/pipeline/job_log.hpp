/// The log of a job that has ended, among those of others.
#pragma once

#include "actors/cli/node_client.hpp"
#include "actors/cli/view/screen.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::cli {

/// Puts "name | " before every line, however the bytes come.
class line_prefixer {
public:
  explicit line_prefixer(std::string_view name) : prefix_{std::string{name} + " | "} {}
  [[nodiscard]] std::string take(std::string_view piece);
  /// The end of a last line that has none.
  [[nodiscard]] std::string_view end() noexcept;

private:
  std::string prefix_;
  bool at_begin_ = true;
};

/// Writes the log of the final job to the screen: the last `tail` lines of its last attempt, or all of every attempt. A
/// connection that breaks is made again for `patience` and the log continued. False if something is missing.
[[nodiscard]] bool print_job_log(node_client& node, const nlohmann::json& job, const std::string& name,
                                 std::optional<std::uint64_t> tail, std::chrono::milliseconds patience, screen& out);

} // namespace kcx::cli
