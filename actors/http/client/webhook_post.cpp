#include "actors/http/client/webhook_post.hpp"

#include "actors/http/client/client.hpp"
#include "actors/http/message/auth.hpp"

namespace kcx::http {

namespace {

/// Path and query of an address; "/" if it has none.
std::string target_of(std::string_view url) {
  const auto rest = url.substr(url.find("://") + 3);
  const auto at = rest.find_first_of("/?");
  if (at == std::string_view::npos)
    return "/";
  return (rest[at] == '?' ? "/" : "") + std::string{rest.substr(at)};
}

} // namespace

std::string webhook_signature(std::string_view secret, timestamp now, std::string_view body) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  auto time = std::to_string(seconds);
  auto signature = hmac_sha256(secret, time + "." + std::string{body});
  return "t=" + std::move(time) + ",v1=" + std::move(signature);
}

delivery_try post_webhook(const delivery& what, timestamp now, const webhook_limits& limits) {
  client_options options;
  options.url = what.url;
  options.connect_timeout = limits.timeout;
  options.stop = limits.stop;
  auto opened = client::open(std::move(options));
  delivery_try result;
  result.id = what.id;
  if (!opened) {
    // Only an address can be wrong here, and only one that an earlier version took.
    result.failure = "\"" + what.url + "\" is no address that anything can be sent to";
    return result;
  }
  client_request ask;
  ask.method = "POST";
  ask.target = target_of(what.url);
  ask.headers.add("Content-Type", "application/json");
  ask.headers.add("Connection", "close");
  ask.headers.add("Kcx-Event", "job." + std::string{to_string(what.event)});
  ask.headers.add("Kcx-Delivery", std::to_string(what.id));
  if (!what.secret.empty())
    ask.headers.add("Kcx-Signature", webhook_signature(what.secret, now, what.body));
  ask.body = what.body;
  ask.timeout = limits.timeout;
  ask.head_only = true; // However long or slow the rest is, the receiver has said how it went.
  const auto answer = (*opened)->request(ask);
  if (answer)
    result.status = static_cast<std::int32_t>(answer->status);
  else
    result.failure = answer.error().message;
  return result;
}

} // namespace kcx::http
