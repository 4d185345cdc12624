/// Tokens of the API as they are stored: by digest, never as they are.
#pragma once

#include "storage/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kcx {

/// What a token is made from. The digest is the caller's (http::token_digest()).
struct new_token {
  /// Unique among the tokens there are.
  std::string name;
  std::string digest;
  /// As http::to_string(scope) writes them. Stored in the database: never rename one.
  std::vector<std::string> scopes;
  std::string created_by;
  std::optional<timestamp> expires_at{};
  /// Requests per minute; without it as many as it likes.
  std::optional<std::int32_t> rate_limit{};
};

struct token_record {
  /// Never used again.
  std::int64_t id = 0;
  new_token what;
  timestamp created_at;
  /// Coarse: written once a minute at most, and lost with a crash.
  std::optional<timestamp> last_used_at{};
};

/// When tokens were used last, by id.
using token_uses = std::vector<std::pair<std::int64_t, timestamp>>;

} // namespace kcx
