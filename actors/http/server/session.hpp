/// One connection: reads a request, hands it to the handler, waits for the answer and writes it, again and again.
/// Internal to the transport.
///
/// A session is one coroutine. It has no timer of its own: it notes by when its present step must have ended and the
/// server's sweep (tick) looks at all sessions a few times a second, which costs nothing per request.
#pragma once

#include "actors/http/server/request_reader.hpp"
#include "actors/http/server/server_core.hpp"
#include "actors/http/server/transport.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::http {

/// Wakes one coroutine. Io thread only.
class wake_up {
public:
  boost::asio::awaitable<void> wait();
  /// Resumes the waiting coroutine before returning if `at_once`, through the loop otherwise; nothing if none waits.
  void notify(bool at_once);

private:
  struct waiter {
    virtual ~waiter() = default;
    virtual void resume(bool at_once) = 0;
  };
  template <class Handler>
  struct waiter_for;

  std::unique_ptr<waiter> waiter_;
};

/// Every member on the io thread.
class session : public std::enable_shared_from_this<session> {
public:
  struct peer {
    std::uint64_t session_id;
    std::string address;
    /// One connection too many: it only hears so.
    bool refused;
  };

  session(std::shared_ptr<server_core> core, std::unique_ptr<transport> stream, peer who);
  ~session();

  /// Lives until the connection has ended.
  boost::asio::awaitable<void> run();

  /// Ends the present step if its time is over.
  void tick(clock::time_point now);
  /// The request in flight is the last one; an idle connection closes now.
  void drain();
  /// The connection is dead or must die: everything ends, nothing is sent.
  void abort();
  /// The client has closed its sending side: it is gone, or only reads.
  void sends_no_more();
  /// The descriptor to watch for a vanished client while neither reading nor writing would show it; -1 otherwise.
  [[nodiscard]] int watched_descriptor() noexcept;

  void accept(std::uint64_t request, response answer, bool at_once);
  void accept(std::uint64_t ticket, chunk piece, bool at_once);
  /// The next piece of the body of this request, which is being answered.
  void want_body(std::uint64_t request, incoming_body::piece_handler done);

private:
  enum class phase { opening, idle, reading, waiting, taking, writing, lingering };
  enum class received { request, refused, nothing };

  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<received> receive();
  boost::asio::awaitable<received> read_head();
  boost::asio::awaitable<received> read_body();
  boost::asio::awaitable<boost::system::error_code> read_more();
  std::optional<received> unusable(boost::system::error_code ec, const char* late);
  received refuse(response why);
  std::optional<response> check_head();
  admission ask_admission();
  void call_handler();

  boost::asio::awaitable<bool> answer();
  boost::asio::awaitable<void> wait_for_answer();
  boost::asio::awaitable<void> wait_or_take_body();
  boost::asio::awaitable<void> take_body();
  void end_body();
  boost::asio::awaitable<bool> send(response r, bool head_only, bool keep);
  boost::asio::awaitable<bool> send_stream(std::shared_ptr<body_source> source, bool chunked);
  boost::asio::awaitable<std::optional<chunk>> pull(body_source& source, std::size_t most);
  boost::asio::awaitable<bool> write(std::string_view first, std::string_view second);
  boost::asio::awaitable<bool> is_taken();
  boost::asio::awaitable<void> linger();

  void write_head(const response& r, std::optional<std::uint64_t> size, bool chunked, bool keep);
  void tell_abandoned();
  void enter(phase next, std::optional<std::chrono::milliseconds> limit);
  [[nodiscard]] std::string_view input() const noexcept;
  [[nodiscard]] bool reserve(std::size_t bytes);

  const std::shared_ptr<server_core> core_;
  const std::unique_ptr<transport> stream_;
  const peer peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<request_reader> reader_;
  std::optional<response> refusal_;
  std::optional<response> answer_;
  incoming_body::piece_handler wanted_;
  /// Of a streamed body: more can be asked for; it came whole (as others do before they are answered).
  bool body_open_ = false;
  bool body_whole_ = true;
  std::optional<chunk> piece_;
  std::string out_;
  /// Header lines of the answer that let a page of an allowed origin read it.
  std::string sharing_;
  wake_up wake_;
  clock::time_point deadline_ = clock::time_point::max();
  std::uint64_t request_ = 0;
  std::uint64_t ticket_ = 0;
  phase phase_ = phase::opening;
  bool expired_ = false;
  bool gone_ = false;
  bool fresh_ = true;
  /// Whoever made the handler knows that nobody may wait for the answer.
  bool told_abandoned_ = false;
};

} // namespace kcx::http
