#include "actors/database/database.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

/// How many ready jobs one snapshot carries, and one refill.
constexpr std::size_t window = 10'000;
constexpr std::size_t refill_window = 5'000;

/// Held attempts ended per round of abandon(): a worker holds one, so one round is the rule.
constexpr std::size_t abandon_round = 100;

constexpr std::size_t promote_round = 500;

/// Jobs removed by retention per message: a submission that comes meanwhile waits for no more than these.
constexpr std::size_t removal_round = 50;

} // namespace

database::database(caf::actor_config& cfg, std::unique_ptr<job_store> store, database_options options)
  : actor_base{cfg, "database"}, store_{std::move(store)}, options_{std::move(options)} {
  set_exit_handler([this](caf::exit_msg& stop) {
    // A stop is orderly: what was done is made durable. A crash (exception) does not come through here.
    flush();
    quit(std::move(stop.reason));
  });
  set_down_handler([this](const caf::down_msg& down) {
    std::erase_if(change_listeners_, [&](const auto& each) { return each.address() == down.source; });
  });
}

database::behavior_type database::make_behavior() {
  look_at_paused();
  load_leases();
  return {
    [this](enqueue_atom, const submission& asked) {
      return write<expected<accepted_jobs>>([&] { return enqueue(asked); });
    },
    [this](enqueue_atom, const submissions& asked) {
      return write<expected<submission_results>>([&] { return enqueue_each(asked); });
    },
    [this](claim_atom, const claim_request& request) {
      return write<expected<job_grant>>([&] { return claim(request); });
    },
    [this](start_atom, attempt_key key) {
      return write_patiently<outcome>([&] { return store_->confirm_start(key, now()); });
    },
    [this](step_atom, attempt_key key, const step_record& step) {
      return write_patiently<outcome>([&] { return store_->record_step(key, step); });
    },
    [this](complete_atom, const attempt_result& result) {
      return write<expected<transition_result>>([&] { return complete(result); });
    },
    [this](exchange_atom, const work_exchange& wanted) {
      return write<expected<exchange_result>>([&] { return exchange(wanted); });
    },
    [this](renew_atom, const std::vector<lease_token>& tokens) { return renew(tokens); },
    [this](get_atom, const lease_token& token) { return write<expected<job_grant>>([&] { return grant_of(token); }); },
    [this](offer_atom, const work_offers& given) { offer(given); },
    [this](abandon_atom, const std::string& worker) { return write<outcome>([&] { return abandon(worker); }); },
    [this](cancel_atom, job_id job, const std::string& who) {
      return write<expected<transition_result>>([&] { return cancel(job, who); });
    },
    [this](update_atom, job_id job, const job_patch& patch) {
      return write<expected<transition_result>>([&] { return update(job, patch); });
    },
    [this](retry_atom, const retry_request& wanted) {
      return write<expected<job_record>>([&] { return retry(wanted); });
    },
    [this](discard_atom, job_id job) { return write<outcome>([&] { return store_->discard_dead_letter(job); }); },
    [this](bulk_atom, const bulk_request& wanted) {
      return write<expected<std::vector<bulk_result>>>([&] { return bulk(wanted); });
    },
    [this](pause_atom, const std::string& queue, const std::string& who) {
      return write<outcome>([&] { return pause(queue, who); });
    },
    [this](resume_atom, const std::string& queue) { return write<outcome>([&] { return resume(queue); }); },
    [this](remove_atom, job_id job) { return write<expected<removed_job>>([&] { return store_->remove(job); }); },
    [this](remove_atom, const retention_policy& policy) {
      return write<expected<std::vector<removed_job>>>(
        [&] { return store_->remove_expired(policy, options_.clock(), removal_round); });
    },
    [this](token_atom, const new_token& token) {
      return write<expected<token_record>>([&] { return store_->add_token(token, now()); });
    },
    [this](revoke_atom, std::int64_t token) { return write<outcome>([&] { return store_->remove_token(token); }); },
    [this](token_atom, const token_uses& uses) { return write<outcome>([&] { return store_->touch_tokens(uses); }); },
    [this](webhook_atom, const std::string& project, const webhook_spec& hook) {
      return write<outcome>([&] { return store_->put_webhook(project, hook, now()); });
    },
    [this](webhook_atom, const std::string& project) {
      return write<outcome>([&] { return store_->remove_webhook(project); });
    },
    [this](deliver_atom, const delivery_try& tried) {
      return write<outcome>([&] { return store_->note_delivery(tried); });
    },
    [this](deliver_atom, std::int64_t delivery) {
      return write<outcome>([&] { return store_->redeliver(delivery, now()); });
    },
    [this](promote_atom) { return write<expected<std::optional<timestamp>>>([&] { return promote(); }); },
    [this](checkpoint_atom) { return checkpoint(); },
    [this](subscribe_atom, const ready_listener_actor& listener) { return subscribe(listener); },
    [this](refill_atom, const ready_job& last) { return refill(last); },
    [this](subscribe_atom, const change_listener_actor& listener) {
      if (std::ranges::find(change_listeners_, listener) == change_listeners_.end()) {
        monitor(listener);
        change_listeners_.push_back(listener);
      }
    },
    [this](flush_atom) {
      flush_pending_ = false;
      flush();
    },
    [this](tick_atom) {
      late_flush_pending_ = false;
      flush();
    },
    [this](sweep_atom, bool renewals_are_in) { sweep(renewals_are_in); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

// -- handlers ---------------------------------------------------------------------------------------------------------

outcome database::admit() {
  auto admitted = options_.admit(store_->owed_bytes());
  const bool full = !admitted;
  if (full != std::exchange(disk_full_, full)) {
    if (full)
      spdlog::error("database: {}", admitted.error().message);
    else
      spdlog::info("database: there is space again; new work is taken");
  }
  return admitted;
}

expected<accepted_jobs> database::enqueue(const submission& asked) {
  if (auto admitted = admit(); !admitted)
    return refused(asked, admitted.error());
  // Whether a start time lies ahead is the wall clock's to say; order is now()'s.
  const bool timed = std::ranges::any_of(asked.specs, [](const auto& each) { return each.run_at.has_value(); });
  const auto at = timed ? options_.clock() : now();
  auto accepted = store_->submit(asked, at);
  if (accepted) {
    batch_.inserted(*accepted, at);
    if (auto handed = hand_over(*accepted, at); !handed)
      return std::move(handed).error();
  }
  return accepted;
}

expected<accepted_jobs> database::refused(const submission& asked, const error& why) {
  // What was stored before needs no room.
  if (!asked.once)
    return why;
  auto before = store_->submitted_before(*asked.once, now());
  if (!before)
    return std::move(before).error();
  return *before ? expected<accepted_jobs>{std::move(**before)} : why;
}

expected<submission_results> database::enqueue_each(const submissions& asked) {
  submission_results results;
  results.reserve(asked.size());
  for (const auto& each : asked) {
    results.push_back(enqueue(each));
    // What the engine undid with the failed one is not told as done.
    if (const auto& last = results.back(); !last && !store_->in_transaction())
      return last.error();
  }
  return results;
}

expected<job_grant> database::claim(const claim_request& request) {
  // Who only asks for a grant that it may have already brings no new work.
  if (request.job.value != 0) {
    if (auto admitted = admit(); !admitted)
      return admitted.error();
  }
  // Whoever asks in the ordinary way waits no longer: the offer must not get it a second job.
  std::erase_if(offers_, [&](const auto& each) { return each.nonce == request.nonce; });
  const auto at = now();
  auto grant = claim_stored(request, at);
  if (grant)
    batch_.claimed(*grant, request, at);
  return grant;
}

expected<job_grant> database::claim_stored(const claim_request& request, timestamp at) {
  auto grant = store_->claim(request, at);
  if (!grant || !grant->ended)
    return grant;
  const auto name = "job " + std::to_string(grant->key.job.value);
  spdlog::error("database: {} failed: what is stored of it cannot be read", name);
  batch_.moved(*grant->ended);
  return error{ec::not_ready, name + " cannot be read", {}};
}

expected<transition_result> database::complete(const attempt_result& result) {
  auto moved = store_->finish(result, now());
  if (moved)
    batch_.moved(*moved);
  return moved;
}

outcome database::abandon(const std::string& worker) {
  std::erase_if(offers_, [&](const auto& each) { return !each.lease && each.worker == worker; });
  for (;;) {
    auto ended = store_->end_held(worker, attempt_outcome::worker_crashed, now(), abandon_round, options_.log_of);
    if (!ended)
      return std::move(ended).error();
    if (ended->empty())
      return kcx::done{};
    for (const auto& each : *ended)
      batch_.moved(each);
  }
}

expected<transition_result> database::cancel(job_id job, const std::string& who) {
  auto moved = store_->cancel(job, who, now());
  if (moved)
    batch_.moved(*moved);
  return moved;
}

expected<transition_result> database::update(job_id job, const job_patch& patch) {
  auto changed = store_->update(job, patch, now());
  if (changed)
    batch_.updated(*changed);
  return changed;
}

expected<job_record> database::retry(const retry_request& wanted) {
  if (auto admitted = admit(); !admitted)
    return admitted.error();
  const auto at = now();
  auto job = store_->retry(wanted.job, wanted.secrets, at, wanted.what);
  if (job) {
    accepted_jobs again;
    again.jobs.push_back(*job);
    batch_.inserted(again, at);
    if (auto handed = hand_over(again, at); !handed)
      return std::move(handed).error();
  }
  return job;
}

expected<std::vector<bulk_result>> database::bulk(const bulk_request& wanted) {
  std::vector<bulk_result> results;
  results.reserve(wanted.jobs.size());
  for (const auto job : wanted.jobs) {
    results.push_back(bulk_one(wanted, job));
    // What the engine undid with the failed one is not told as done.
    if (const auto& failure = results.back().failure; failure && !store_->in_transaction())
      return *failure;
  }
  return results;
}

bulk_result database::bulk_one(const bulk_request& wanted, job_id job) {
  bulk_result result{job};
  switch (wanted.action) {
  case bulk_action::cancel:
    if (const auto moved = cancel(job, wanted.who))
      result.state = moved->change.state;
    else
      result.failure = moved.error();
    break;
  case bulk_action::requeue:
    if (const auto again = retry({job, {}, retry_what::dead_letter})) {
      result.state = again->state;
      result.created = again->id;
    } else {
      result.failure = again.error();
    }
    break;
  case bulk_action::discard:
    if (const auto gone = store_->discard_dead_letter(job); !gone)
      result.failure = gone.error();
    break;
  }
  return result;
}

outcome database::pause(const std::string& queue, const std::string& who) {
  auto stored = store_->pause_queue(queue, who, now());
  if (stored)
    batch_.paused(queue);
  return stored;
}

outcome database::resume(const std::string& queue) {
  auto stored = store_->resume_queue(queue);
  if (stored)
    batch_.resumed();
  return stored;
}

expected<std::optional<timestamp>> database::promote() {
  // By the clock as it is: what now() holds on to after a step back would start jobs early.
  auto promoted = store_->promote_due(options_.clock(), promote_round);
  if (!promoted)
    return std::move(promoted).error();
  batch_.promoted(*promoted);
  return promoted->next_due;
}

expected<std::int64_t> database::checkpoint() {
  flush();
  since_checkpoint_ = 0;
  auto left = store_->checkpoint();
  if (left)
    wal_bytes_ = *left;
  return left;
}

expected<ready_snapshot> database::subscribe(const ready_listener_actor& listener) {
  // What is in the open batch must be told exactly once: commit it before the snapshot, under the old subscription.
  flush();
  ready_listener_ = listener;
  auto ready = store_->ready_jobs(window);
  if (!ready)
    return std::move(ready).error();
  ready_snapshot snapshot{notice_number_, std::move(*ready), {}, leases_.all()};
  for (const auto& [job, attempt] : cancelling_)
    snapshot.cancelled.push_back({job, attempt});
  return snapshot;
}

expected<ready_snapshot> database::refill(const ready_job& last) {
  flush();
  auto jobs = store_->ready_jobs_behind(last, refill_window);
  if (!jobs)
    return std::move(jobs).error();
  return ready_snapshot{notice_number_, std::move(*jobs), {}, {}};
}

actor_status database::status() const {
  const auto in_ms = [](std::chrono::nanoseconds span) {
    return std::chrono::duration<double, std::milli>(span).count();
  };
  return {{"commits", commits_},
          {"failed_commits", failed_commits_},
          {"operations", operations_},
          {"largest_batch", largest_batch_},
          {"commit_ms_total", in_ms(commit_time_)},
          {"commit_ms_longest", in_ms(longest_commit_)},
          {"wal_bytes", wal_bytes_},
          {"leases", leases_.size()},
          {"expired_leases", expired_leases_},
          {"handed_over", handed_over_},
          // As it is now: nobody may have asked for a while.
          {"damage", damage_.empty() ? actor_status() : actor_status(damage_)},
          {"disk_full", !options_.admit(store_->owed_bytes())}};
}

timestamp database::now() {
  latest_ = std::max(latest_, options_.clock());
  return latest_;
}

void database::on_stop() noexcept {
  const error unknown{ec::outcome_unknown, "the database connection ended before the write was confirmed", {}};
  // Closing rolls back what is open, and must come before the answers: who asks again must find the file free.
  store_.reset();
  std::exchange(batch_, {}).settle_all(&unknown);
  ready_listener_ = nullptr;
  change_listeners_.clear();
}

} // namespace kcx
