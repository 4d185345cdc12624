#include "actors/http/server/server_core.hpp"

#include "actors/http/message/problem.hpp"
#include "actors/http/server/session.hpp"

#include <boost/asio/post.hpp>

#include <exception>
#include <utility>

namespace kcx::http {

void server_core::note_turn() {
  if (turn_noted_ || !options.turn_ended)
    return;
  turn_noted_ = true;
  boost::asio::post(io, [this] {
    turn_noted_ = false;
    options.turn_ended();
  });
}

void server_core::warn(std::string_view sentence) {
  auto now = clock::now();
  if (!options.warn || now - last_warning_ < std::chrono::seconds{1})
    return;
  last_warning_ = now;
  options.warn(sentence);
}

std::string_view server_core::date() {
  auto now = std::time(nullptr);
  if (now != date_second_) {
    // The names of days and months are English whatever the locale, hence not strftime.
    constexpr std::string_view days = "SunMonTueWedThuFriSat";
    constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    std::tm t{};
    ::gmtime_r(&now, &t);
    char numbers[32];
    std::strftime(numbers, sizeof numbers, "%d %Y %H:%M:%S", &t);
    std::string_view text = numbers;
    date_.assign(days.substr(static_cast<std::size_t>(t.tm_wday) * 3, 3)).append(", ").append(text.substr(0, 3));
    date_.append(months.substr(static_cast<std::size_t>(t.tm_mon) * 3, 3)).append(text.substr(2)).append(" GMT");
    date_second_ = now;
  }
  return date_;
}

template <class Value>
void server_core::hand_over(const std::weak_ptr<session>& to, std::uint64_t number, Value value) {
  if (std::this_thread::get_id() == io_thread.load(std::memory_order_relaxed)) {
    if (auto target = to.lock())
      target->accept(number, std::move(value), false);
    return;
  }
  // The posted work holds no reference to this core: were the loop never to run again, it would keep itself alive.
  boost::asio::post(io, [to, number, value = std::move(value)]() mutable {
    if (auto target = to.lock())
      target->accept(number, std::move(value), true);
  });
}

void server_core::deliver(const std::weak_ptr<session>& to, std::uint64_t request, response answer) {
  hand_over(to, request, std::move(answer));
}

void server_core::deliver(const std::weak_ptr<session>& to, std::uint64_t ticket, chunk piece) {
  hand_over(to, ticket, std::move(piece));
}

void server_core::want_body(const std::weak_ptr<session>& of, std::uint64_t request,
                            incoming_body::piece_handler done) {
  // Always through the loop: the handler of a piece may ask for the next one.
  boost::asio::post(io, [of, request, done = std::move(done)]() mutable {
    if (auto target = of.lock())
      return target->want_body(request, std::move(done));
    incoming_piece end;
    end.broken = problem(kinds::malformed_request, "The connection ended before the body did.");
    done(std::move(end));
  });
}

void streamed_body::next(piece_handler done) {
  core_->want_body(of_, request_, std::move(done));
}

// -- responder ---------------------------------------------------------------

namespace detail {

bool answer_slot::put(response answer) {
  if (answered_.exchange(true) || to_.expired())
    return false;
  core_->deliver(to_, request_, std::move(answer));
  return true;
}

answer_slot::~answer_slot() {
  if (answered_ || to_.expired())
    return;
  try {
    put(problem(ec::outcome_unknown, "The request was handed on and never answered; it may have been carried out."));
  } catch (const std::exception&) {
    // Out of memory: the client is left to its own time limit, the node is not ended for it.
  }
}

} // namespace detail

bool responder::operator()(response answer) const {
  return slot_ && slot_->put(std::move(answer));
}

bool responder::settled() const noexcept {
  return !slot_ || slot_->settled();
}

} // namespace kcx::http
