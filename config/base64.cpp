#include "config/base64.hpp"

#include <algorithm>
#include <cstdint>

namespace kcx {

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

} // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto here = bytes.substr(at, 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (i < here.size() ? static_cast<unsigned char>(here[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= here.size() ? alphabet[group >> (18U - 6U * i) & 63U] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t group = 0;
  std::size_t seen = 0;
  const auto end = std::min(text.find('='), text.size());
  for (const char c : text.substr(0, end)) {
    const auto value = alphabet.find(c);
    if (value == std::string_view::npos)
      return std::nullopt;
    group = group << 6U | static_cast<std::uint32_t>(value);
    if (++seen % 4 != 1)
      bytes += static_cast<char>(group >> ((4U - seen % 4) % 4 * 2U));
  }
  return to_base64(bytes) == text ? std::optional{bytes} : std::nullopt;
}

} // namespace kcx
