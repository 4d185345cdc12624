/// What becomes of a log's bytes on their way out: time stamps before lines, server-sent events around pieces.
#pragma once

#include "storage/log_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::http {

/// Puts "2026-01-31T12:00:00.000Z " before each line: the time at which the line's first byte was read.
/// Begins in the middle of a line where that is where `offset` lies. One thread at a time.
class line_stamper {
public:
  /// `bytes` lie at `offset`; pieces come in order. Fails with ec::storage_failed.
  [[nodiscard]] expected<std::string> stamp(const log_reader& reader, std::string_view bytes, std::uint64_t offset);

private:
  outcome begin(const log_reader& reader, std::uint64_t offset);
  outcome seek(const log_reader& reader, std::uint64_t offset);

  bool begun_ = false;
  bool line_begins_ = true;
  std::uint64_t next_offset_ = 0;
  std::vector<numbered_record> window_;
  std::size_t at_ = 0;
  std::string time_;
};

/// How many bytes at the end of `text` are the beginning of a UTF-8 sequence that is not complete: 0 to 3.
[[nodiscard]] std::size_t incomplete_utf8(std::string_view text) noexcept;

/// `id: <next>`, `data: {"text": …}`: bytes that are no UTF-8 become U+FFFD, or with `exact` the data is
/// `{"base64": …}` then.
[[nodiscard]] std::string log_event(std::string_view text, std::uint64_t next, bool exact);

/// `event: end` with a document of one line.
[[nodiscard]] std::string end_event(std::string_view document, std::uint64_t next);

} // namespace kcx::http
