/// How the bridge asks other actors: the templates of http_bridge, for its source files only.
#pragma once

#include "actors/http/bridge/bridge.hpp"

#include <utility>

namespace kcx {

/// What is told to a call that makes or hands out jobs while the node drains.
[[nodiscard]] error draining(const char* refused);
/// What is told when a write was not answered: it may have been carried out.
[[nodiscard]] error unanswered_write(const caf::error& cause);
/// What is told when a write was done, but what it made of the job could not be read for the answer.
[[nodiscard]] error unread_write(const error& cause);
/// What is told when no reader answered.
[[nodiscard]] error unanswered_read(const caf::error& cause);

template <class T, class... Ts>
void http_bridge::read(const receiver<T>& then, const Ts&... what) {
  read_from<T>(2, then, what...);
}

template <class T, class... Ts>
void http_bridge::read_from(std::size_t tries, const receiver<T>& then, const Ts&... what) {
  if (peers_.readers.empty())
    return then(error{ec::timeout, "no reader runs at the moment", {}});
  const auto& reader = peers_.readers[next_reader_++ % peers_.readers.size()];
  request(reader, settings_.read_timeout, what...)
    .then([then](expected<T>& answer) { then(std::move(answer)); },
          [this, tries, then, what...](caf::error& cause) {
            if (tries > 1)
              read_from<T>(tries - 1, then, what...);
            else
              then(unanswered_read(cause));
          });
}

template <class T, class Handle, class... Ts>
void http_bridge::write(const Handle& to, const receiver<T>& then, Ts&&... what) {
  write_within<T>(settings_.write_timeout, to, then, std::forward<Ts>(what)...);
}

template <class T, class Handle, class... Ts>
void http_bridge::write_within(std::chrono::milliseconds limit, const Handle& to, const receiver<T>& then,
                               Ts&&... what) {
  if (!to)
    return then(unanswered_write(caf::error{}));
  request(to, limit, std::forward<Ts>(what)...)
    .then([then](expected<T>& answer) { then(std::move(answer)); },
          [then](caf::error& cause) { then(unanswered_write(cause)); });
}

} // namespace kcx
