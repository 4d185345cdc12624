/// Stands between a server's handler and the actor that answers: the actor may be restarted, the server stays.
#pragma once

#include "actors/http/message/exchange.hpp"
#include "actors/http/message/problem.hpp"
#include "actors/interfaces.hpp"

#include <caf/send.hpp>

#include <memory>
#include <mutex>
#include <utility>

namespace kcx::http {

/// `Handle` is http_bridge_actor or inspector_actor. All members may be called from any thread. Give the server
/// `[gate](request r, responder way_back) { gate->handle(std::move(r), std::move(way_back)); }`.
template <class Handle>
class gate {
public:
  /// From now on requests go to this actor.
  void open(Handle to) {
    const std::lock_guard lock{mutex_};
    to_ = std::move(to);
  }

  /// From now on requests are answered 503; /healthz still tells that the process lives.
  void close() {
    const std::lock_guard lock{mutex_};
    to_ = Handle{};
  }

  /// To whom requests go now; an invalid handle while it is closed.
  [[nodiscard]] Handle now() {
    const std::lock_guard lock{mutex_};
    return to_;
  }

  void handle(request ask, responder way_back) {
    if (const auto to = now()) {
      auto exchange = std::make_shared<http_exchange>(http_exchange{std::move(ask), std::move(way_back)});
      caf::anon_send(to, http_atom_v, http_exchange_ptr{std::move(exchange)});
    } else if (ask.path == "/healthz") {
      way_back(text_response(200, "ok\n"));
    } else {
      way_back(problem(kinds::overloaded, "the node is starting or stopping; try again"));
    }
  }

private:
  std::mutex mutex_;
  Handle to_;
};

} // namespace kcx::http
