/// One HTTP request on its way through the node, and the way back for its answer.
///
/// Made on the server's io thread, answered by the bridge or the inspector. Knows neither Beast nor CAF.
#pragma once

#include "actors/http/message/message.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kcx {

namespace http {

/// Who asks, once that is known.
struct caller {
  /// 0: the admin token.
  std::int64_t token = 0;
  /// The token's name; "admin" for the admin token.
  std::string name = {};
  /// Of whom came by a browser's session: the digest of its cookie.
  std::string session = {};
  /// Of whom came by a one-time code: the digest of that.
  std::string code = {};
};

} // namespace http

/// `respond` may be called from any thread; the first call wins. False: another came before, or the client is gone (one
/// that leaves at this very moment is not noticed; the answer's receipt tells of it). Dropping the exchange without an
/// answer gives the client a 503 `outcome_unknown`. Copies are not needed: it travels by shared pointer.
struct http_exchange {
  http::request request;
  std::function<bool(http::response)> respond;
  /// Filled in by the bridge.
  http::caller who = {};
};

using http_exchange_ptr = std::shared_ptr<http_exchange>;

} // namespace kcx
