// The writing half of a session: response heads, bodies, streams, and the slow good-bye after a refusal.
#include "actors/http/server/session.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <charconv>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <utility>

namespace kcx::http {

namespace asio = boost::asio;

namespace {

// Up to here a body is copied behind its head, so that both leave in one plain send.
constexpr std::size_t joined_body = 4 * 1024;
constexpr std::size_t kept_output = 16 * 1024;
// Between two looks whether an answer has arrived.
constexpr std::chrono::milliseconds taken_pause{10};

void append_number(std::string& to, std::uint64_t number, int base) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, number, base).ptr;
  to.append(digits, end);
}

} // namespace

// -- waking ------------------------------------------------------------------

template <class Handler>
struct wake_up::waiter_for final : waiter {
  explicit waiter_for(Handler h) : completion{std::move(h)} {}
  void resume(bool at_once) override {
    if (at_once)
      asio::dispatch(std::move(completion));
    else
      asio::post(std::move(completion));
  }
  Handler completion;
};

asio::awaitable<void> wake_up::wait() {
  return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
    [this](auto resume) { waiter_ = std::make_unique<waiter_for<decltype(resume)>>(std::move(resume)); },
    asio::use_awaitable);
}

void wake_up::notify(bool at_once) {
  if (auto waiting = std::exchange(waiter_, nullptr))
    waiting->resume(at_once);
}

// -- responses ---------------------------------------------------------------

void session::write_head(const response& r, std::optional<std::uint64_t> size, bool chunked, bool keep) {
  out_.clear();
  out_.append("HTTP/1.1 ");
  append_number(out_, r.status, 10);
  out_.append(" ").append(reason_phrase(r.status)).append("\r\nDate: ").append(core_->date()).append("\r\n");
  for (std::size_t i = 0; i < r.headers.size(); ++i) {
    auto field = r.headers.at(i);
    out_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  out_.append(sharing_);
  if (size) {
    out_.append("Content-Length: ");
    append_number(out_, *size, 10);
    out_.append("\r\n");
  }
  if (chunked)
    out_.append("Transfer-Encoding: chunked\r\n");
  if (!keep)
    out_.append("Connection: close\r\n");
  else if (reader_ && reader_->is_http_1_0())
    out_.append("Connection: keep-alive\r\n");
  out_.append("\r\n");
}

// Returns whether everything was written.
asio::awaitable<bool> session::send(response r, bool head_only, bool keep) {
  if (r.status >= 400)
    count(r.status >= 500 ? core_->stats.responses_5xx : core_->stats.responses_4xx);
  auto source = std::move(r.stream);
  bool bodiless = head_only || r.status == 204 || r.status == 304;
  std::optional<std::uint64_t> size = source ? source->size() : std::optional<std::uint64_t>{r.body.size()};
  if (r.status == 204 || (r.status == 304 && !source && r.body.empty()))
    size.reset();
  bool chunked = source && !size && !(reader_ && reader_->is_http_1_0());
  // An HTTP/1.0 client sees the end of a body of unknown length by the end of the connection.
  write_head(r, size, chunked, keep && (size || chunked || bodiless));
  if (source && !bodiless) {
    ticket_ = 1;
    bool ok = co_await write(out_, {}) && co_await send_stream(source, chunked);
    ticket_ = 0;
    if (!ok)
      stream_->cut();
    co_return ok && (size || chunked || !keep);
  }
  if (source)
    source->cancel();
  if (bodiless)
    r.body.clear();
  bool ok = false;
  if (r.body.size() <= joined_body) {
    out_.append(r.body);
    ok = co_await write(out_, {});
  } else {
    ok = co_await write(out_, r.body);
  }
  if (out_.capacity() > kept_output)
    std::string{}.swap(out_);
  co_return ok;
}

// Writes both, a piece at a time, each with its own time limit: a slow client may take long, a stuck one not.
asio::awaitable<bool> session::write(std::string_view first, std::string_view second) {
  enter(phase::writing, core_->options.timeouts.write);
  auto taken = stream_->write_now({asio::buffer(first), asio::buffer(second)});
  count(core_->stats.bytes_out, first.size() + second.size());
  while (taken < first.size() + second.size()) {
    auto from_first = std::min(taken, first.size());
    first.remove_prefix(from_first);
    second.remove_prefix(taken - from_first);
    auto now = second.substr(0, core_->options.limits.output_bytes);
    enter(phase::writing, core_->options.timeouts.write);
    auto [ec, size] = co_await stream_->write({asio::buffer(first), asio::buffer(now)});
    if (ec || gone_)
      co_return false;
    taken = size;
  }
  co_return !gone_;
}

// A client that closed its sending side may read on, or be gone: the kernel takes the answer for both. Only the machine
// of the one that is gone refuses it.
asio::awaitable<bool> session::is_taken() {
  enter(phase::writing, core_->options.timeouts.write);
  asio::steady_timer pause{core_->io};
  while (!gone_) {
    pollfd state{stream_->descriptor(), POLLRDHUP, 0};
    if (::poll(&state, 1, 0) == 0)
      co_return true;
    int left = 0;
    if (::ioctl(state.fd, SIOCOUTQ, &left) != 0)
      co_return false;
    if (left == 0)
      co_return true;
    if ((state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
      co_return false;
    pause.expires_after(taken_pause);
    co_await pause.async_wait(asio::use_awaitable);
  }
  co_return false;
}

// -- streams -----------------------------------------------------------------

namespace {

// Shared by the copies of one `done` callback: if all are dropped unused, the piece will never come.
class piece_slot {
public:
  piece_slot(std::shared_ptr<server_core> core, std::weak_ptr<session> to, std::uint64_t ticket)
    : core_{std::move(core)}, to_{std::move(to)}, ticket_{ticket} {}
  piece_slot(const piece_slot&) = delete;
  piece_slot& operator=(const piece_slot&) = delete;

  ~piece_slot() {
    chunk failure;
    failure.failed = true;
    put(std::move(failure));
  }

  void put(chunk piece) {
    if (!used_.exchange(true))
      core_->deliver(to_, ticket_, std::move(piece));
  }

private:
  std::shared_ptr<server_core> core_;
  std::weak_ptr<session> to_;
  std::uint64_t ticket_;
  std::atomic<bool> used_{false};
};

} // namespace

// The next piece; nothing if there will be none.
asio::awaitable<std::optional<chunk>> session::pull(body_source& source, std::size_t most) {
  enter(phase::waiting, std::nullopt);
  piece_.reset();
  auto slot = std::make_shared<piece_slot>(core_, weak_from_this(), ++ticket_);
  try {
    source.next(most, [slot](chunk piece) { slot->put(std::move(piece)); });
  } catch (const std::exception& e) {
    core_->warn(std::string{"a response's stream threw: "} + e.what());
    co_return std::nullopt;
  }
  slot.reset();
  while (!piece_ && !gone_)
    co_await wait_or_take_body();
  if (gone_ || piece_->failed)
    co_return std::nullopt;
  co_return std::exchange(piece_, std::nullopt);
}

asio::awaitable<bool> session::send_stream(std::shared_ptr<body_source> source, bool chunked) {
  auto left = source->size();
  for (;;) {
    if (left && *left == 0)
      co_return true;
    auto most = core_->options.limits.output_bytes;
    if (left)
      most = static_cast<std::size_t>(std::min<std::uint64_t>(most, *left));
    auto piece = co_await pull(*source, most);
    bool usable = piece && piece->bytes.size() <= most && (piece->last || !piece->bytes.empty());
    if (!usable) {
      source->cancel();
      co_return false;
    }
    if (left)
      *left -= piece->bytes.size();
    out_.clear();
    if (chunked && !piece->bytes.empty()) {
      append_number(out_, piece->bytes.size(), 16);
      out_.append("\r\n");
      piece->bytes.append("\r\n");
    }
    if (chunked && piece->last)
      piece->bytes.append("0\r\n\r\n");
    if (!co_await write(out_, piece->bytes)) {
      if (!piece->last)
        source->cancel();
      co_return false;
    }
    if (piece->last)
      co_return !left || *left == 0;
  }
}

// Closing a socket with unread input resets the connection, and the reset may destroy the response on its way: say
// that nothing more comes, then read what the client still sends, within bounds.
asio::awaitable<void> session::linger() {
  enter(phase::lingering, core_->options.timeouts.linger);
  co_await stream_->finish();
  buffer_.clear();
  std::size_t drained = 0;
  while (!gone_ && drained < core_->options.limits.drain_bytes) {
    auto [ec, size] = co_await stream_->read_some(buffer_.prepare(16 * 1024));
    if (ec)
      break;
    drained += size;
  }
}

} // namespace kcx::http
