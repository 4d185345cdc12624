/// Sends one webhook delivery. Blocks, so it runs on threads of its own; knows no actor.
#pragma once

#include "storage/webhook.hpp"

#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>

namespace kcx::http {

struct webhook_limits {
  /// For everything: name, connection, TLS, the answer's header.
  std::chrono::milliseconds timeout{10'000};
  std::stop_token stop{};
};

/// The Kcx-Signature field: "t=<seconds since the epoch>,v1=<HMAC-SHA256 of "<t>.<body>">". With the time in it, what
/// was overheard cannot be sent again later.
[[nodiscard]] std::string webhook_signature(std::string_view secret, timestamp now, std::string_view body);

/// POSTs the body with the fields Kcx-Event, Kcx-Delivery and, with a secret, Kcx-Signature. Follows no redirect.
/// Tells the answer's status, of whose body nothing is read, or why none came; what follows from it is the caller's.
[[nodiscard]] delivery_try post_webhook(const delivery& what, timestamp now, const webhook_limits& limits);

} // namespace kcx::http
