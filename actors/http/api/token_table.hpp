/// Who may call: all tokens in memory, and the check in front of routing.
///
/// Every request is looked up here on the io thread, before its body is read; the database is asked only when tokens
/// are made or removed. Knows digests, never a token. All members may be called from any thread.
#pragma once

#include "actors/http/api/routes.hpp"
#include "actors/http/message/exchange.hpp"
#include "actors/http/message/message.hpp"
#include "actors/http/server/server.hpp"
#include "storage/token.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace kcx::http {

/// The scopes that a token may have, in the order they are shown.
[[nodiscard]] const std::vector<scope>& token_scopes();
[[nodiscard]] std::optional<scope> parse_scope(std::string_view text) noexcept;

class token_table {
public:
  struct options {
    /// token_digest() of the admin token. An empty one admits nobody.
    std::string admin_digest;
    /// Requests per minute for tokens that say nothing of their own; 0: as many as they like. The admin token has no
    /// limit.
    std::int32_t rate_limit = 0;
    /// How long a browser's session lasts.
    std::chrono::milliseconds session_time = std::chrono::hours{12};
    /// How long a one-time code waits for its use.
    std::chrono::milliseconds code_time = std::chrono::minutes{1};
    /// Sessions are for TLS only.
    bool secure = false;
    std::function<timestamp()> clock = wall_clock_now;
  };

  explicit token_table(options what);

  // -- what there is -------------------------------------------------------------------------------------------------

  void add(const token_record& token);
  /// It is refused from now on, and so are the sessions and codes made with it.
  void remove(std::int64_t id);
  [[nodiscard]] std::vector<token_record> list() const;
  /// The tokens used since the last call.
  [[nodiscard]] token_uses take_uses();

  // -- checking ------------------------------------------------------------------------------------------------------

  /// The caller, or the 401 or 403 problem. A call of scope none has a caller without a name. `where` is null for a
  /// path that does not exist: it needs any valid token. Takes the same time for every wrong token.
  [[nodiscard]] std::variant<caller, response> check(const request& ask, const route* where) const;

  /// Whether this caller, once admitted, has lost the right to go on: the 401 if its token was removed or has expired,
  /// or its session ended. For whatever stays open: streams, and requests that wait.
  [[nodiscard]] std::optional<error> ended(const caller& who) const;

  /// For server_options::admit of a port with these routes: check(), and one request less of the token's rate: 429 if
  /// none is left.
  [[nodiscard]] admission admit(const request& ask, std::span<const route> routes = api_routes());

  /// The RateLimit fields for an answer to this token; none if it has no limit.
  [[nodiscard]] header_fields rate_fields(std::int64_t token) const;

  // -- browser sessions ----------------------------------------------------------------------------------------------

  struct one_time_code {
    std::string text;
    timestamp expires_at;
  };
  /// A code for a link: instead of a token it begins one session with the caller's rights, and does nothing else. Lost
  /// when the node stops. Like a session it comes of a token only: check() refuses those who come by a session.
  [[nodiscard]] one_time_code make_code(const caller& who);
  /// A new session with the rights of the token or code the request came with, as a Set-Cookie value. Lost
  /// when the node stops. unauthorized if another request was faster with the same code.
  [[nodiscard]] expected<std::string> begin_session(const caller& who);
  /// Ends the session of the request's cookie; the Set-Cookie value that makes the browser forget it.
  [[nodiscard]] std::string end_session(const request& ask);

private:
  struct entry {
    token_record token;
    std::uint32_t scopes = 0;
    /// Requests left in this minute; refilled evenly.
    double left = 0;
    timestamp refilled;
  };
  /// A session or a code, by its digest.
  struct pass {
    std::int64_t token = 0;
    timestamp ends;
  };
  using passes = std::unordered_map<std::string, pass>;

  /// Who is behind the request's header or cookie, but for the name. Nothing, with the reason, if nobody is.
  std::optional<caller> identify(const request& ask, bool begins_session, std::string& why) const;
  std::optional<caller> identify_session(const request& ask) const;
  std::optional<caller> identify_code(const std::string& digest) const;
  /// Adds one. Those that have ended go, and of one token's too many the one that ends first.
  void add_pass(passes& to, const std::string& text, const caller& who, timestamp ends) const;
  [[nodiscard]] bool has_expired(const entry& each) const;
  [[nodiscard]] std::int32_t limit_of(const entry& each) const;
  void refill(entry& each, timestamp now) const;

  const options options_;
  /// Browsers send cookies to every port of a host, so each node's has a name of its own, the same after a restart.
  const std::string cookie_name_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, entry> tokens_;
  std::unordered_map<std::string, std::int64_t> by_digest_;
  passes sessions_;
  passes codes_;
  mutable std::map<std::int64_t, timestamp> uses_;
};

} // namespace kcx::http
