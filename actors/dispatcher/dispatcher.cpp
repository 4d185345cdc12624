#include "actors/dispatcher/dispatcher.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

namespace {

/// Cancels for attempts of unknown holders that are remembered. They are few: such an attempt's worker has yet to make
/// itself known to this dispatcher.
constexpr std::size_t max_unclaimed_cancels = 1'000;

} // namespace

dispatcher::dispatcher(caf::actor_config& cfg, database_actor database, dispatcher_options options)
  : actor_base{cfg, "dispatcher"}, database_{std::move(database)}, options_{options}, index_{options.window,
                                                                                             options.lane_window} {
  set_down_handler([this](const caf::down_msg& down) { holder_down(down); });
}

dispatcher::behavior_type dispatcher::make_behavior() {
  subscribe();
  return {
    [this](claim_atom, const work_request& request, const attempt_holder_actor& holder) {
      return ask(request, holder);
    },
    [this](register_atom, const held_attempt& held, const attempt_holder_actor& holder) { adopt(held, holder); },
    [this](exchange_atom, const remote_request& request) { return ask_remote(request); },
    [this](expire_atom, std::uint64_t id) { expire_remote(id); },
    [this](start_atom, attempt_key key) {
      // The worker has the grant: nobody will ask for it again.
      if (const auto found = held_.find(key); found != held_.end())
        found->second.grant.reset();
      return delegate(database_, start_atom_v, key);
    },
    [this](step_atom, attempt_key key, const step_record& step) { return delegate(database_, step_atom_v, key, step); },
    [this](complete_atom, const attempt_result& result) {
      forget(result.key);
      match(); // Its slots are free for a heavy job that another worker waits with.
      return delegate(database_, complete_atom_v, result);
    },
    [this](drain_atom) { drain(); },
    [this](fleet_atom, const fleet& workers) { resize(workers); },
    [this](why_atom, job_id job) { return why(job); },
    [this](rewire_atom, const database_actor& database) {
      database_ = database;
      subscribe();
    },
    [this](tick_atom) { tick(); },
    [this](subscribe_atom, std::uint64_t number) {
      if (number == subscription_ && index_.lanes_left_out())
        subscribe();
    },
    [this](ready_atom, const ready_notice& notice) { hear(notice); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

// -- what the database tells ------------------------------------------------------------------------------------------

void dispatcher::subscribe() {
  subscribed_ = false;
  subscribing_ = true;
  early_notices_.clear();
  const auto number = ++subscription_;
  const auto failed = [this, number](const error& why) {
    if (number != subscription_)
      return;
    // A damaged file is the database's to tell of, once: here it would be told for ever.
    if (why.code != ec::storage_unusable)
      spdlog::warn("dispatcher: cannot subscribe to the database: {}", why.message);
    subscribing_ = false;
    remind();
  };
  request(database_, options_.request_timeout, subscribe_atom_v, caf::actor_cast<ready_listener_actor>(this))
    .then(
      [this, number, failed](const expected<ready_snapshot>& answer) {
        if (!answer)
          failed(answer.error());
        else if (number == subscription_)
          take_snapshot(*answer);
      },
      [failed](const caf::error& why) {
        failed({ec::timeout, caf::to_string(why), {}});
      });
}

void dispatcher::take_snapshot(const ready_snapshot& snapshot) {
  subscribing_ = false;
  subscribed_ = true;
  last_notice_ = snapshot.number;
  told_meanwhile_.clear();
  index_.reset(unclaimed(snapshot.window));
  take_leases(snapshot.leased);
  for (const auto key : snapshot.cancelled)
    cancel(key);
  lent_.clear();
  // What an offer got them may have been told while nobody listened.
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    auto asker = each++;
    if (!asker->lent)
      continue;
    open_claim(std::move(*asker), std::nullopt);
    waiting_.erase(asker);
  }
  for (const auto& notice : std::exchange(early_notices_, {}))
    follow(notice);
  read_left_out();
  match();
}

void dispatcher::hear(const ready_notice& notice) {
  // A cancel is true whatever was missed before it, and telling a worker twice is harmless.
  for (const auto key : notice.cancelled)
    cancel(key);
  for (const auto key : notice.released)
    forget_remote(key);
  for (const auto& grant : notice.handed)
    handed(grant);
  follow(notice);
}

void dispatcher::follow(const ready_notice& notice) {
  if (subscribing_) {
    early_notices_.push_back(notice);
    return;
  }
  if (notice.number <= last_notice_)
    return;
  if (notice.number != last_notice_ + 1) {
    spdlog::warn("dispatcher: notice {} came after {}: reading the ready jobs anew", notice.number, last_notice_);
    subscribe();
    return;
  }
  last_notice_ = notice.number;
  apply(notice);
  if (notice.anew)
    subscribe();
}

void dispatcher::apply(const ready_notice& notice) {
  // Gone before ready: a job in both costs a claim that fails, never a job that is forgotten.
  for (const auto job : notice.gone) {
    index_.remove(job);
    told_meanwhile_.erase(job);
  }
  for (const auto& queue : notice.paused)
    index_.remove_queue(queue);
  // Jobs that are ready, or handed over, make all offers void.
  if (!notice.ready.empty() || !notice.handed.empty())
    lent_.clear();
  for (const auto& job : notice.ready) {
    if (is_claimed(job.id))
      told_meanwhile_.insert_or_assign(job.id, job);
    else
      index_.add(job);
  }
  refill_if_needed();
  match();
}

void dispatcher::read_left_out() {
  if (!subscribed_ || !index_.lanes_left_out())
    return;
  if (index_.runs_low())
    subscribe();
  else if (std::exchange(turn_of_, subscription_) != subscription_)
    delayed_send(this, options_.lanes_turn, subscribe_atom_v, subscription_);
}

void dispatcher::refill_if_needed() {
  read_left_out();
  const auto wanted = refilling_ || !subscribed_ ? std::nullopt : index_.wants_refill();
  if (!wanted)
    return;
  refilling_ = true;
  const auto number = subscription_;
  request(database_, options_.request_timeout, refill_atom_v, *wanted)
    .then(
      [this, number, from = *wanted](const expected<ready_snapshot>& answer) {
        refilling_ = false;
        if (!answer || number != subscription_ || answer->number != last_notice_) {
          // Of another moment than what is known here: what was claimed since would come back.
          remind();
          return;
        }
        index_.refill(from, unclaimed(answer->window));
        match();
        refill_if_needed();
      },
      [this](const caf::error&) {
        refilling_ = false;
        remind();
      });
}

bool dispatcher::is_claimed(job_id job) const {
  return std::ranges::any_of(claims_, [job](const auto& each) { return each.job && each.job->id == job; }) ||
         std::ranges::any_of(remote_claims_, [job](const auto& each) {
           return std::ranges::find(each.jobs, job, &ready_job::id) != each.jobs.end();
         });
}

ready_window dispatcher::unclaimed(ready_window window) {
  const auto leave_out = [this](const ready_job& job) {
    const bool claimed = is_claimed(job.id);
    if (claimed)
      told_meanwhile_.insert_or_assign(job.id, job);
    return claimed;
  };
  for (auto* jobs : {&window.jobs, &window.followers})
    std::erase_if(*jobs, leave_out);
  return window;
}

void dispatcher::cancel(attempt_key key) {
  if (const auto found = held_.find(key); found != held_.end()) {
    send<caf::message_priority::high>(found->second.holder, cancel_atom_v, key);
    return;
  }
  // Its worker hears of it when it renews its lease.
  if (leased_.contains(key) || std::ranges::any_of(remote_claims_, [key](const auto& each) {
        return std::ranges::find(each.jobs, key.job, &ready_job::id) != each.jobs.end();
      }))
    return;
  const auto open =
    std::ranges::find_if(claims_, [key](const auto& each) { return each.job && each.job->id == key.job; });
  if (open != claims_.end()) {
    open->cancelled.push_back(key);
    return;
  }
  unclaimed_cancels_.insert(key);
  if (unclaimed_cancels_.size() > max_unclaimed_cancels)
    unclaimed_cancels_.erase(unclaimed_cancels_.begin());
}

// -- upkeep -----------------------------------------------------------------------------------------------------------

void dispatcher::remind() {
  if (std::exchange(reminded_, true))
    return;
  delayed_send(this, options_.retry_delay, tick_atom_v);
}

void dispatcher::tick() {
  reminded_ = false;
  holding_off_ = false;
  if (!subscribed_ && !subscribing_)
    subscribe();
  for (auto each = claims_.begin(); each != claims_.end(); ++each) {
    if (!each->in_flight)
      send_claim(each);
  }
  for (const auto& [key, in_flight] : giving_back_) {
    if (!in_flight)
      give_back(key);
  }
  refill_if_needed();
  match();
}

void dispatcher::on_stop() noexcept {
  const error gone{ec::timeout, "the dispatcher ended", {}};
  for (auto& each : waiting_)
    each.promise.deliver(expected<job_grant>{gone});
  for (auto& each : claims_) {
    if (each.asker)
      each.asker->promise.deliver(expected<job_grant>{gone});
  }
  const expected<exchange_result> unknown{error{ec::outcome_unknown, gone.message, {}}};
  for (auto& each : remote_waiting_)
    each.promise.deliver(unknown);
  for (auto& each : remote_claims_)
    each.asker.promise.deliver(unknown);
  waiting_.clear();
  claims_.clear();
  held_.clear();
  remote_waiting_.clear();
  remote_claims_.clear();
  database_ = nullptr;
}

} // namespace kcx
