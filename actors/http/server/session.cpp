#include "actors/http/server/session.hpp"

#include "actors/http/message/problem.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace kcx::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t small_read = 4 * 1024;
constexpr std::size_t large_read = 64 * 1024;
// More than this is given back while a connection is idle.
constexpr std::size_t kept_buffer = 8 * 1024;

// Whoever compressed a body would find its bytes taken for what they stand for.
std::optional<response> check_encoding(const header_fields& headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto field = headers.at(i);
    if (!same_text(field.name, "Content-Encoding") || same_text(trimmed(field.value), "identity"))
      continue;
    auto why = problem(kinds::unsupported_media_type, "A body must be sent as it is: the Content-Encoding \"" +
                                                        std::string{trimmed(field.value)} +
                                                        "\" is not understood, only identity.");
    // RFC 9110 §12.5.3: tells that the encoding is what was wrong, not the type.
    why.headers.add("Accept-Encoding", "identity");
    return why;
  }
  return std::nullopt;
}

} // namespace

session::session(std::shared_ptr<server_core> core, std::unique_ptr<transport> stream, peer who)
  : core_{std::move(core)}, stream_{std::move(stream)}, peer_{std::move(who)} {
  core_->sessions.emplace(peer_.session_id, this);
  count(core_->stats.open);
}

session::~session() {
  // Before the count goes down: whoever waits for it to be zero may rely on the client having been told.
  stream_->cut();
  core_->sessions.erase(peer_.session_id);
  count(core_->stats.open, static_cast<std::uint64_t>(-1));
}

asio::awaitable<void> session::run() {
  enter(phase::opening, core_->options.timeouts.header);
  if (auto ec = co_await stream_->open(); ec)
    co_return;
  if (peer_.refused) {
    auto limit = std::to_string(core_->options.limits.connections);
    if (co_await send(problem(kinds::overloaded, limit + " connections are open, the most this server allows."), false,
                      false))
      co_await linger();
    co_return;
  }
  while (co_await serve_one()) {
  }
}

// Returns whether the connection can take another request.
asio::awaitable<bool> session::serve_one() {
  reader_.emplace(core_->options.limits);
  sharing_.clear();
  auto got = co_await receive();
  if (got == received::refused) {
    bool head_only = reader_->head().method == "HEAD";
    if (co_await send(std::move(*refusal_), head_only, false))
      co_await linger();
  }
  if (got != received::request)
    co_return false;
  co_return co_await answer();
}

// -- receiving ---------------------------------------------------------------

asio::awaitable<session::received> session::receive() {
  if (auto got = co_await read_head(); got != received::request)
    co_return got;
  if (auto why = check_head())
    co_return refuse(std::move(*why));
  if (!reader_->chunked() && reader_->remaining() == 0)
    co_return received::request;
  if (reader_->expects_continue() && buffer_.size() == 0 && !co_await write("HTTP/1.1 100 Continue\r\n\r\n", {}))
    co_return received::nothing;
  if (reader_->streamed())
    co_return received::request;
  co_return co_await read_body();
}

asio::awaitable<session::received> session::read_head() {
  const auto& timeouts = core_->options.timeouts;
  bool begun = false;
  for (;;) {
    std::size_t used = 0;
    auto step = reader_->read_head(input(), used);
    buffer_.consume(used);
    if (step == request_reader::step::refused)
      co_return refuse(problem(reader_->why().kind, reader_->why().detail));
    if (step == request_reader::step::done)
      co_return received::request;
    if (buffer_.size() == 0) {
      if (core_->draining)
        co_return received::nothing;
      if (buffer_.capacity() > kept_buffer)
        buffer_.shrink_to_fit();
      enter(phase::idle, fresh_ ? timeouts.header : timeouts.idle);
    } else if (!begun) {
      begun = true;
      enter(phase::reading, timeouts.header);
    }
    auto ec = co_await read_more();
    if (auto end = unusable(ec, "The header did not arrive in time."))
      co_return *end;
    fresh_ = false;
  }
}

// What the header alone decides: was this meant for us, is it allowed, is there room for its body?
std::optional<response> session::check_head() {
  auto& head = reader_->head();
  head.remote_address = peer_.address;
  head.session_id = peer_.session_id;
  head.id = ++core_->last_request;
  count(core_->stats.requests);
  if (auto why = core_->hosts->check(reader_->authority(), head.headers))
    return why;
  sharing_ = core_->hosts->sharing_fields(head.headers);
  if (auto told = core_->hosts->preflight(head.method, head.headers))
    return told;
  auto verdict = ask_admission();
  if (verdict.refusal)
    return std::move(verdict.refusal);
  if (auto why = check_encoding(head.headers))
    return why;
  if (verdict.streamed) {
    reader_->stream_body();
    return std::nullopt;
  }
  auto limit = verdict.body_limit.value_or(core_->options.limits.body_bytes);
  if (reader_->limit_body(limit, std::move(verdict.body_advice)) == request_reader::step::refused)
    return problem(reader_->why().kind, reader_->why().detail);
  if (!reserve(static_cast<std::size_t>(reader_->content_length())))
    return problem(kinds::overloaded, "The bodies of other requests use up the memory set aside for them.");
  return std::nullopt;
}

admission session::ask_admission() {
  if (!core_->options.admit)
    return {};
  try {
    return core_->options.admit(reader_->head());
  } catch (const std::exception& e) {
    core_->warn(std::string{"admitting a request threw: "} + e.what());
    return {problem(ec::internal, "The request met a bug in the node; its log tells more."), std::nullopt};
  }
}

asio::awaitable<session::received> session::read_body() {
  enter(phase::reading, core_->options.timeouts.body);
  std::size_t since_renewal = large_read;
  for (;;) {
    std::size_t used = 0;
    auto step = reader_->read_body(input(), used);
    buffer_.consume(used);
    if (step == request_reader::step::refused)
      co_return refuse(problem(reader_->why().kind, reader_->why().detail));
    if (!reserve(reader_->body_size()))
      co_return refuse(problem(kinds::overloaded, "The bodies of other requests use up the memory for them."));
    if (step == request_reader::step::done)
      co_return received::request;
    since_renewal += used;
    if (since_renewal >= large_read) {
      since_renewal = 0;
      enter(phase::reading, core_->options.timeouts.body);
    }
    auto ec = co_await read_more();
    if (auto end = unusable(ec, "The body did not arrive in time."))
      co_return *end;
  }
}

asio::awaitable<error_code> session::read_more() {
  bool much = reader_->remaining() > large_read || reader_->chunked();
  auto [ec, size] = co_await stream_->read_some(buffer_.prepare(much ? large_read : small_read));
  buffer_.commit(size);
  count(core_->stats.bytes_in, size);
  co_return ec;
}

// What a read's outcome means while a request is incomplete; nothing if it can go on.
std::optional<session::received> session::unusable(error_code ec, const char* late) {
  if (gone_)
    return received::nothing;
  if (expired_) {
    expired_ = false;
    return phase_ == phase::idle ? received::nothing : refuse(problem(kinds::request_timeout, late));
  }
  if (!ec)
    return std::nullopt;
  // The client said it sends no more: it may still read why its half request is none.
  if (ec == asio::error::eof && (phase_ == phase::reading || phase_ == phase::taking))
    return refuse(problem(kinds::malformed_request, "The connection ended in the middle of the request."));
  return received::nothing;
}

session::received session::refuse(response why) {
  refusal_ = std::move(why);
  return received::refused;
}

// -- answering ---------------------------------------------------------------

void session::call_handler() {
  auto slot = std::make_shared<detail::answer_slot>(core_, weak_from_this(), request_);
  responder reply{std::move(slot)};
  core_->note_turn();
  try {
    core_->handle(std::move(reader_->head()), reply);
  } catch (const std::exception& e) {
    core_->warn(std::string{"a request's handler threw: "} + e.what());
    reply(problem(ec::internal, "The request met a bug in the node; its log tells more."));
  }
}

asio::awaitable<bool> session::answer() {
  request_ = reader_->head().id;
  bool head_only = reader_->head().method == "HEAD";
  bool keep = reader_->keep_alive();
  co_await wait_for_answer();
  if (gone_) {
    if (!answer_)
      tell_abandoned();
    if (answer_ && answer_->stream)
      answer_->stream->cancel();
    end_body();
    co_return false;
  }
  response r = std::move(*answer_);
  answer_.reset();
  keep = keep && !r.close && !core_->draining;
  auto receipt = std::move(r.receipt);
  bool sent = co_await send(std::move(r), head_only, keep);
  if (receipt && sent && co_await is_taken())
    receipt->delivered();
  receipt.reset();
  // What is left of a streamed body must not be taken for the next request.
  keep = keep && body_whole_;
  end_body();
  if (!sent)
    co_return false;
  if (!keep)
    co_await linger();
  co_return keep;
}

asio::awaitable<void> session::wait_for_answer() {
  answer_.reset();
  told_abandoned_ = false;
  enter(phase::waiting, std::nullopt);
  body_open_ = reader_->streamed();
  body_whole_ = !body_open_;
  if (body_open_)
    reader_->head().incoming = std::make_shared<streamed_body>(core_, weak_from_this(), request_);
  call_handler();
  while (!answer_ && !gone_)
    co_await wait_or_take_body();
}

// Answers that come twice, late or for an earlier request find another number and are dropped.
void session::accept(std::uint64_t request, response answer, bool at_once) {
  if (request != request_ || answer_ || (phase_ != phase::waiting && phase_ != phase::taking) || ticket_ != 0) {
    if (answer.stream)
      answer.stream->cancel();
    return;
  }
  answer_ = std::move(answer);
  wake_.notify(at_once);
}

void session::accept(std::uint64_t ticket, chunk piece, bool at_once) {
  if (ticket != ticket_ || piece_)
    return;
  piece_ = std::move(piece);
  wake_.notify(at_once);
}

// -- life --------------------------------------------------------------------

void session::enter(phase next, std::optional<std::chrono::milliseconds> limit) {
  phase_ = next;
  deadline_ = limit ? clock::now() + *limit : clock::time_point::max();
}

void session::tick(clock::time_point now) {
  if (now < deadline_)
    return;
  deadline_ = clock::time_point::max();
  expired_ = true;
  count(core_->stats.timeouts);
  if (phase_ == phase::idle || phase_ == phase::reading || phase_ == phase::taking)
    stream_->cancel();
  else
    abort();
}

void session::drain() {
  if (phase_ == phase::idle)
    abort();
}

void session::abort() {
  gone_ = true;
  stream_->cut();
  wake_.notify(false);
}

void session::sends_no_more() {
  if (!answer_ && ticket_ == 0)
    tell_abandoned();
}

void session::tell_abandoned() {
  if (!std::exchange(told_abandoned_, true) && core_->options.abandoned)
    core_->options.abandoned(peer_.session_id, request_);
}

int session::watched_descriptor() noexcept {
  return phase_ == phase::waiting && !gone_ ? stream_->descriptor() : -1;
}

std::string_view session::input() const noexcept {
  auto data = buffer_.cdata();
  return {static_cast<const char*>(data.data()), data.size()};
}

bool session::reserve(std::size_t bytes) {
  auto& share = reader_->head().share;
  if (bytes > 0 && !share)
    share = std::make_shared<body_share>(core_->bodies);
  return bytes == 0 || share->grow_to(bytes);
}

} // namespace kcx::http
