#include "actors/workers/worker.hpp"

#include "actors/nonce.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

/// Cancels that are remembered for attempts not granted yet; one worker is granted one at a time.
constexpr std::size_t max_early_cancels = 64;

/// Whether repeating a completion can change the answer.
bool is_settled(const error& why) noexcept {
  return why.code == ec::stale_attempt || why.code == ec::not_found || why.code == ec::gone ||
         why.code == ec::conflict || why.code == ec::invalid_input;
}

} // namespace

worker::worker(caf::actor_config& cfg, worker_options options, runner_sender runner, dispatcher_actor dispatcher,
               log_hub_actor log_hub, const caf::actor_addr& supervisor)
  : actor_base{cfg, "worker"}, options_{std::move(options)}, runner_{std::move(runner)},
    dispatcher_{std::move(dispatcher)}, log_hub_{std::move(log_hub)} {
  monitor(supervisor);
  // Not in peace: what it holds may be running.
  set_down_handler([this](const caf::down_msg&) { quit(caf::exit_reason::user_shutdown); });
}

worker::behavior_type worker::make_behavior() {
  become_idle();
  return {
    [this](runner_atom, const runner_event& event) { hear(event); },
    [this](stop_atom, stop_mode mode) { stop(mode); },
    [this](info_atom) { return info(); },
    [this](rewire_atom, const dispatcher_actor& dispatcher) { rewire(dispatcher); },
    [this](rewire_atom, const log_hub_actor& log_hub) { log_hub_ = log_hub; },
    [this](tick_atom) { tick(); },
    [this](cancel_atom, attempt_key key) { cancel(key); },
    [this](status_atom) -> actor_status {
      const auto now = info();
      return {{"worker", now.name},
              {"state", now.state},
              {"job", now.attempt ? actor_status(now.attempt->job.value) : actor_status{}},
              {"runner_pid", now.runner_pid},
              {"jobs", jobs_}};
    },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

// -- claiming ---------------------------------------------------------------------------------------------------------

void worker::become_idle() {
  state_ = state::idle;
  grant_.reset();
  result_.reset();
  give_up_at_.reset();
  failed_.clear();
  step_began_.clear();
  start_told_ = false;
  start_stored_ = false;
  pause_ = std::chrono::milliseconds{0};
  if (stopping_ && next_) {
    // Nobody else would take it from a worker that ends in peace.
    grant_ = std::exchange(next_, std::nullopt);
    finish_unstarted(attempt_outcome::not_started, "");
  } else if (stopping_) {
    quit();
  } else if (next_) {
    take(*std::exchange(next_, std::nullopt));
  } else if (nonce_ == 0) {
    ask_anew();
  } else if (!waiting_for_answer_) {
    ask(); // what was asked ahead had no answer
  }
}

void worker::ask_anew() {
  nonce_ = new_nonce();
  asked_before_ = false;
  ask();
}

void worker::ask() {
  const auto question = ++request_;
  waiting_for_answer_ = true;
  work_request wanted{options_.name, options_.labels, nonce_, std::exchange(asked_before_, true)};
  request(dispatcher_, options_.claim_timeout, claim_atom_v, std::move(wanted), myself())
    .then(
      [this, question](expected<job_grant>& answer) {
        if (question == request_)
          answered(answer);
      },
      [this, question](const caf::error& why) {
        if (question != request_)
          return;
        if (why == caf::sec::request_timeout)
          return ask(); // No job fitted so far, that is all.
        waiting_for_answer_ = false;
        if (state_ == state::idle)
          pause("asking for a job", caf::to_string(why));
      });
}

void worker::answered(expected<job_grant>& answer) {
  waiting_for_answer_ = false;
  if (!answer && state_ == state::idle) {
    pause("asking for a job", answer.error().message);
  } else if (answer && state_ == state::idle) {
    take(*std::move(answer));
  } else if (answer) {
    nonce_ = 0;
    next_ = *std::move(answer);
  }
}

void worker::take(job_grant grant) {
  nonce_ = 0;
  ++jobs_;
  grant_ = std::move(grant);
  if (const auto found = std::ranges::find(early_cancels_, grant_->key); found != early_cancels_.end()) {
    early_cancels_.erase(found);
    finish_unstarted(attempt_outcome::cancelled, "");
    return;
  }
  state_ = state::running;
  // Any other failure means that the runner ends, and this worker with it.
  if (auto sent = runner_(plan_run(*grant_, options_.run())); !sent && sent.error().code == ec::invalid_input)
    finish_unstarted(attempt_outcome::spawn_failed, sent.error().message);
}

void worker::finish_unstarted(attempt_outcome how, std::string message) {
  result_.emplace();
  result_->key = grant_->key;
  result_->outcome = how;
  result_->message = std::move(message);
  finish();
}

void worker::tell(const runner_command& command) {
  // A runner that cannot be told is ending: its supervisor sees that, and ends this worker.
  if (auto sent = runner_(command); !sent)
    spdlog::warn("worker {}: its runner cannot be reached: {}", options_.name, sent.error().message);
}

void worker::pause(const char* what, const std::string& why) {
  spdlog::debug("worker {}: {} failed, trying again: {}", options_.name, what, why);
  pause_ = std::clamp(pause_ * 2, options_.first_pause, options_.longest_pause);
  delayed_send(this, pause_, tick_atom_v);
}

// -- running ----------------------------------------------------------------------------------------------------------

void worker::hear(const runner_event& event) {
  if (const auto* begun = std::get_if<started_event>(&event))
    started(*begun);
  else if (const auto* step = std::get_if<step_event>(&event))
    stepped(*step);
  else if (const auto* log = std::get_if<log_event>(&event))
    grew(*log);
  else if (const auto* end = std::get_if<finished_event>(&event))
    finished(*end);
}

void worker::started(const started_event& event) {
  if (state_ != state::running || !holds(event.key))
    return;
  start_told_ = true;
  confirm();
}

void worker::confirm() {
  confirming_ = true;
  const auto key = grant_->key;
  request(dispatcher_, options_.store_timeout, start_atom_v, key)
    .then([this, key](const outcome& answer) { confirmed(key, answer); },
          [this, key](const caf::error& why) {
            confirmed(key, error{ec::timeout, caf::to_string(why), {}});
          });
}

void worker::confirmed(attempt_key key, const outcome& answer) {
  confirming_ = false;
  if (!holds(key) || state_ != state::running)
    return;
  if (answer)
    start_stored_ = true;
  else if (is_settled(answer.error()))
    discard();
  else
    pause("confirming a start", answer.error().message);
}

void worker::stepped(const step_event& event) {
  if (state_ != state::running || !holds(event.key) || !shows_steps(grant_->spec))
    return;
  const auto began = step_began_.find(event.index);
  auto record = to_record(event, began == step_began_.end() ? std::nullopt : std::optional{began->second});
  if (record.started_at)
    step_began_[event.index] = *record.started_at;
  // Without an answer: the completion carries all steps once more.
  caf::anon_send(dispatcher_, step_atom_v, event.key, std::move(record));
}

void worker::grew(const log_event& event) {
  if (holds(event.key))
    send(log_hub_, grew_atom_v, event.key, static_cast<std::int64_t>(event.bytes));
}

void worker::finished(const finished_event& event) {
  if (!holds(event.key))
    return;
  if (state_ == state::discarding) {
    become_idle();
    return;
  }
  if (state_ != state::running)
    return;
  if (!event.workspace_error.empty())
    spdlog::warn("worker {}: not all files of job {} were removed: {}", options_.name, event.key.job.value,
                 event.workspace_error);
  result_ = to_result(event, grant_->spec);
  pause_ = std::chrono::milliseconds{0};
  finish();
}

void worker::cancel(attempt_key key) {
  if (holds(key)) {
    if (state_ == state::running)
      tell(plan_cancel(*grant_, cancel_cause::cancelled, options_.run()));
    return;
  }
  early_cancels_.push_back(key);
  if (early_cancels_.size() > max_early_cancels)
    early_cancels_.pop_front();
}

void worker::discard() {
  spdlog::warn("worker {}: attempt {} of job {} is no longer its own: ending it", options_.name, grant_->key.attempt,
               grant_->key.job.value);
  state_ = state::discarding;
  tell(kill_command{});
}

// -- completing -------------------------------------------------------------------------------------------------------

void worker::finish() {
  state_ = state::finishing;
  if (stopping_ == stop_mode::now)
    limit_tries();
  complete();
}

void worker::limit_tries() {
  give_up_at_ = clock().now() + options_.last_tries;
  delayed_send(this, options_.last_tries, tick_atom_v);
}

bool worker::is_too_late() const {
  return state_ == state::finishing && give_up_at_ && clock().now() >= *give_up_at_;
}

void worker::give_up(const std::string& why) {
  const auto tell_of = [&](attempt_key key) {
    spdlog::error("worker {}: giving up the result of attempt {} of job {}, for the node is being stopped now; unless "
                  "it was stored all the same, the next start takes the attempt for interrupted: {}",
                  options_.name, key.attempt, key.job.value, why);
  };
  tell_of(grant_->key);
  if (next_)
    tell_of(next_->key);
  quit();
}

void worker::complete() {
  completing_ = true;
  const auto key = result_->key;
  request(dispatcher_, options_.store_timeout, complete_atom_v, *result_)
    .then([this, key](const expected<transition_result>& answer) { completed(key, answer); },
          [this, key](const caf::error& why) {
            completed(key, error{ec::timeout, caf::to_string(why), {}});
          });
  if (!stopping_ && !next_ && nonce_ == 0)
    ask_anew();
}

void worker::completed(attempt_key key, const expected<transition_result>& answer) {
  if (state_ != state::finishing || !holds(key))
    return;
  completing_ = false;
  // A damaged file takes no result any more: a stop must not wait for it.
  const bool in_vain = !answer && stopping_ && answer.error().code == ec::storage_unusable;
  if (!answer && !is_settled(answer.error()) && !in_vain) {
    failed_ = answer.error().message;
    if (is_too_late())
      return give_up(failed_);
    pause("storing a result", answer.error().message);
    return;
  }
  if (!answer && !in_vain)
    spdlog::warn("worker {}: the result of job {} was not wanted: {}", options_.name, key.job.value,
                 answer.error().message);
  become_idle();
}

// -- upkeep -----------------------------------------------------------------------------------------------------------

void worker::stop(stop_mode mode) {
  const bool again = stopping_ == mode;
  // From draining to ending now, never back.
  if (stopping_ != stop_mode::now)
    stopping_ = mode;
  if (state_ == state::idle)
    quit(); // A grant on its way here is given back by the dispatcher, which sees this worker go.
  else if (state_ == state::running && mode == stop_mode::now && !again)
    tell(plan_cancel(*grant_, cancel_cause::node_stop, options_.run()));
  else if (state_ == state::finishing && mode == stop_mode::now && !give_up_at_)
    limit_tries();
}

void worker::rewire(const dispatcher_actor& dispatcher) {
  dispatcher_ = dispatcher;
  if (state_ == state::idle) {
    ask();
    return;
  }
  // Once a result is on its way, its slots count as free.
  const auto& holds = next_ ? *next_ : *grant_;
  held_attempt held{holds.key, options_.name, holds.spec.project, holds.spec.weight, options_.labels};
  send(dispatcher_, register_atom_v, std::move(held), myself());
}

void worker::tick() {
  if (is_too_late())
    return give_up(failed_.empty() ? "the database does not answer" : failed_);
  if (state_ == state::idle && !waiting_for_answer_)
    ask();
  else if (state_ == state::running && start_told_ && !start_stored_ && !confirming_)
    confirm();
  else if (state_ == state::finishing && !completing_)
    complete();
}

worker_info worker::info() const {
  worker_info result{options_.name, "busy", std::nullopt, options_.runner_pid};
  if (grant_)
    result.attempt = grant_->key;
  if (stopping_)
    result.state = "stopping";
  else if (state_ == state::idle)
    result.state = "idle";
  return result;
}

attempt_holder_actor worker::myself() {
  return caf::actor_cast<attempt_holder_actor>(this);
}

} // namespace kcx
