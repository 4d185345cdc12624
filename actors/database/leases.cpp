// The part of the database actor that knows workers elsewhere, by their leases, and workers that wait, by their offers.
#include "actors/database/database.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

namespace {

/// Leases ended per commit: others' writes get in between.
constexpr std::size_t sweep_round = 500;

/// Before a sweep that failed is tried again.
constexpr std::chrono::seconds sweep_pause{1};

error not_held(attempt_key key) {
  return {ec::stale_attempt,
          "attempt " + std::to_string(key.attempt) + " of job " + std::to_string(key.job.value) +
            " is not held by this claim (any more)",
          {}};
}

} // namespace

// -- leases -----------------------------------------------------------------------------------------------------------

void database::load_leases() {
  auto held = store_->leased_attempts();
  if (!held) {
    spdlog::error("database: cannot read which jobs are held by leases: {}", held.error().message);
    return;
  }
  // Each anew and in full: its worker could not renew it while the node was away.
  const auto now = options_.boot_clock();
  for (auto& each : *held) {
    if (each.cancelling)
      cancelling_[each.key.job] = each.key.attempt;
    leases_.add(std::move(each), now, true);
  }
  plan_sweep();
}

expected<exchange_result> database::exchange(const work_exchange& wanted) {
  exchange_result answer;
  auto refused = false;
  for (const auto& each : wanted.ended) {
    answer.ended.push_back(finish_leased(each));
    refused = refused || !answer.ended.back();
    // What the engine undid with the failed one is not told as done.
    if (!answer.ended.back() && !store_->in_transaction())
      return answer.ended.back().error();
  }
  for (const auto& each : wanted.wanted) {
    if (refused && wanted.claim_if_ended) {
      answer.granted.emplace_back(error{ec::conflict, "what was reported with this claim was refused", {}});
      continue;
    }
    answer.granted.push_back(claim(each));
    if (!answer.granted.back() && !store_->in_transaction() && !batch_.empty())
      return answer.granted.back().error();
  }
  return answer;
}

expected<transition_result> database::finish_leased(attempt_result result) {
  const auto* lease = leases_.find(result.key, result.nonce.value_or(0));
  if (result.log.bytes < 0)
    result.log =
      lease != nullptr && options_.log_of ? options_.log_of(result.key).value_or(log_summary{}) : log_summary{};
  if (lease != nullptr) {
    // What was begun is not undone by giving it back: its on_interrupt decides, as when a node stops.
    if (result.outcome == attempt_outcome::not_started && lease->held.confirmed)
      result.outcome = attempt_outcome::node_stopped;
    if (result.outcome != attempt_outcome::not_started && !result.started_at && !lease->held.confirmed)
      result.started_at = lease->held.claimed_at;
    if (result.duration < std::chrono::milliseconds{0})
      result.duration = lease->inherited
                          ? now() - lease->held.claimed_at
                          : std::chrono::duration_cast<std::chrono::milliseconds>(options_.boot_clock() - lease->began);
  }
  hide_secrets(result);
  return complete(result);
}

void database::hide_secrets(attempt_result& result) {
  if (result.message.empty() && result.outputs.empty())
    return;
  const auto grant = grant_of({result.key, result.nonce.value_or(0)});
  if (!grant || grant->spec.secrets.empty())
    return;
  std::vector<std::string> values;
  for (const auto& [name, value] : grant->spec.secrets)
    values.push_back(value);
  result.message = options_.mask(values, result.message);
  // As of a local job: one that holds a secret is left out, for others would get it as a variable.
  std::erase_if(result.outputs, [&](const auto& each) {
    const auto line = each.first + '=' + each.second;
    return options_.mask(values, line) != line;
  });
}

caf::typed_response_promise<expected<std::vector<renewal>>> database::renew(const std::vector<lease_token>& tokens) {
  const auto at = options_.boot_clock();
  std::vector<renewal> answers;
  auto first = false;
  for (const auto& token : tokens) {
    auto& answer = answers.emplace_back();
    auto* lease = leases_.find(token.key, token.nonce);
    if (lease == nullptr) {
      answer.failure = not_held(token.key);
      continue;
    }
    leases_.renew(*lease, at);
    answer.lease = lease->held.lease;
    answer.cancel = cancelling_.contains(token.key.job);
    first = first || !lease->held.confirmed;
  }
  if (first)
    return write<expected<std::vector<renewal>>>([&] { return confirm(std::move(answers), tokens); });
  auto promise = make_response_promise<expected<std::vector<renewal>>>();
  promise.deliver(expected<std::vector<renewal>>{std::move(answers)});
  return promise;
}

expected<std::vector<renewal>> database::confirm(std::vector<renewal> answers, const std::vector<lease_token>& tokens) {
  std::vector<lease_token> stored;
  std::optional<error> failure;
  for (std::size_t i = 0; i < tokens.size() && !failure; ++i) {
    const auto* lease = leases_.find(tokens[i].key, tokens[i].nonce);
    if (lease == nullptr || lease->held.confirmed)
      continue;
    const auto confirmed = store_->confirm_start(tokens[i].key, now());
    if (confirmed)
      stored.push_back(tokens[i]);
    else if (confirmed.error().code == ec::stale_attempt) // Its end is in the open batch.
      answers[i].failure = confirmed.error();
    else
      failure = confirmed.error();
  }
  // Also where a later one failed, unless that undid them: they have started, and must not count as never started.
  if (!stored.empty() && store_->in_transaction())
    batch_.add([this, stored](const error* undone) {
      for (const auto& token : stored)
        if (auto* lease = leases_.find(token.key, token.nonce); undone == nullptr && lease != nullptr)
          lease->held.confirmed = true;
    });
  if (failure)
    return *std::move(failure);
  return answers;
}

expected<job_grant> database::grant_of(const lease_token& token) {
  const auto* lease = leases_.find(token.key, token.nonce);
  if (lease == nullptr)
    return not_held(token.key);
  // By the nonce alone: a job that was given back in the open batch is ready again, and must not be claimed by this.
  auto grant = claim_stored({job_id{0}, lease->held.worker, token.nonce}, now());
  if (!grant && grant.error().code == ec::not_ready)
    return not_held(token.key);
  return grant;
}

// -- the sweep --------------------------------------------------------------------------------------------------------

void database::sweep(bool renewals_are_in) {
  const auto now = options_.boot_clock();
  // One that comes ahead of its time belongs to an earlier plan; another one is on its way.
  if (!renewals_are_in && (sweep_posted_ || (sweep_at_ && now < *sweep_at_)))
    return;
  const auto gone = leases_.expired(now, sweep_round);
  // While a slow disk held this actor up, renewals have waited behind this very message: they come first. Once only,
  // or two of them would end the same leases before the commit that removes these.
  sweep_posted_ = !gone.empty() && !renewals_are_in;
  if (sweep_posted_) {
    caf::anon_send(database_actor{this}, sweep_atom_v, true);
    return;
  }
  sweep_at_.reset();
  if (gone.empty())
    return plan_sweep();
  expire(gone);
  // The commit plans the next one; this is for the case that it fails.
  sweep_at_ = now + sweep_pause;
  delayed_send(this, sweep_pause, sweep_atom_v, false);
}

void database::expire(const std::vector<attempt_key>& gone) {
  post_flush();
  for (const auto key : gone) {
    const auto* lease = leases_.find(key);
    attempt_result result;
    result.key = key;
    const auto log = options_.log_of ? options_.log_of(key) : std::nullopt;
    result.log = log.value_or(log_summary{});
    // A log proves a start whose confirmation did not get here.
    const auto started = lease->held.confirmed || log.has_value();
    result.outcome = started ? attempt_outcome::lease_expired : attempt_outcome::not_started;
    result.duration = std::chrono::milliseconds{-1};
    result.nonce = lease->held.nonce;
    spdlog::warn("database: the lease of {} on job {} ran out", lease->held.worker, key.job.value);
    const auto moved = finish_leased(result);
    if (moved) {
      ++expired_leases_;
    } else if (moved.error().code == ec::stale_attempt || moved.error().code == ec::gone) {
      leases_.remove(key.job);
    } else {
      spdlog::error("database: the end of a lease was not stored: {}", moved.error().message);
      check_transaction(moved.error());
      break;
    }
  }
}

void database::plan_sweep() {
  const auto next = leases_.next_end();
  if (!next || (sweep_at_ && *sweep_at_ <= *next))
    return;
  const auto now = options_.boot_clock();
  sweep_at_ = std::max(*next, now);
  delayed_send(this, std::chrono::ceil<std::chrono::milliseconds>(*sweep_at_ - now), sweep_atom_v, false);
}

// -- offers -----------------------------------------------------------------------------------------------------------

void database::offer(const work_offers& given) {
  offers_.clear();
  if (given.seen < offers_void_until_)
    return; // Whoever made them will hear why, and make others.
  offers_ = given.offers;
  offered_slots_ = given.free;
  for (const auto& used : batch_.handed())
    std::erase_if(offers_, [&](const auto& each) { return each.nonce == used.nonce; });
}

std::vector<work_offer>::iterator database::offer_for(const job_record& job) {
  auto labels = job.spec.labels;
  std::ranges::sort(labels);
  const auto fits = [&](const work_offer& each) {
    const auto weight = std::min<std::int64_t>(job.spec.weight, each.capacity);
    return weight <= each.free && (each.lease || weight <= offered_slots_) &&
           std::ranges::includes(each.labels, labels) &&
           (each.queues.empty() || std::ranges::binary_search(each.queues, job.spec.queue));
  };
  return std::ranges::find_if(offers_, fits);
}

outcome database::hand_over(const accepted_jobs& accepted, timestamp at) {
  // One job at a time: with others that are ready and not told of yet, the dispatcher decides whose turn it is.
  if (offers_.empty() || batch_.ready_again() || batch_.ready().size() != 1)
    return kcx::done{};
  const auto is_queued = [&](const auto& job) { return job.state == job_state::queued && accepted.is_new(job.id); };
  const auto job = std::ranges::find_if(accepted.jobs, is_queued);
  // One of a group becomes ready at the end of the commit, and may come first.
  if (job == accepted.jobs.end() || job->id != batch_.ready().front().id ||
      std::ranges::any_of(std::next(job), accepted.jobs.end(),
                          [&](const auto& each) { return is_queued(each) && each.id != job->id; }))
    return kcx::done{};
  const auto with = offer_for(*job);
  if (with == offers_.end())
    return kcx::done{};
  const claim_request request{job->id, with->worker, with->nonce, with->lease, false, with->labels};
  const auto grant = claim_stored(request, at);
  if (!grant && !store_->in_transaction())
    return grant.error(); // The job itself is gone with it.
  if (!grant)
    return kcx::done{}; // Its queue is paused: it waits like any other.
  if (!with->lease)
    offered_slots_ -= std::min<std::int64_t>(job->spec.weight, with->capacity);
  offers_.erase(with);
  batch_.claimed(*grant, request, at);
  batch_.handed(*grant);
  ++handed_over_;
  return kcx::done{};
}

// -- after the commit -------------------------------------------------------------------------------------------------

std::vector<attempt_key> database::settle_leases(const commit_batch& batch) {
  std::vector<attempt_key> released;
  for (const auto& change : batch.changes()) {
    if (is_held(change.state))
      continue;
    if (const auto key = leases_.remove(change.id))
      released.push_back(*key);
  }
  const auto now = options_.boot_clock();
  for (const auto& each : batch.leased())
    leases_.add(each, now);
  if (!released.empty() || !batch.leased().empty())
    plan_sweep();
  return released;
}

} // namespace kcx
