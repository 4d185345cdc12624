/// Looks for what is wrong, or soon will be, around a node: its data directory, its disk, its database, the machine's
/// clock, processes that were left behind. Changes nothing; works with and without a running node.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kcx::cli {

enum class verdict : std::uint8_t {
  ok,
  /// It works, but look at it.
  warn,
  /// The node cannot work like this, or not safely.
  fail,
};

struct finding {
  /// "data directory", "database" …
  std::string what;
  verdict how = verdict::ok;
  /// What was seen.
  std::string detail;
  /// What to do; empty where nothing is.
  std::string remedy;
};

/// What the node itself says; null where it does not run or was not asked.
struct node_answer {
  nlohmann::json node;
  /// The ids of jobs that run.
  std::vector<std::int64_t> running;
  /// /readyz said yes.
  bool ready = false;
  /// What /readyz said otherwise.
  std::string not_ready;
  /// Why there is no answer.
  std::string failure;
  /// Nothing was sent, as its address or its token cannot be read.
  bool not_asked = false;
};

/// Every check, in an order that begins with what the others rest on.
[[nodiscard]] std::vector<finding> examine_node(const std::filesystem::path& data, const node_answer& answer);

} // namespace kcx::cli
