/// Query parameters and headers of the API's calls, read into values. Pure functions; every failure is an
/// ec::invalid_input whose message names the parameter, its value and what is allowed.
#pragma once

#include "actors/http/message/message.hpp"
#include "config/error.hpp"
#include "storage/job_reader.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kcx::http {

/// Refuses a parameter that is given twice: which of the values counts would be anybody's guess.
[[nodiscard]] outcome refuse_repeated(const request& ask);

/// What is told where a stream shall go on at what is no number; `parameter` says the same as Last-Event-ID.
[[nodiscard]] error wrong_position(std::string_view parameter, std::string_view value);

/// "500ms", "30s", "2m" or plain seconds; 0 to 5 minutes.
[[nodiscard]] expected<std::chrono::milliseconds> parse_wait(std::string_view text);

/// `state`, `project`, `queue`, `name`, `label`, `limit` (1 to 1,000), `cursor`. An empty value does not filter.
[[nodiscard]] expected<job_filter> parse_filter(const request& ask);

/// `job`, `state`, `limit` (1 to 1,000), `cursor`, likewise.
[[nodiscard]] expected<delivery_filter> parse_delivery_query(const request& ask);

/// The target of the next page: the same parameters with another cursor.
[[nodiscard]] std::string next_page(const request& ask, job_id next);

/// One range of a Range header as it was asked for.
struct byte_range {
  /// Without it the last `last` bytes are meant.
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> last;
};

/// Nothing for a unit other than bytes, several ranges or a malformed value: such a header is ignored (RFC 9110 §14.2).
/// The case of the unit does not count.
[[nodiscard]] std::optional<byte_range> parse_range(std::string_view value) noexcept;

/// The bytes [first, second) of a resource of `total` bytes; nothing if the range lies outside of it (416).
[[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> resolve(byte_range range,
                                                                             std::uint64_t total) noexcept;

/// What is asked of a log.
struct log_query {
  /// 0: the latest.
  std::int32_t attempt = 0;
  bool follow = false;
  /// As server-sent events; implies `follow`.
  bool events = false;
  bool timestamps = false;
  /// Only so many lines from the end.
  std::optional<std::uint64_t> tail;
  /// Of events: a piece that is no UTF-8 comes as base64, so that no byte is changed.
  bool exact = false;
  /// Where to begin: `offset`, or for events the Last-Event-ID header.
  std::uint64_t offset = 0;
  std::optional<byte_range> range;
  std::string if_range;
};

/// What is asked of a job's artifacts.
struct artifact_query {
  /// 0: the latest.
  std::int32_t attempt = 0;
  /// Of a file or directory; empty: all.
  std::string path;
  std::optional<byte_range> range;
  std::string if_range;
  std::string if_none_match;
};

[[nodiscard]] expected<artifact_query> parse_artifact_query(const request& ask, std::string path);

[[nodiscard]] expected<log_query> parse_log_query(const request& ask);

} // namespace kcx::http
