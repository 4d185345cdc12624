#include "actors/runner/frame_splitter.hpp"

namespace kcx {

void frame_splitter::feed(std::string_view bytes) {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_ += bytes;
}

expected<std::optional<std::string_view>> frame_splitter::next() {
  const auto rest = std::string_view{buffer_}.substr(begin_);
  if (rest.size() < 4)
    return std::optional<std::string_view>{};
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size = (size << 8) | static_cast<unsigned char>(rest[i]);
  if (size > max_frame_bytes)
    return error{ec::invalid_input, "a frame of " + std::to_string(size) + " bytes is too large", {}};
  if (rest.size() - 4 < size)
    return std::optional<std::string_view>{};
  begin_ += 4 + size;
  return std::optional{rest.substr(4, size)};
}

} // namespace kcx
