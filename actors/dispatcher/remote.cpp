// The part of the dispatcher that serves workers elsewhere, and lends workers that wait to the database.
#include "actors/dispatcher/dispatcher.hpp"
#include "actors/dispatcher/errors.hpp"
#include "actors/nonce.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

namespace {

/// Jobs granted in one commit at the most.
constexpr std::size_t most_granted = 1'000;

/// What choosing them may cost (ready_index::steps), some tens of milliseconds, before those found so far must do:
/// nobody else is heard meanwhile.
constexpr std::uint64_t most_steps = 100'000;

/// Names of workers elsewhere come from users: no more than this many are remembered.
constexpr std::size_t most_remembered = 10'000;

/// Workers lent at the same time: others' turn comes as these are used.
constexpr std::size_t most_offers = 64;

void normalize(std::vector<std::string>& names) {
  std::ranges::sort(names);
  const auto [first, last] = std::ranges::unique(names);
  names.erase(first, last);
}

job_taker taker_of(const remote_request& wanted) {
  return {wanted.labels, wanted.free, wanted.queues.empty() ? nullptr : &wanted.queues, wanted.capacity};
}

} // namespace

// -- asking -----------------------------------------------------------------------------------------------------------

dispatcher::exchange_promise dispatcher::ask_remote(const remote_request& request) {
  remote_question asker{++last_remote_, request, make_response_promise<expected<exchange_result>>()};
  auto promise = asker.promise;
  normalize(asker.request.labels);
  normalize(asker.request.queues);
  see_remote(asker.request);
  // Their share is free before the next job is chosen.
  for (const auto& each : request.ended)
    forget_remote(each.key);
  if (draining_) {
    if (request.ended.empty()) {
      promise.deliver(expected<exchange_result>{draining_error()});
      return promise;
    }
    asker.request.free = 0;
  }
  if (asker.request.wait > std::chrono::milliseconds{0})
    delayed_send(this, asker.request.wait, expire_atom_v, asker.id);
  auto jobs = take_for(asker);
  if (jobs.empty() && request.ended.empty())
    answer_or_wait(std::move(asker), {});
  else
    send_exchange(std::move(asker), std::move(jobs));
  match();
  return promise;
}

void dispatcher::see_remote(const remote_request& request) {
  if (remote_workers_.size() >= most_remembered) {
    const auto since = clock().now() - options_.remote_memory;
    std::erase_if(remote_workers_, [&](const auto& each) { return each.second.seen < since; });
  }
  if (request.free > 0 && (remote_workers_.size() < most_remembered || remote_workers_.contains(request.worker)))
    remote_workers_[request.worker] = {request.labels, clock().now() + request.wait};
}

std::vector<ready_job> dispatcher::take_for(remote_question& asker) {
  std::vector<ready_job> jobs;
  const auto& wanted = asker.request;
  auto free = wanted.free;
  asker.unserved = false;
  const auto begun = index_.steps();
  const auto goes_on = [&] {
    return jobs.size() < most_granted && (jobs.empty() || index_.steps() - begun < most_steps);
  };
  while (free > 0 && goes_on() && !draining_ && !holding_off_) {
    auto taker = taker_of(wanted);
    taker.free = free;
    auto job = index_.take(taker);
    if (!job) {
      asker.unserved = !index_.reserved_for();
      break;
    }
    free -= std::min<std::int64_t>(job->weight, wanted.capacity);
    jobs.push_back(*std::move(job));
  }
  return jobs;
}

void dispatcher::match_remote(const std::vector<job_kind>& news) {
  for (auto each = remote_waiting_.begin(); each != remote_waiting_.end();) {
    const auto here = each++;
    if (here->unserved && !any_fits(news, taker_of(here->request)))
      continue;
    auto jobs = take_for(*here);
    if (jobs.empty())
      continue;
    send_exchange(std::move(*here), std::move(jobs));
    remote_waiting_.erase(here);
  }
}

// -- claiming ---------------------------------------------------------------------------------------------------------

void dispatcher::send_exchange(remote_question asker, std::vector<ready_job> jobs) {
  work_exchange wanted{std::exchange(asker.request.ended, {}), {}, asker.request.claim_if_ended};
  for (const auto& job : jobs) {
    // The first one with the nonce of its offer, which can so be used once only.
    const bool lent = asker.nonce != 0 && wanted.wanted.empty();
    wanted.wanted.push_back({job.id, asker.request.worker, lent ? asker.nonce : new_nonce(), asker.request.lease, lent,
                             asker.request.labels});
  }
  remote_claims_.push_back({std::move(asker), std::move(jobs)});
  const auto which = std::prev(remote_claims_.end());
  request(database_, options_.request_timeout, exchange_atom_v, std::move(wanted))
    .then([this, which](expected<exchange_result>& answer) { exchanged(which, answer); },
          [this, which](const caf::error& why) {
            exchange_unknown(which, error{ec::outcome_unknown, caf::to_string(why), {}});
          });
}

void dispatcher::exchanged(remote_claim_list::iterator which, expected<exchange_result>& answer) {
  if (!answer && is_unknown(answer.error()))
    return exchange_unknown(which, answer.error());
  auto closed = std::move(*which);
  remote_claims_.erase(which);
  exchange_result told;
  auto trouble = false;
  if (answer) {
    std::ranges::move(answer->ended, std::back_inserter(closed.asker.ended));
    trouble = take_grants(closed, answer->granted, told);
  } else {
    for (const auto& job : closed.jobs)
      put_back(job, true);
    closed.asker.promise.deliver(expected<exchange_result>{answer.error()});
    trouble = true;
  }
  if (trouble) {
    holding_off_ = true;
    remind();
  }
  if (answer)
    answer_or_wait(std::move(closed.asker), std::move(told));
  refill_if_needed();
  match();
}

bool dispatcher::take_grants(remote_claim& asked, std::vector<expected<job_grant>>& answers, exchange_result& told) {
  auto trouble = false;
  for (std::size_t i = 0; i < answers.size() && i < asked.jobs.size(); ++i) {
    const auto& job = asked.jobs[i];
    auto& answer = answers[i];
    const bool same = answer && answer->key.job == job.id;
    const bool conflict = !answer && answer.error().code == ec::conflict;
    const bool trouble_now = !answer && is_storage_trouble(answer.error());
    if (!same)
      put_back(job, answer || conflict || trouble_now);
    if (answer) {
      told_meanwhile_.erase(answer->key.job);
      if (!same) {
        // The offer had got it another one: this one is ready as before.
        index_.hold(answer->spec.project, answer->spec.weight);
      }
      leased_[answer->key] = {answer->spec.project, answer->spec.weight};
      ++granted_;
      told.granted.push_back(std::move(answer));
    } else if (!conflict && !trouble_now) {
      ++lost_races_;
    }
    trouble = trouble || trouble_now;
  }
  return trouble;
}

void dispatcher::exchange_unknown(remote_claim_list::iterator which, const error& why) {
  // Whatever was claimed comes back when its lease runs out; what is ready now only the database knows.
  auto closed = std::move(*which);
  remote_claims_.erase(which);
  ++unknown_;
  for (const auto& job : closed.jobs)
    put_back(job, false);
  closed.asker.promise.deliver(expected<exchange_result>{error{ec::outcome_unknown, why.message, {}}});
  if (!subscribing_)
    subscribe();
}

void dispatcher::answer_or_wait(remote_question asker, exchange_result told) {
  const bool refused =
    asker.request.claim_if_ended && std::ranges::any_of(asker.ended, [](const auto& each) { return !each; });
  const bool ends = !told.granted.empty() || asker.request.free <= 0 || asker.expired || refused || draining_ ||
                    asker.request.wait <= std::chrono::milliseconds{0};
  if (!ends) {
    // A used or void offer is not lent again under its old name.
    asker.nonce = 0;
    asker.unserved = false;
    remote_waiting_.push_back(std::move(asker));
    return;
  }
  told.ended = std::move(asker.ended);
  asker.promise.deliver(expected<exchange_result>{std::move(told)});
}

void dispatcher::expire_remote(std::uint64_t id) {
  const auto found = std::ranges::find(remote_waiting_, id, &remote_question::id);
  if (found != remote_waiting_.end()) {
    auto asker = std::move(*found);
    remote_waiting_.erase(found);
    asker.expired = true;
    answer_or_wait(std::move(asker), {});
    lend();
    return;
  }
  for (auto& each : remote_claims_) {
    if (each.asker.id == id)
      each.asker.expired = true;
  }
}

void dispatcher::drain_remote() {
  for (auto& each : std::exchange(remote_waiting_, {})) {
    if (each.ended.empty())
      each.promise.deliver(expected<exchange_result>{draining_error()});
    else
      answer_or_wait(std::move(each), {});
  }
}

// -- what is held -----------------------------------------------------------------------------------------------------

void dispatcher::hold_remote(attempt_key key, const std::string& project, std::int32_t weight) {
  if (leased_.emplace(key, std::pair{project, weight}).second)
    index_.hold(project, weight);
}

void dispatcher::forget_remote(attempt_key key) {
  const auto found = leased_.find(key);
  if (found == leased_.end())
    return;
  index_.release(found->second.first, found->second.second);
  leased_.erase(found);
}

void dispatcher::take_leases(const std::vector<leased_attempt>& leased) {
  for (const auto& [key, each] : std::exchange(leased_, {}))
    index_.release(each.first, each.second);
  for (const auto& each : leased)
    hold_remote(each.key, each.project, each.weight);
}

// -- offers -----------------------------------------------------------------------------------------------------------

work_offers dispatcher::offers() {
  work_offers made{last_notice_, {}, free_slots()};
  // What is not known here may come first, and so does whatever waits for a worker: even a job too heavy for what it
  // has free, which those behind would else overtake for ever. Free slots that are kept for such a one are nobody's.
  if (!subscribed_ || draining_ || holding_off_ || refilling_ || index_.lanes_left_out() || index_.wants_refill())
    return made;
  if (reserved_for_)
    made.free = 0;
  for (auto& each : waiting_) {
    if (made.free <= 0 || !each.unserved || made.offers.size() == most_offers)
      continue;
    each.lent = true;
    made.offers.push_back(
      {each.request.worker, each.request.nonce, std::nullopt, each.request.labels, {}, made.free, capacity_});
  }
  for (auto& each : remote_waiting_) {
    if (made.offers.size() == 2 * most_offers)
      break;
    if (!each.unserved)
      continue;
    if (each.nonce == 0)
      each.nonce = new_nonce();
    const auto& asked = each.request;
    made.offers.push_back(
      {asked.worker, each.nonce, asked.lease, asked.labels, asked.queues, asked.free, asked.capacity});
  }
  return made;
}

void dispatcher::lend() {
  auto made = offers();
  std::vector<std::uint64_t> nonces;
  for (const auto& each : made.offers)
    nonces.push_back(each.nonce);
  if (nonces == lent_ && (nonces.empty() || made.free == lent_slots_))
    return;
  lent_ = std::move(nonces);
  lent_slots_ = made.free;
  send(database_, offer_atom_v, std::move(made));
}

void dispatcher::handed(const job_grant& grant) {
  if (hand_to_remote(grant))
    return;
  const auto found =
    std::ranges::find_if(waiting_, [&](const auto& each) { return each.request.nonce == grant.nonce; });
  if (found != waiting_.end()) {
    auto asker = std::move(*found);
    waiting_.erase(found);
    index_.hold(grant.spec.project, grant.spec.weight);
    ++granted_;
    held_[grant.key] = {asker.request.worker, grant.spec.project, grant.spec.weight, asker.holder, grant.nonce, grant};
    asker.promise.deliver(expected<job_grant>{grant});
    if (unclaimed_cancels_.erase(grant.key) > 0)
      cancel(grant.key);
    return;
  }
  // With a claim under way, its answer brings the same grant. Else its worker is gone, and nobody has seen it.
  const bool claiming =
    std::ranges::any_of(claims_, [&](const auto& each) { return each.request.nonce == grant.nonce; });
  const bool known = held_.contains(grant.key);
  if (!claiming && !known)
    give_back(grant.key);
}

bool dispatcher::hand_to_remote(const job_grant& grant) {
  const auto found = std::ranges::find(remote_waiting_, grant.nonce, &remote_question::nonce);
  if (found != remote_waiting_.end()) {
    auto asker = std::move(*found);
    remote_waiting_.erase(found);
    hold_remote(grant.key, grant.spec.project, grant.spec.weight);
    ++granted_;
    exchange_result told;
    told.granted.emplace_back(grant);
    answer_or_wait(std::move(asker), std::move(told));
    return true;
  }
  // The answer to its open claim brings the same grant.
  return std::ranges::any_of(remote_claims_, [&](const auto& each) { return each.asker.nonce == grant.nonce; });
}

} // namespace kcx
