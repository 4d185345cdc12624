/// Problem documents (RFC 9457): the one way KCX says over HTTP that something went wrong, on both ports.
///
/// Two tables make all of them: one row per ec (config/error.hpp), and one row per thing that can be wrong with HTTP
/// itself. `code` is what programs test; `title` never varies; `detail` says what happened this time.
#pragma once

#include "actors/http/message/message.hpp"
#include "config/error.hpp"

#include <chrono>
#include <span>
#include <string_view>
#include <vector>

namespace kcx::http {

/// A row of either table. `retry_after` is sent where it is not zero: the request may be sent again unchanged.
struct problem_kind {
  std::string_view code;
  unsigned status;
  std::string_view title;
  std::chrono::seconds retry_after{0};
};

/// Wrong with HTTP itself, found by the server or the router. Each comment is the cause.
namespace kinds {
using namespace std::chrono_literals;
/// The bytes are no HTTP/1.1 request, or one that two readers could understand differently.
inline constexpr problem_kind malformed_request{"malformed_request", 400, "Malformed request"};
/// The body is not what its Content-Type says, e.g. broken JSON.
inline constexpr problem_kind malformed_body{"malformed_body", 400, "Malformed body"};
/// A query parameter has a value that is not allowed.
inline constexpr problem_kind invalid_parameter{"invalid_parameter", 400, "Invalid query parameter"};
/// A browser sent it from a page of another origin.
inline constexpr problem_kind foreign_origin{"foreign_origin", 403, "Origin not allowed"};
/// No route has this path.
inline constexpr problem_kind unknown_path{"unknown_path", 404, "No such path"};
/// The path exists, but not for this method; the Allow header names those it has.
inline constexpr problem_kind method_not_allowed{"method_not_allowed", 405, "Method not allowed"};
/// The header did not arrive within its time, or the body came too slowly.
inline constexpr problem_kind request_timeout{"request_timeout", 408, "Request took too long"};
/// The body is longer than this call takes.
inline constexpr problem_kind body_too_large{"body_too_large", 413, "Body too large"};
/// The request line is too long.
inline constexpr problem_kind target_too_long{"target_too_long", 414, "Request target too long"};
/// The call does not take this Content-Type, or the Content-Encoding is another than identity.
inline constexpr problem_kind unsupported_media_type{"unsupported_media_type", 415, "Unsupported media type"};
/// The Range does not overlap the resource.
inline constexpr problem_kind range_not_satisfiable{"range_not_satisfiable", 416, "Range not satisfiable"};
/// An Expect header other than 100-continue.
inline constexpr problem_kind expectation_failed{"expectation_failed", 417, "Expectation failed"};
/// The Host header names another server than this one.
inline constexpr problem_kind misdirected_request{"misdirected_request", 421, "Wrong host"};
/// The token has used up its rate.
inline constexpr problem_kind rate_limited{"rate_limited", 429, "Too many requests", 1s};
/// Header fields too long or too many.
inline constexpr problem_kind header_too_large{"header_too_large", 431, "Header too large"};
/// As many connections are open, or bodies in memory, as the server allows.
inline constexpr problem_kind overloaded{"overloaded", 503, "Overloaded", 1s};
/// Another version than HTTP/1.0 and 1.1.
inline constexpr problem_kind unsupported_version{"unsupported_version", 505, "HTTP version not supported"};
} // namespace kinds

/// The row of an error code. ec::none has one too: answering with it is a bug, shown as an internal error.
[[nodiscard]] const problem_kind& kind_of(ec code) noexcept;

/// The rows of both tables that a client can be answered with: those that docs/http_api.md describes.
[[nodiscard]] std::vector<problem_kind> all_problem_kinds();

/// The response: status, application/problem+json, Retry-After and (401) WWW-Authenticate where they belong.
/// Invalid UTF-8 in `detail` and `fields` is replaced.
[[nodiscard]] response problem(const problem_kind& kind, std::string_view detail,
                               std::span<const field_error> fields = {});
[[nodiscard]] response problem(ec code, std::string_view detail, std::span<const field_error> fields = {});
[[nodiscard]] response problem(const error& failure);

} // namespace kcx::http
