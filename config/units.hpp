/// Durations, sizes and addresses as people write them in settings, on command lines and in query parameters.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kcx {

/// Reads a number with a unit (ms, s, m, h, d) and nothing else: "500ms", "30s", "1.5m". A number alone is seconds.
/// Nothing for anything else, also for what is no whole number of milliseconds or longer than 1,000 days.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) noexcept;

/// The shortest form that parse_duration reads back: "90s", "1500ms", "2m".
[[nodiscard]] std::string format_duration(std::chrono::milliseconds duration);

/// Reads a size in bytes with an optional unit of 1024: "4096", "64K", "64M", "2G", also "64KiB" … Nothing for anything
/// else, also beyond 2^60.
[[nodiscard]] std::optional<std::int64_t> parse_size(std::string_view text) noexcept;

/// The shortest form that parse_size reads back.
[[nodiscard]] std::string format_size(std::int64_t bytes);

/// A whole decimal number from `low` to `high`, both included; no sign but "-", no blanks.
[[nodiscard]] std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t low,
                                                       std::int64_t high) noexcept;

/// Where a server listens: a numeric address and a port, 0 for a free one.
struct endpoint {
  /// "127.0.0.1" or "::1", without brackets.
  std::string address;
  std::uint16_t port = 0;

  bool operator==(const endpoint&) const = default;
};

/// Reads "127.0.0.1:7070" or "[::1]:7070". Host names are refused: which of their addresses is meant is unclear.
[[nodiscard]] std::optional<endpoint> parse_endpoint(std::string_view text);
[[nodiscard]] std::string to_string(const endpoint& where);

/// Whether only processes of this machine can reach the address (127.0.0.0/8, ::1).
[[nodiscard]] bool is_loopback(const endpoint& where) noexcept;

} // namespace kcx
