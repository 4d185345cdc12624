/// Compressing response bodies (RFC 9110 §8.4, gzip). Pure; knows no transport.
#pragma once

#include "actors/http/message/message.hpp"

#include <string>
#include <string_view>

namespace kcx::http {

/// Whether an Accept-Encoding value allows gzip: by name or by "*", with a weight that is not 0.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding) noexcept;

/// The text as one gzip member. Throws std::bad_alloc.
[[nodiscard]] std::string gzipped(std::string_view text);

/// Compresses a JSON body that is worth it (from 1 KiB on) and says so in the header. Leaves all others alone: streams,
/// other types, small ones.
void compress(response& answer);

} // namespace kcx::http
