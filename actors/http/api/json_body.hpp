/// A request's body as JSON.
#pragma once

#include "actors/http/message/message.hpp"
#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace kcx::http {

/// What the bridge reads itself: other requests wait meanwhile, 20 ms or so for the most.
inline constexpr std::size_t largest_document = 2 * 1024 * 1024;

/// The document, or the problem that says why it is none: 415 for another Content-Type than application/json, 413 for
/// more than `most` bytes, 400 with line and column for broken JSON, or for one nested deeper than 64.
[[nodiscard]] std::variant<nlohmann::json, response> json_body(const request& ask, std::size_t most = largest_document);

/// The same for a call whose document may be left out: no body is an empty object, whatever its Content-Type.
[[nodiscard]] std::variant<nlohmann::json, response> optional_json_body(const request& ask);

/// The document in a text; invalid_input with line and column for broken JSON, or for one nested deeper than 64.
[[nodiscard]] expected<nlohmann::json> parse_json(std::string_view text);

/// The same of one line of a body: its column is told, and not that it is the first of its text.
[[nodiscard]] expected<nlohmann::json> parse_json_line(std::string_view text);

/// One line of JSON text; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_text(const nlohmann::json& document);

} // namespace kcx::http
