/// What the sessions of one server share: the io loop, the options, the counters, the list of sessions. Internal to
/// the transport (server.cpp, session.cpp); everybody else sees server.hpp.
///
/// Held by the server, by every session and by every responder, so an answer that comes after the server's end finds
/// a loop that no longer runs and goes nowhere. Io thread only where not said otherwise.
#pragma once

#include "actors/http/message/host_policy.hpp"
#include "actors/http/message/message.hpp"
#include "actors/http/server/body_budget.hpp"
#include "actors/http/server/server.hpp"

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace kcx::http {

class session;
class server_core;
using clock = std::chrono::steady_clock;

/// Written by the io thread, read by any.
struct counters {
  std::atomic<std::uint64_t> open{0}, accepted{0}, refused{0}, accept_failures{0}, requests{0}, responses_4xx{0},
    responses_5xx{0}, timeouts{0}, bytes_in{0}, bytes_out{0};
};

/// Adds without a locked instruction: there is one writer.
inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

/// The body of a request that is read while it is answered.
class streamed_body final : public incoming_body {
public:
  streamed_body(std::shared_ptr<server_core> core, std::weak_ptr<session> of, std::uint64_t request)
    : core_{std::move(core)}, of_{std::move(of)}, request_{request} {}
  void next(piece_handler done) override;

private:
  std::shared_ptr<server_core> core_;
  std::weak_ptr<session> of_;
  std::uint64_t request_;
};

class server_core {
public:
  server_core(server_options o, handler h)
    : options{std::move(o)}, handle{std::move(h)}, bodies{
                                                     std::make_shared<body_budget>(options.limits.all_body_bytes)} {}

  server_options options;
  handler handle;
  const std::shared_ptr<body_budget> bodies;
  std::optional<host_policy> hosts;
  // One thread runs it; the hint makes posts from that thread cheap.
  boost::asio::io_context io{1};
  std::atomic<std::thread::id> io_thread{};
  counters stats;
  // Sessions remove themselves; each is alive while it is listed.
  std::unordered_map<std::uint64_t, session*> sessions;
  std::uint64_t last_request = 0;
  bool draining = false;

  /// Calls turn_ended at the end of this turn of the loop.
  void note_turn();
  void warn(std::string_view sentence);
  /// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second.
  [[nodiscard]] std::string_view date();

  /// Any thread. Both go nowhere if the session has ended or waits for something else by now.
  void deliver(const std::weak_ptr<session>& to, std::uint64_t request, response answer);
  void deliver(const std::weak_ptr<session>& to, std::uint64_t ticket, chunk piece);
  /// Asks the session for the next piece of its request's body. Any thread.
  void want_body(const std::weak_ptr<session>& of, std::uint64_t request, incoming_body::piece_handler done);

private:
  template <class Value>
  void hand_over(const std::weak_ptr<session>& to, std::uint64_t number, Value value);

  bool turn_noted_ = false;
  clock::time_point last_warning_{};
  std::time_t date_second_ = 0;
  std::string date_;
};

namespace detail {

/// Where a responder's copies meet: the first answer wins, the last copy's end without one answers for it.
class answer_slot {
public:
  answer_slot(std::shared_ptr<server_core> core, std::weak_ptr<session> to, std::uint64_t request)
    : core_{std::move(core)}, to_{std::move(to)}, request_{request} {}
  ~answer_slot();
  answer_slot(const answer_slot&) = delete;
  answer_slot& operator=(const answer_slot&) = delete;

  bool put(response answer);
  [[nodiscard]] bool settled() const noexcept { return answered_ || to_.expired(); }

private:
  std::shared_ptr<server_core> core_;
  std::weak_ptr<session> to_;
  std::uint64_t request_;
  std::atomic<bool> answered_{false};
};

} // namespace detail

} // namespace kcx::http
