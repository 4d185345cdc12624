#include "actors/cli/follow/log_follower.hpp"

#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/log_stream.hpp"

#include <algorithm>
#include <utility>

namespace kcx::cli {

using namespace std::chrono_literals;

struct log_follower::shared_state {
  explicit shared_state(const follow_options& o, screen& s) : options{o}, out{&s} {}

  const follow_options options;

  std::mutex mutex;
  std::condition_variable changed;
  /// Null once abandoned.
  screen* out;
  std::int32_t attempt = 0;
  bool held = false;
  bool final = false;
  bool finished = false;
  bool complete = false;
  bool failed = false;
  bool waits = false;
  std::optional<reply> refusal;
  std::uint64_t written = 0;

  /// Blocks until attempt `number` has begun (true), or it is clear that it never will (false).
  bool wait_for_attempt(std::int32_t number) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return out == nullptr || attempt >= number || final; });
    // The one that was asked for is asked the node for all the same, which says what is wrong with it.
    return out != nullptr && (attempt >= number || options.attempt);
  }

  /// Whether attempt `number` is over, waiting a moment for the owner to see it.
  bool attempt_over(std::int32_t number) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, 1s, [&] { return out == nullptr || attempt > number || !held; });
  }

  bool pause(std::chrono::milliseconds time) {
    std::unique_lock lock{mutex};
    changed.wait_for(lock, time, [&] { return out == nullptr; });
    return out != nullptr;
  }

  /// The same because the node asked for it.
  bool rest(std::chrono::milliseconds time) {
    {
      const std::lock_guard lock{mutex};
      waits = true;
    }
    const bool go_on = pause(time);
    const std::lock_guard lock{mutex};
    waits = false;
    return go_on;
  }

  bool write(std::string_view bytes) {
    const std::lock_guard lock{mutex};
    if (out == nullptr || !out->write(bytes)) {
      failed = true;
      return false;
    }
    written += bytes.size();
    return true;
  }

  /// The log cannot be had, and why: always false.
  bool refuse(std::int32_t number, reply why) {
    auto text = problem_text(why.status, why.body);
    text.erase(text.find_last_not_of('\n') + 1);
    note("cannot read the log of attempt " + std::to_string(number) + ": " + text);
    const std::lock_guard lock{mutex};
    refusal = std::move(why);
    return false;
  }

  void note(const std::string& line) {
    const std::lock_guard lock{mutex};
    if (out != nullptr && options.progress)
      out->note(line);
  }
};

namespace {

std::string json_line(std::int32_t attempt, std::string_view bytes) {
  const nlohmann::json line{{"attempt", attempt}, {"text", bytes}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

/// Copies one attempt's log to its end. False if that cannot be done.
template <class State>
bool copy_attempt(State& state, node_client& node, std::int32_t attempt) {
  log_place place{state.options.job, attempt, state.options.timestamps, state.options.tail};
  auto backoff = 100ms;
  patience_left patience{state.options.patience};
  for (;;) {
    const auto before = place.offset;
    reply refusal;
    const auto write = [&](std::string_view bytes) {
      return state.write(state.options.json ? json_line(attempt, bytes) : std::string{bytes});
    };
    switch (read_log(node, place, write, refusal)) {
    case log_result::ended: return true;
    case log_result::stopped: return false;
    case log_result::missing:
      if (!state.attempt_over(attempt))
        break;
      // An attempt that was claimed but never started has no log; but that is no answer to who asks for it.
      return state.options.attempt || place.offset > 0 ? state.refuse(attempt, std::move(refusal)) : true;
    case log_result::refused: return state.refuse(attempt, std::move(refusal));
    case log_result::broken: break;
    }
    backoff = place.offset > before ? 100ms : std::min(backoff * 2, std::chrono::milliseconds{2'000});
    // What it answered was no part of the log: how long it wants to be left alone.
    if (refusal.retry_after || refusal.status == 429) {
      const auto wanted = another_try(refusal, asked_for::state).value_or(0ms);
      const auto rest = patience.pause(std::max(backoff, wanted));
      if (!rest)
        return state.refuse(attempt, std::move(refusal));
      if (!state.rest(*rest))
        return false;
      continue;
    }
    patience.renew();
    if (!state.pause(backoff))
      return false;
  }
}

} // namespace

void log_follower::run(const std::shared_ptr<shared_state>& state, node_location where, std::int32_t first) {
  node_client node{std::move(where)};
  const auto only = state->options.attempt;
  bool complete = true;
  for (auto attempt = first; state->wait_for_attempt(attempt); ++attempt) {
    if (attempt > first)
      state->note("attempt " + std::to_string(attempt));
    complete = copy_attempt(*state, node, attempt);
    if (only || !complete)
      break;
  }
  const std::lock_guard lock{state->mutex};
  state->complete = complete && !state->failed;
  state->finished = true;
  state->changed.notify_all();
}

log_follower::log_follower(const node_location& where, const follow_options& options, std::int32_t first, screen& out)
  : state_{std::make_shared<shared_state>(options, out)}, thread_{&log_follower::run, state_, where, first} {}

log_follower::~log_follower() {
  if (thread_.joinable())
    thread_.join();
}

void log_follower::observe(std::int32_t attempt, bool held, bool final) {
  const std::lock_guard lock{state_->mutex};
  state_->attempt = attempt;
  state_->held = held;
  state_->final = final;
  state_->changed.notify_all();
}

bool log_follower::wait_finished(std::chrono::milliseconds limit) {
  std::unique_lock lock{state_->mutex};
  return state_->changed.wait_for(lock, limit, [&] { return state_->finished; });
}

std::uint64_t log_follower::written() {
  const std::lock_guard lock{state_->mutex};
  return state_->written;
}

bool log_follower::waits() {
  const std::lock_guard lock{state_->mutex};
  return state_->waits;
}

bool log_follower::complete() {
  const std::lock_guard lock{state_->mutex};
  return state_->complete;
}

std::optional<reply> log_follower::refusal() {
  const std::lock_guard lock{state_->mutex};
  return state_->refusal;
}

void log_follower::abandon() {
  {
    const std::lock_guard lock{state_->mutex};
    state_->out = nullptr;
    state_->changed.notify_all();
  }
  if (thread_.joinable())
    thread_.detach();
}

} // namespace kcx::cli
