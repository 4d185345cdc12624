#include "storage/json_input.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kcx {

namespace {

constexpr std::size_t most_errors = 64;
constexpr std::size_t most_key_bytes = 64;

bool is_continuation(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

/// `key` cut to a bearable length, never inside a character, and escaped as RFC 6901 wants it.
std::string pointer_token(std::string_view key) {
  auto end = std::min(key.size(), most_key_bytes);
  while (end < key.size() && end > 0 && is_continuation(key[end]))
    --end;
  std::string token;
  for (auto c : key.substr(0, end)) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  if (end < key.size())
    token += "…";
  return token;
}

/// The length of the UTF-8 sequence that begins `text`, or 0 if it is malformed (table 3-7 of the Unicode standard).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80)
    return 1;
  const auto length = lead >= 0xC2 && lead <= 0xDF   ? 2U
                      : lead >= 0xE0 && lead <= 0xEF ? 3U
                      : lead >= 0xF0 && lead <= 0xF4 ? 4U
                                                     : 0U;
  if (length == 0 || text.size() < length)
    return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const auto low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const auto high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high)
    return 0;
  for (auto i = 2U; i < length; ++i)
    if (!is_continuation(text[i]))
      return 0;
  return length;
}

std::string seconds_text(std::chrono::milliseconds value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", static_cast<double>(value.count()) / 1000.0);
  return text;
}

} // namespace

std::string json_place::pointer() const {
  if (parent == nullptr)
    return std::string{key}; // the root's "key" is a ready-made prefix
  return parent->pointer() + "/" + pointer_token(key);
}

void json_errors::add(const json_place& at, std::string detail) {
  if (found_.size() < most_errors)
    found_.push_back({at.pointer(), std::move(detail)});
}

error json_errors::to_error() && {
  auto message = std::to_string(found_.size()) + " fields are wrong";
  if (found_.size() == 1)
    message = (found_[0].pointer.empty() ? "the document" : found_[0].pointer) + ' ' + found_[0].detail;
  return {ec::invalid_input, std::move(message), std::move(found_)};
}

bool is_clean_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto length = text[0] == '\0' ? 0 : sequence_length(text);
    if (length == 0)
      return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_plain_name(std::string_view text, std::string_view extra) noexcept {
  auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return !text.empty() && alphanumeric(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return alphanumeric(c) || extra.find(c) != std::string_view::npos;
  });
}

std::optional<std::string> read_text(json_errors& errors, const json_place& at, const nlohmann::json& value,
                                     std::size_t most) {
  const auto* text = value.get_ptr<const std::string*>();
  if (text == nullptr)
    errors.add(at, "must be a string");
  else if (text->size() > most)
    errors.add(at, "must have at most " + std::to_string(most) + " bytes");
  else if (!is_clean_text(*text))
    errors.add(at, "must be valid UTF-8 without a NUL character");
  else
    return *text;
  return std::nullopt;
}

std::optional<std::int64_t> whole_number(const nlohmann::json& value) noexcept {
  // Unsigned values beyond int64 would wrap in get<>: compare them as what they are.
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  if (value.is_number_integer())
    return value.get<std::int64_t>();
  // JSON does not tell 1.0 from 1. Beyond 2^53 a double is no certain number.
  constexpr double certain = 9'007'199'254'740'992.0;
  const auto number = value.is_number_float() ? value.get<double>() : certain;
  if (std::abs(number) >= certain || std::trunc(number) != number)
    return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<std::int64_t> read_whole(json_errors& errors, const json_place& at, const nlohmann::json& value,
                                       std::int64_t least, std::int64_t most) {
  if (const auto number = whole_number(value); number && *number >= least && *number <= most)
    return number;
  errors.add(at, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> read_seconds(json_errors& errors, const json_place& at,
                                                      const nlohmann::json& value, std::chrono::milliseconds least,
                                                      std::chrono::milliseconds most) {
  if (value.is_number()) {
    const auto millis = value.get<double>() * 1000.0;
    // Compared before the conversion: a double beyond int64 has no integer value.
    if (std::isfinite(millis) && millis >= static_cast<double>(least.count()) - 0.5 &&
        millis <= static_cast<double>(most.count()))
      return std::max(least, std::chrono::milliseconds{std::llround(millis)});
  }
  errors.add(at, "must be a number of seconds from " + seconds_text(least) + " to " + seconds_text(most));
  return std::nullopt;
}

std::optional<bool> read_bool(json_errors& errors, const json_place& at, const nlohmann::json& value) {
  if (value.is_boolean())
    return value.get<bool>();
  errors.add(at, "must be true or false");
  return std::nullopt;
}

std::optional<std::size_t> read_choice(json_errors& errors, const json_place& at, const nlohmann::json& value,
                                       const std::vector<std::string_view>& names) {
  if (const auto* text = value.get_ptr<const std::string*>()) {
    auto found = std::find(names.begin(), names.end(), *text);
    if (found != names.end())
      return static_cast<std::size_t>(found - names.begin());
  }
  std::string all;
  for (auto name : names)
    all += (all.empty() ? "" : ", ") + std::string{name};
  errors.add(at, "must be one of " + all);
  return std::nullopt;
}

std::size_t json_depth(const nlohmann::json& value, std::size_t most) noexcept {
  if (!value.is_structured() || most == 0)
    return 0;
  std::size_t deepest = 0;
  for (const auto& child : value)
    deepest = std::max(deepest, json_depth(child, most - 1));
  return deepest + 1;
}

} // namespace kcx
