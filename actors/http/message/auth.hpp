/// Bearer tokens: making, reading from a header and comparing. Knows no store and no scope.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kcx::http {

/// Whether both are equal, in time that depends on their sizes only.
[[nodiscard]] bool constant_time_equal(std::string_view a, std::string_view b) noexcept;

/// The token of an Authorization value "Bearer <token>" (RFC 6750); nothing for another scheme or a token with
/// characters outside b64token.
[[nodiscard]] std::optional<std::string_view> bearer_token(std::string_view authorization) noexcept;

/// A new token: 32 bytes of the kernel's randomness as 64 lower-case hex digits. Throws std::system_error if the
/// kernel has none, which does not happen on a running system.
[[nodiscard]] std::string make_token();

/// SHA-256 of a token as 64 hex digits: how tokens are stored.
[[nodiscard]] std::string token_digest(std::string_view token);

/// HMAC-SHA256 of a text as 64 hex digits.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view text);

} // namespace kcx::http
