/// Reads the log of an attempt as it grows, one request at a time, and knows where to go on after a broken connection:
/// also with time stamps, after a tail, and where the middle of the log was cut meanwhile.
#pragma once

#include "actors/cli/node_client.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::cli {

/// Which log, and how far it was read. Moved on by read_log().
struct log_place {
  std::int64_t job = 0;
  std::int32_t attempt = 1;
  bool timestamps = false;
  /// Begin so many lines before the end; of no effect once something was read.
  std::optional<std::uint64_t> tail{};
  /// The offset in the log behind what was read last, as the node counts.
  std::uint64_t offset = 0;
};

enum class log_result : std::uint8_t {
  /// The attempt is final and everything was read.
  ended,
  /// The connection broke, or the node cannot answer now: try again.
  broken,
  /// The attempt has no log (yet).
  missing,
  /// The node refused.
  refused,
  /// `write` said so.
  stopped,
};

/// Follows the log from its place until something of the above. `refusal` is what the node answered if it refused, or
/// cannot answer now.
[[nodiscard]] log_result read_log(node_client& node, log_place& place,
                                  const std::function<bool(std::string_view)>& write, reply& refusal);

} // namespace kcx::cli
