/// Base64 as in RFC 4648, with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kcx {

[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Nothing for what to_base64() does not make.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

} // namespace kcx
