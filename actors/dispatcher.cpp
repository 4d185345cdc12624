#include "actors/dispatcher.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

namespace {

/// Cancels for attempts of unknown holders that are remembered. They are few: such an attempt's worker has yet to make
/// itself known to this dispatcher.
constexpr std::size_t max_unclaimed_cancels = 1'000;

error draining_error() {
  return {ec::draining, "the node hands out no more jobs", {}};
}

/// Whether a failed write may have happened all the same.
bool is_unknown(const error& why) {
  return why.code == ec::outcome_unknown || why.code == ec::timeout;
}

/// Whether the job is still ready although its claim failed: nothing was stored for reasons of the disk.
bool is_storage_trouble(const error& why) {
  return why.code == ec::storage_busy || why.code == ec::storage_full || why.code == ec::storage_failed;
}

} // namespace

dispatcher::dispatcher(caf::actor_config& cfg, database_actor database, dispatcher_options options)
  : actor_base{cfg, "dispatcher"}, database_{std::move(database)}, options_{options}, index_{options.window} {
  set_down_handler([this](const caf::down_msg& down) { holder_down(down); });
}

dispatcher::behavior_type dispatcher::make_behavior() {
  subscribe();
  return {
    [this](claim_atom, const work_request& request, const attempt_holder_actor& holder) {
      return ask(request, holder);
    },
    [this](register_atom, const held_attempt& held, const attempt_holder_actor& holder) { adopt(held, holder); },
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
  index_.reset(unclaimed(snapshot.jobs), snapshot.more);
  for (const auto key : snapshot.cancelled)
    cancel(key);
  for (const auto& notice : std::exchange(early_notices_, {}))
    hear(notice);
  match();
}

void dispatcher::hear(const ready_notice& notice) {
  // A cancel is true whatever was missed before it, and telling a worker twice is harmless.
  for (const auto key : notice.cancelled)
    cancel(key);
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
  for (const auto job : notice.gone)
    index_.remove(job);
  for (const auto& queue : notice.paused)
    index_.remove_queue(queue);
  for (const auto& job : unclaimed(notice.ready))
    index_.add(job);
  refill_if_needed();
  match();
}

void dispatcher::refill_if_needed() {
  if (refilling_ || !subscribed_ || !index_.needs_refill())
    return;
  refilling_ = true;
  const auto from = index_.resume_point();
  const auto number = subscription_;
  request(database_, options_.request_timeout, refill_atom_v, from.order_key, from.id)
    .then(
      [this, number](const expected<ready_snapshot>& answer) {
        refilling_ = false;
        if (!answer || number != subscription_ || answer->number != last_notice_) {
          // Of another moment than what is known here: what was claimed since would come back.
          remind();
          return;
        }
        index_.refill(unclaimed(answer->jobs), answer->more);
        match();
        refill_if_needed();
      },
      [this](const caf::error&) {
        refilling_ = false;
        remind();
      });
}

std::vector<ready_job> dispatcher::unclaimed(const std::vector<ready_job>& jobs) const {
  std::vector<ready_job> result;
  std::ranges::copy_if(jobs, std::back_inserter(result), [this](const auto& job) {
    return std::ranges::none_of(claims_, [&](const auto& each) { return each.job && each.job->id == job.id; });
  });
  return result;
}

void dispatcher::cancel(attempt_key key) {
  if (const auto found = held_.find(key); found != held_.end()) {
    send<caf::message_priority::high>(found->second.holder, cancel_atom_v, key);
    return;
  }
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

// -- workers ----------------------------------------------------------------------------------------------------------

dispatcher::grant_promise dispatcher::ask(work_request request, const attempt_holder_actor& holder) {
  std::ranges::sort(request.labels);
  watch(holder, request.labels);
  question asker{std::move(request), holder, make_response_promise<expected<job_grant>>()};
  auto promise = asker.promise;
  if (draining_) {
    promise.deliver(expected<job_grant>{draining_error()});
  } else if (!resume(asker)) {
    supersede(asker.request.worker);
    if (asker.request.repeat)
      open_claim(std::move(asker), std::nullopt);
    else
      waiting_.push_back(std::move(asker));
    match();
  }
  return promise;
}

bool dispatcher::resume(question& asker) {
  const auto& [worker, labels, nonce, repeat] = asker.request;
  const auto replace = [&asker](question& former) {
    former.promise.deliver(expected<job_grant>{error{ec::timeout, "asked again", {}}});
    former = std::move(asker);
  };
  for (auto& each : waiting_) {
    if (each.request.nonce != nonce || each.request.worker != worker)
      continue;
    replace(each);
    return true;
  }
  for (auto& each : claims_) {
    if (each.request.nonce != nonce || each.request.worker != worker || !each.asker)
      continue;
    replace(*each.asker);
    return true;
  }
  for (auto& [key, each] : held_) {
    if (each.nonce != nonce || each.worker != worker || !each.grant)
      continue;
    each.holder = asker.holder;
    asker.promise.deliver(expected<job_grant>{*each.grant});
    return true;
  }
  return false;
}

void dispatcher::supersede(const std::string& worker) {
  const error why{ec::timeout, "asked again", {}};
  std::erase_if(waiting_, [&](auto& each) {
    if (each.request.worker != worker)
      return false;
    each.promise.deliver(expected<job_grant>{why});
    return true;
  });
  for (auto& each : claims_) {
    if (each.request.worker != worker || !each.asker)
      continue;
    each.asker->promise.deliver(expected<job_grant>{why});
    each.asker.reset();
  }
  std::vector<attempt_key> former;
  for (const auto& [key, each] : held_) {
    if (each.worker == worker)
      former.push_back(key);
  }
  for (const auto key : former)
    forget(key);
}

void dispatcher::adopt(const held_attempt& held, const attempt_holder_actor& holder) {
  auto labels = held.labels;
  std::ranges::sort(labels);
  watch(holder, std::move(labels));
  supersede(held.worker);
  held_[held.key] = {held.worker, held.project, held.weight, holder, 0, std::nullopt};
  index_.hold(held.project, held.weight);
  if (unclaimed_cancels_.erase(held.key) > 0)
    cancel(held.key);
}

void dispatcher::watch(const attempt_holder_actor& holder, std::vector<std::string> labels) {
  if (watched_.insert_or_assign(holder.address(), std::move(labels)).second)
    monitor(holder);
}

void dispatcher::resize(const fleet& workers) {
  capacity_ = std::max<std::int64_t>(workers.capacity, 1);
  index_.limit_weight(capacity_);
  cordoned_ = workers.cordoned;
  match();
}

bool dispatcher::is_cordoned(const std::string& worker) const {
  return std::ranges::find(cordoned_, worker) != cordoned_.end();
}

std::int64_t dispatcher::free_slots() const {
  auto free = capacity_;
  for (const auto& [key, each] : held_)
    free -= index_.limited(each.weight);
  for (const auto& each : claims_) {
    if (each.job)
      free -= index_.limited(each.job->weight);
  }
  return free;
}

void dispatcher::holder_down(const caf::down_msg& down) {
  watched_.erase(down.source);
  std::erase_if(waiting_, [&](const auto& each) { return each.holder.address() == down.source; });
  for (auto& each : claims_) {
    if (each.asker && each.asker->holder.address() == down.source)
      each.asker.reset();
  }
  std::vector<attempt_key> orphans;
  for (const auto& [key, each] : held_) {
    if (each.holder.address() == down.source)
      orphans.push_back(key);
  }
  // Their supervisor has them marked; here only the slots come free.
  for (const auto key : orphans)
    forget(key);
  match();
}

void dispatcher::forget(attempt_key key) {
  const auto found = held_.find(key);
  if (found == held_.end())
    return;
  index_.release(found->second.project, found->second.weight);
  held_.erase(found);
}

void dispatcher::drain() {
  draining_ = true;
  for (auto& each : waiting_)
    each.promise.deliver(expected<job_grant>{draining_error()});
  waiting_.clear();
  // A grant that comes all the same finds nobody and is given back.
  for (auto& each : claims_) {
    if (each.asker)
      each.asker->promise.deliver(expected<job_grant>{draining_error()});
    each.asker.reset();
  }
}

// -- claims -----------------------------------------------------------------------------------------------------------

void dispatcher::match() {
  if (draining_ || holding_off_)
    return;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    if (is_cordoned(each->request.worker)) {
      ++each;
      continue;
    }
    auto job = index_.take(each->request.labels, free_slots());
    if (!job) {
      ++each;
      continue;
    }
    auto asker = std::move(*each);
    each = waiting_.erase(each);
    open_claim(std::move(asker), std::move(job));
  }
}

void dispatcher::open_claim(question asker, std::optional<ready_job> job) {
  claim_request wanted{job ? job->id : job_id{}, asker.request.worker, asker.request.nonce};
  claims_.push_back({std::move(asker), std::move(job), std::move(wanted), {}, false});
  send_claim(std::prev(claims_.end()));
}

void dispatcher::send_claim(claim_list::iterator which) {
  which->in_flight = true;
  request(database_, options_.request_timeout, claim_atom_v, which->request)
    .then([this, which](expected<job_grant>& answer) { claim_answered(which, answer); },
          [this, which](const caf::error&) { claim_unknown(which); });
}

void dispatcher::claim_answered(claim_list::iterator which, expected<job_grant>& answer) {
  if (answer)
    granted(which, *answer);
  else if (is_unknown(answer.error()))
    claim_unknown(which);
  else
    refused(which, answer.error());
  refill_if_needed();
  match();
}

void dispatcher::claim_unknown(claim_list::iterator which) {
  // The same question again, by its nonce, until the database says what became of it. Nobody else gets the job.
  which->in_flight = false;
  ++unknown_;
  remind();
}

void dispatcher::granted(claim_list::iterator which, job_grant& grant) {
  auto closed = std::move(*which);
  claims_.erase(which);
  const auto key = grant.key;
  const auto project = grant.spec.project;
  const auto weight = grant.spec.weight;
  if (!closed.asker) {
    if (closed.job)
      index_.release(project, weight);
    give_back(key);
    return;
  }
  if (!closed.job)
    index_.hold(project, weight);
  ++granted_;
  auto& asker = *closed.asker;
  held_[key] = {asker.request.worker, project, weight, asker.holder, asker.request.nonce, grant};
  asker.promise.deliver(expected<job_grant>{std::move(grant)});
  if (std::ranges::find(closed.cancelled, key) != closed.cancelled.end() || unclaimed_cancels_.erase(key) > 0)
    cancel(key);
}

void dispatcher::refused(claim_list::iterator which, const error& why) {
  auto closed = std::move(*which);
  claims_.erase(which);
  if (closed.job)
    index_.release(closed.job->project, closed.job->weight);
  if (is_storage_trouble(why)) {
    if (closed.job)
      index_.add(*closed.job);
    holding_off_ = true;
    remind();
  } else if (closed.job) {
    ++lost_races_;
  }
  if (closed.asker)
    wait_again(std::move(*closed.asker));
}

void dispatcher::wait_again(question asker) {
  // In front: it has waited longest. Whether an earlier grant exists is known now.
  asker.request.repeat = false;
  waiting_.push_front(std::move(asker));
}

void dispatcher::give_back(attempt_key key) {
  giving_back_[key] = true;
  attempt_result result;
  result.key = key;
  result.outcome = attempt_outcome::not_started;
  const auto again = [this, key] {
    giving_back_[key] = false;
    remind();
  };
  request(database_, options_.request_timeout, complete_atom_v, std::move(result))
    .then(
      [this, key, again](const expected<transition_result>& answer) {
        if (!answer && (is_unknown(answer.error()) || is_storage_trouble(answer.error())))
          again();
        else
          giving_back_.erase(key);
      },
      [again](const caf::error&) { again(); });
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

dispatch_view dispatcher::why(job_id job) const {
  constexpr std::int64_t most = 10'000;
  dispatch_view view;
  view.ready = static_cast<std::int64_t>(index_.size());
  view.capacity = capacity_;
  view.free = std::max<std::int64_t>(free_slots(), 0);
  view.workers = static_cast<std::int64_t>(watched_.size());
  view.idle_workers =
    std::ranges::count_if(waiting_, [this](const auto& each) { return !is_cordoned(each.request.worker); });
  view.reserved_for = index_.reserved_for();
  view.draining = draining_;
  view.claiming = std::ranges::any_of(claims_, [job](const auto& each) { return each.job && each.job->id == job; });
  const auto known = index_.find(job);
  view.known = known.has_value();
  if (!known)
    return view;
  view.weight = known->weight;
  view.position = index_.position(job, most, [this](const auto& labels) {
    return std::ranges::any_of(watched_, [&](const auto& each) { return std::ranges::includes(each.second, labels); });
  });
  view.missing_labels = known->labels;
  for (const auto& [holder, labels] : watched_) {
    std::vector<std::string> missing;
    std::ranges::set_difference(known->labels, labels, std::back_inserter(missing));
    if (missing.size() < view.missing_labels.size())
      view.missing_labels = std::move(missing);
  }
  return view;
}

actor_status dispatcher::status() const {
  return {{"ready_jobs", index_.size()},
          {"ready_truncated", index_.truncated()},
          {"waiting_workers", waiting_.size()},
          {"open_claims", claims_.size()},
          {"held_attempts", held_.size()},
          {"granted", granted_},
          {"lost_races", lost_races_},
          {"unknown_claims", unknown_},
          {"capacity", capacity_ == INT64_MAX ? actor_status{} : actor_status(capacity_)},
          {"reserved_for", index_.reserved_for() ? actor_status(index_.reserved_for()->value) : actor_status{}},
          {"subscribed", subscribed_},
          {"draining", draining_}};
}

void dispatcher::on_stop() noexcept {
  const error gone{ec::timeout, "the dispatcher ended", {}};
  for (auto& each : waiting_)
    each.promise.deliver(expected<job_grant>{gone});
  for (auto& each : claims_) {
    if (each.asker)
      each.asker->promise.deliver(expected<job_grant>{gone});
  }
  waiting_.clear();
  claims_.clear();
  held_.clear();
  database_ = nullptr;
}

} // namespace kcx
