#include "actors/http/api/json_body.hpp"

#include "actors/http/message/problem.hpp"

#include <algorithm>

namespace kcx::http {

namespace {

constexpr std::size_t deepest = 64;

/// How deep arrays and objects are nested, brackets inside strings left out. Checked before parsing, since what is
/// written out again later is written by recursion.
std::size_t nesting(std::string_view text) noexcept {
  std::size_t depth = 0;
  std::size_t most = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inside = false;
    } else if (c == '"') {
      inside = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return most;
}

/// nlohmann's words without its own error number: "[json.exception.parse_error.101] parse error at line 1, …".
std::string words_of(const nlohmann::json::parse_error& failure) {
  std::string text = failure.what();
  if (const auto at = text.find("] "); at != std::string::npos)
    text.erase(0, at + 2);
  return text;
}

} // namespace

expected<nlohmann::json> parse_json(std::string_view text) {
  if (nesting(text) > deepest)
    return error{ec::invalid_input, "the JSON is nested deeper than 64 levels", {}};
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& failure) {
    return error{ec::invalid_input, words_of(failure), {}};
  } catch (const nlohmann::json::out_of_range&) {
    // Its text would repeat the number, however many digits that has.
    return error{ec::invalid_input, "a number of the JSON is too large to be represented", {}};
  }
}

expected<nlohmann::json> parse_json_line(std::string_view text) {
  auto document = parse_json(text);
  if (document)
    return document;
  auto failure = std::move(document).error();
  // Its own number would stand beside that of the line in the body, and be another one.
  constexpr std::string_view only_line = "line 1, ";
  if (const auto at = failure.message.find(only_line); at != std::string::npos)
    failure.message.erase(at, only_line.size());
  return failure;
}

std::variant<nlohmann::json, response> json_body(const request& ask, std::size_t most) {
  const auto type = ask.headers.find("Content-Type");
  const auto name = type ? trimmed(type->substr(0, type->find(';'))) : std::string_view{};
  if (!same_text(name, "application/json"))
    return problem(kinds::unsupported_media_type, "send the body with Content-Type: application/json");
  if (ask.body.size() > most)
    return problem(kinds::body_too_large,
                   "this call takes documents of " + std::to_string(most) + " bytes at the most; send several");
  auto document = parse_json(ask.body);
  if (!document)
    return problem(kinds::malformed_body, document.error().message);
  return *std::move(document);
}

std::variant<nlohmann::json, response> optional_json_body(const request& ask) {
  if (ask.body.empty())
    return nlohmann::json::object();
  return json_body(ask);
}

std::string json_text(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace kcx::http
