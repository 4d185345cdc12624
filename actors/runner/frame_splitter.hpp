/// Frames on the socket between node and runner: a length of 4 bytes, big endian, then that many bytes.
#pragma once

#include "config/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kcx {

/// Largest frame of either direction, in bytes without the length. A job whose command and environment do not fit is
/// refused by encode().
inline constexpr std::size_t max_frame_bytes = 16U << 20;

/// Cuts a stream of bytes into frames. Not thread-safe.
class frame_splitter {
public:
  /// Adds bytes as they arrived.
  void feed(std::string_view bytes);

  /// The JSON of the next complete frame, nothing if more bytes are needed. The view holds until the next call of
  /// either function. Fails with ec::invalid_input once a frame is announced that is too large; the stream is lost
  /// then.
  [[nodiscard]] expected<std::optional<std::string_view>> next();

private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

} // namespace kcx
