/// Cuts a body into lines as it comes, holding no more of it than the last piece and the line that is not whole yet.
/// Not thread-safe; knows neither CAF nor Beast.
#pragma once

#include "actors/http/message/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::http {

/// One line of a body, without its end.
struct body_line {
  /// From 1; empty lines count.
  std::int64_t number = 0;
  std::string text;
  /// It is longer than allowed; `text` is empty.
  bool too_long = false;
};

/// Whether this asks for jobs to be submitted line by line (NDJSON): its body is to be streamed.
[[nodiscard]] bool is_line_upload(const request& ask);

class line_cutter {
public:
  /// `longest` is that of a line in bytes, its end not counted.
  explicit line_cutter(std::size_t longest) : longest_{longest} {}

  /// The next piece of the body; with `last` nothing more will come, and what is left is a line.
  void put(std::string_view bytes, bool last);

  /// The next line that is not empty; nothing until more is put. "\r\n" ends a line as well.
  [[nodiscard]] std::optional<body_line> next();

  /// Number of lines that were looked at so far.
  [[nodiscard]] std::int64_t lines() const noexcept { return number_; }

private:
  std::optional<body_line> cut();

  std::size_t longest_;
  std::string held_;
  std::size_t at_ = 0;
  std::int64_t number_ = 0;
  /// The line that is being read was too long long ago.
  bool skipping_ = false;
  bool last_ = false;
};

} // namespace kcx::http
