// The request bodies of a session that are read piece by piece, while they are answered.
#include "actors/http/message/problem.hpp"
#include "actors/http/server/session.hpp"

#include <utility>

namespace kcx::http {

namespace asio = boost::asio;

void session::want_body(std::uint64_t request, incoming_body::piece_handler done) {
  if (request != request_ || !body_open_ || gone_) {
    incoming_piece end;
    end.broken = problem(kinds::malformed_request, "The connection ended before the body did.");
    return done(std::move(end));
  }
  wanted_ = std::move(done);
  wake_.notify(true);
}

asio::awaitable<void> session::wait_or_take_body() {
  if (wanted_)
    co_await take_body();
  else
    co_await wake_.wait();
}

asio::awaitable<void> session::take_body() {
  auto done = std::exchange(wanted_, nullptr);
  incoming_piece piece;
  enter(phase::taking, core_->options.timeouts.body);
  for (;;) {
    std::size_t used = 0;
    auto step = reader_->read_body(input(), used);
    buffer_.consume(used);
    piece.bytes += reader_->take_body();
    piece.last = step == request_reader::step::done;
    if (step == request_reader::step::refused)
      piece.broken = problem(reader_->why().kind, reader_->why().detail);
    if (piece.last || piece.broken || !piece.bytes.empty())
      break;
    auto ec = co_await read_more();
    if (auto end = unusable(ec, "The body did not go on in time.")) {
      piece.broken = *end == received::refused
                       ? std::exchange(refusal_, std::nullopt)
                       : problem(kinds::malformed_request, "The connection ended before the body did.");
      break;
    }
  }
  body_open_ = !piece.last && !piece.broken;
  body_whole_ = piece.last;
  enter(phase::waiting, std::nullopt);
  done(std::move(piece));
}

// Whoever still waits for a piece hears that none will come.
void session::end_body() {
  body_open_ = false;
  if (auto done = std::exchange(wanted_, nullptr))
    want_body(request_, std::move(done));
}

} // namespace kcx::http
