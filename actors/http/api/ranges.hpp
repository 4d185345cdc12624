/// Part of a resource instead of the whole (RFC 9110 §14), for logs and artifacts alike.
#pragma once

#include "actors/http/api/parameters.hpp"
#include "actors/http/message/message.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace kcx::http {

/// Makes a 206 of the answer and tells which bytes [first, second) to send. Without a value the range lies outside of
/// the `total` bytes of the resource, which `what` names, and the answer is the refusal.
[[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>>
make_partial(response& answer, byte_range range, std::uint64_t total, std::string_view what);

} // namespace kcx::http
