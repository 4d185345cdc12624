/// Instants as KCX stores and shows them. No actor, no SQL.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace kcx {

/// A wall-clock instant, UTC. The database holds it as integer milliseconds since the epoch, JSON as RFC 3339.
using timestamp = std::chrono::sys_time<std::chrono::milliseconds>;

/// Now by the system clock. Only the mains and the actors' clock call it; storage is always told the time.
[[nodiscard]] timestamp wall_clock_now();

/// Time since the machine started, sleep included: no setting of the wall clock moves it. For the actors that own
/// leases.
[[nodiscard]] std::chrono::nanoseconds boot_time_now();

/// "2026-01-31T12:00:00.000Z".
[[nodiscard]] std::string to_rfc3339(timestamp at);

/// Reads RFC 3339 with "Z" or a numeric offset; fractions beyond milliseconds are cut. Nothing if malformed or, in UTC,
/// outside of the years 0000 to 9999: whatever is read can be written by to_rfc3339() and read again.
[[nodiscard]] std::optional<timestamp> parse_rfc3339(std::string_view text);

} // namespace kcx
