#include "actors/cli/view/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace kcx::cli {

namespace {

bool continues(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

/// Bytes of the UTF-8 sequence at the beginning of `text`, 0 if there is none that is valid.
std::size_t sequence_size(std::string_view text) noexcept {
  auto lead = static_cast<unsigned char>(text.front());
  std::size_t size = lead < 0x80                   ? 1
                     : lead >= 0xC2 && lead < 0xE0 ? 2
                     : (lead & 0xF0U) == 0xE0      ? 3
                     : lead >= 0xF0 && lead < 0xF5 ? 4
                                                   : 0;
  if (size == 0 || text.size() < size)
    return 0;
  for (std::size_t i = 1; i < size; ++i)
    if (!continues(text[i]))
      return 0;
  return size;
}

std::string escaped(unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
}

template <class... Values>
std::string format(const char* form, Values... values) {
  std::array<char, 64> buffer{};
  auto size = std::snprintf(buffer.data(), buffer.size(), form, values...);
  return {buffer.data(), static_cast<std::size_t>(std::clamp(size, 0, 63))};
}

constexpr std::size_t least_width = 8;

void fit(std::vector<std::size_t>& widths, const std::vector<std::size_t>& flexible, std::size_t width) {
  auto total = [&] {
    std::size_t sum = widths.empty() ? 0 : 2 * (widths.size() - 1);
    for (auto each : widths)
      sum += each;
    return sum;
  };
  while (total() > width) {
    auto widest =
      std::max_element(flexible.begin(), flexible.end(), [&](auto a, auto b) { return widths[a] < widths[b]; });
    if (widest == flexible.end() || widths[*widest] <= least_width)
      return;
    --widths[*widest];
  }
}

std::string line_of(const std::vector<cell>& cells, const std::vector<std::size_t>& widths, bool colours) {
  std::string line;
  std::size_t blanks = 0;
  for (std::size_t i = 0; i < cells.size() && i < widths.size(); ++i) {
    auto text = shortened(cells[i].text, widths[i]);
    auto used = columns(text);
    if (used > 0)
      line += std::string(blanks, ' ') + painted(text, colours ? cells[i].paint : colour::none);
    blanks = (used > 0 ? 0 : blanks) + widths[i] - used + 2;
  }
  return line + '\n';
}

} // namespace

std::string visible(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    auto size = sequence_size(text);
    auto byte = static_cast<unsigned char>(text.front());
    const bool c1 = size == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (size == 0) {
      out += '?';
      size = 1;
    } else if (c1) {
      out += escaped(static_cast<unsigned char>(text[1]));
    } else if (byte < 0x20 || byte == 0x7F) {
      out += escaped(byte);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out;
}

std::size_t columns(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string shortened(std::string_view text, std::size_t width) {
  if (columns(text) <= width)
    return std::string{text};
  std::size_t end = 0;
  for (std::size_t shown = 0; end < text.size(); ++end)
    if (!continues(text[end]) && ++shown == std::max<std::size_t>(width, 1))
      break;
  return width == 0 ? std::string{} : std::string{text.substr(0, end)} + "…";
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    return "?";
  if (seconds < 59.95)
    return format("%.1f s", seconds);
  auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3'600)
    return format("%lld min %02lld s", whole / 60, whole % 60);
  if (whole < 86'400)
    return format("%lld h %02lld min", whole / 3'600, whole / 60 % 60);
  return format("%lld d %02lld h", whole / 86'400, whole / 3'600 % 24);
}

std::string counted(std::int64_t count, std::string_view what) {
  return std::to_string(count) + ' ' + std::string{what} + (count == 1 ? "" : "s");
}

std::string size_text(double bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit)
    bytes /= 1024;
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

std::string painted(std::string_view text, colour how) {
  constexpr std::array codes{"", "32", "31", "33", "34", "90"};
  if (how == colour::none)
    return std::string{text};
  return std::string{"\x1b["} + codes.at(static_cast<std::size_t>(how)) + "m" + std::string{text} + "\x1b[0m";
}

colour colour_of(std::string_view state) noexcept {
  if (state == "succeeded")
    return colour::green;
  if (state == "failed" || state == "timed_out")
    return colour::red;
  if (state == "cancelled" || state == "cancelling" || state == "interrupted")
    return colour::yellow;
  if (state == "running")
    return colour::blue;
  return state == "skipped" || state == "pending" ? colour::grey : colour::none;
}

std::vector<std::size_t> natural_widths(const table& what) {
  std::vector<std::size_t> widths;
  for (const auto& title : what.header)
    widths.push_back(columns(title));
  for (const auto& row : what.rows)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], columns(row[i].text));
  for (std::size_t i = 0; i < what.least.size() && i < widths.size(); ++i)
    widths[i] = std::max(widths[i], what.least[i]);
  return widths;
}

std::string render(const table& what, std::size_t width, bool colours) {
  auto widths = natural_widths(what);
  if (width > 0) {
    fit(widths, what.flexible, width);
    fit(widths, what.last_resort, width);
  }
  std::vector<cell> titles;
  for (const auto& title : what.header)
    titles.push_back({title, colour::grey});
  auto text = titles.empty() || !what.headed ? std::string{} : line_of(titles, widths, colours);
  for (const auto& row : what.rows)
    text += line_of(row, widths, colours);
  return text;
}

} // namespace kcx::cli
