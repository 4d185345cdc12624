#include "actors/http/message/host_policy.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <charconv>

namespace kcx::http {

namespace {

constexpr std::string_view shared_fields =
  "Access-Control-Allow-Credentials: true\r\n"
  "Access-Control-Expose-Headers: Content-Range, ETag, Idempotency-Replayed, Link, Location, RateLimit-Limit, "
  "RateLimit-Remaining, RateLimit-Reset, Retry-After\r\n";

constexpr std::string_view sent_fields =
  "Authorization, Cache-Control, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Range";

} // namespace

std::optional<host_and_port> split_authority(std::string_view authority) {
  host_and_port result;
  std::string_view rest;
  if (authority.substr(0, 1) == "[") {
    auto close = authority.find(']');
    if (close == std::string_view::npos)
      return std::nullopt;
    result.name = authority.substr(1, close - 1);
    rest = authority.substr(close + 1);
  } else {
    auto colon = std::min(authority.find(':'), authority.size());
    result.name = authority.substr(0, colon);
    rest = authority.substr(colon);
  }
  if (result.name.empty() || result.name.find_first_of("@/ \t") != std::string_view::npos)
    return std::nullopt;
  if (rest.empty())
    return result;
  if (rest.front() != ':')
    return std::nullopt;
  rest.remove_prefix(1);
  std::uint16_t port = 0;
  auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  if (problem != std::errc{} || end != rest.data() + rest.size())
    return std::nullopt;
  result.port = port;
  return result;
}

bool is_loopback_name(std::string_view name) {
  if (!name.empty() && name.back() == '.')
    name.remove_suffix(1);
  if (same_text(name, "localhost"))
    return true;
  boost::system::error_code ec;
  auto address = boost::asio::ip::make_address(std::string{name}, ec);
  return !ec && address.is_loopback();
}

bool host_policy::host_allowed(std::string_view authority) const {
  auto host = split_authority(authority);
  if (!host)
    return false;
  std::uint16_t default_port = settings_.tls ? 443 : 80;
  auto port = host->port.value_or(default_port);
  if (port == settings_.port && is_loopback_name(host->name))
    return true;
  for (std::string_view allowed : settings_.allowed_hosts) {
    auto entry = split_authority(allowed);
    if (entry && same_text(entry->name, host->name) && entry->port.value_or(port) == port)
      return true;
  }
  return !settings_.loopback && settings_.allowed_hosts.empty();
}

// A browser's own page: the origin is this server under the very name the request used, which was checked before.
bool host_policy::origin_allowed(std::string_view origin, std::string_view authority) const {
  std::string_view scheme = settings_.tls ? "https://" : "http://";
  if (same_text(origin.substr(0, scheme.size()), scheme) && same_text(origin.substr(scheme.size()), authority))
    return true;
  return origin_named(origin);
}

bool host_policy::origin_named(std::string_view origin) const {
  return std::ranges::any_of(settings_.allowed_origins,
                             [&](const std::string& allowed) { return same_text(allowed, origin); });
}

std::optional<response> host_policy::check(std::string_view authority, const header_fields& headers) const {
  if (!authority.empty() && !host_allowed(authority))
    return problem(kinds::misdirected_request,
                   "This server does not answer for the host \"" + std::string{authority} +
                     "\". Use its own address, or allow the name by the setting allow-host.");
  if (headers.count("Origin") > 1)
    return problem(kinds::foreign_origin, "There is more than one Origin field.");
  if (auto origin = headers.find("Origin"); origin && !origin_allowed(*origin, authority))
    return problem(kinds::foreign_origin, "Pages of \"" + std::string{*origin} +
                                            "\" may not use this server, unless the setting allow-origin names it.");
  return std::nullopt;
}

std::string host_policy::sharing_fields(const header_fields& headers) const {
  if (settings_.allowed_origins.empty())
    return {};
  // Also to who names no origin: a cache must not give that answer to a page.
  std::string lines = "Vary: Origin\r\n";
  if (auto origin = headers.find("Origin"); origin && origin_named(*origin))
    lines.append("Access-Control-Allow-Origin: ").append(*origin).append("\r\n").append(shared_fields);
  return lines;
}

std::optional<response> host_policy::preflight(std::string_view method, const header_fields& headers) const {
  const auto origin = headers.find("Origin");
  if (method != "OPTIONS" || !origin || !origin_named(*origin) || !headers.find("Access-Control-Request-Method"))
    return std::nullopt;
  response answer;
  answer.status = 204;
  answer.headers.add("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
  answer.headers.add("Access-Control-Allow-Headers", sent_fields);
  answer.headers.add("Access-Control-Max-Age", "600");
  return answer;
}

} // namespace kcx::http
