/// Who may call: the check in front of routing.
#pragma once

#include "actors/http/message.hpp"
#include "actors/http/server.hpp"

#include <optional>
#include <string>

namespace kcx::http {

/// Knows the digest of the admin token, never the token. Copies are independent; const members from any thread.
class token_check {
public:
  /// `digest` as token_digest() makes it. An empty one admits nobody.
  explicit token_check(std::string digest) : digest_{std::move(digest)} {}

  /// The 401 problem for a request that needs a token and has no valid one; nothing if it may go on. Takes the same
  /// time for every wrong token.
  [[nodiscard]] std::optional<response> refuse(const request& ask) const;

  /// For server_options::admit: refuses before the body is read, so that nobody without a token fills memory.
  [[nodiscard]] admission admit(const request& ask) const { return {refuse(ask), std::nullopt}; }

private:
  std::string digest_;
};

} // namespace kcx::http
