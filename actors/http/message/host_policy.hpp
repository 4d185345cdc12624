/// Decides from Host and Origin whether a request was meant for this server, so that a web page open in the user's
/// browser reaches neither port of a node; and lets the pages of allowed origins read the answers (the CORS protocol,
/// https://fetch.spec.whatwg.org/#http-cors-protocol). Pure; used by session.cpp.
#pragma once

#include "actors/http/message/message.hpp"
#include "actors/http/message/problem.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::http {

class host_policy {
public:
  struct settings {
    bool loopback = true;
    bool tls = false;
    std::uint16_t port = 0;
    std::vector<std::string> allowed_hosts;
    std::vector<std::string> allowed_origins;
  };

  explicit host_policy(settings s) : settings_{std::move(s)} {}

  /// `authority` is what the client calls the server ("localhost:7070"); empty for an HTTP/1.0 client without Host,
  /// which no browser is. Returns the problem to answer, nothing if the request is welcome: misdirected_request for
  /// a foreign name, foreign_origin for a page of another origin.
  [[nodiscard]] std::optional<response> check(std::string_view authority, const header_fields& headers) const;

  /// What every answer to a request with these fields carries besides its own: header lines, each ending in CR LF, by
  /// which a browser lets the page that asked read it. Empty unless an origin is allowed.
  [[nodiscard]] std::string sharing_fields(const header_fields& headers) const;

  /// The answer to a browser's question, sent ahead and without a token, whether a page of an allowed origin may send
  /// a request of its kind; nothing if this is no such question.
  [[nodiscard]] std::optional<response> preflight(std::string_view method, const header_fields& headers) const;

private:
  [[nodiscard]] bool host_allowed(std::string_view authority) const;
  [[nodiscard]] bool origin_named(std::string_view origin) const;
  [[nodiscard]] bool origin_allowed(std::string_view origin, std::string_view authority) const;

  settings settings_;
};

/// Splits "name", "name:port", "[v6]" or "[v6]:port". The name keeps no brackets. Nothing if it is none of these.
struct host_and_port {
  std::string_view name;
  std::optional<std::uint16_t> port;
};
[[nodiscard]] std::optional<host_and_port> split_authority(std::string_view authority);

/// "localhost" (also with a final dot), 127.0.0.0/8 or ::1.
[[nodiscard]] bool is_loopback_name(std::string_view name);

} // namespace kcx::http
