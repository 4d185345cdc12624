#include "actors/http/logs/log_encoding.hpp"

#include "actors/http/api/json_body.hpp"
#include "config/base64.hpp"
#include "storage/time.hpp"

#include <algorithm>
#include <tuple>

namespace kcx::http {

namespace {

constexpr std::size_t window_size = 256;

bool is_utf8(std::string_view text) {
  try {
    std::ignore = nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

} // namespace

expected<std::string> line_stamper::stamp(const log_reader& reader, std::string_view bytes, std::uint64_t offset) {
  if (!begun_ || offset != next_offset_) {
    if (auto begun = begin(reader, offset); !begun)
      return std::move(begun).error();
  }
  std::string result;
  result.reserve(bytes.size() + bytes.size() / 2);
  while (!bytes.empty()) {
    if (line_begins_) {
      if (auto found = seek(reader, offset); !found)
        return std::move(found).error();
      result += time_;
    }
    const auto end = bytes.find('\n');
    const auto size = end == std::string_view::npos ? bytes.size() : end + 1;
    line_begins_ = end != std::string_view::npos;
    result += bytes.substr(0, size);
    bytes.remove_prefix(size);
    offset += size;
  }
  next_offset_ = offset;
  return result;
}

outcome line_stamper::begin(const log_reader& reader, std::uint64_t offset) {
  begun_ = true;
  line_begins_ = true;
  window_.clear();
  at_ = 0;
  if (offset > 0) {
    const auto before = reader.read(offset - 1, 1);
    if (!before)
      return before.error();
    // Where a gap ends, what follows counts as a new line.
    line_begins_ = before->offset != offset - 1 || before->bytes == "\n";
  }
  return done{};
}

outcome line_stamper::seek(const log_reader& reader, std::uint64_t offset) {
  const auto covers = [offset](const log_record& each) {
    return each.offset <= offset && offset < each.offset + each.length;
  };
  for (; at_ < window_.size(); ++at_) {
    if (covers(window_[at_].record))
      break;
  }
  if (at_ == window_.size()) {
    const auto number = reader.record_at(offset);
    if (!number)
      return number.error();
    auto records = reader.records(*number, window_size);
    if (!records)
      return std::move(records).error();
    window_ = std::move(*records);
    at_ = 0;
  }
  if (at_ < window_.size())
    time_ = to_rfc3339(timestamp{std::chrono::milliseconds{window_[at_].record.time_ms}}) + " ";
  return done{};
}

std::size_t incomplete_utf8(std::string_view text) noexcept {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U)
      continue; // In the middle of a sequence: its first byte is further back.
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

std::string log_event(std::string_view text, std::uint64_t next, bool exact) {
  const auto data =
    exact && !is_utf8(text) ? nlohmann::json{{"base64", to_base64(text)}} : nlohmann::json{{"text", text}};
  return "id: " + std::to_string(next) + "\ndata: " + json_text(data) + "\n\n";
}

std::string end_event(std::string_view document, std::uint64_t next) {
  return "id: " + std::to_string(next) + "\nevent: end\ndata: " + std::string{document} + "\n\n";
}

} // namespace kcx::http
