// The part of the dispatcher that claims jobs for the node's own workers.
#include "actors/dispatcher/dispatcher.hpp"
#include "actors/dispatcher/errors.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

// -- claims -----------------------------------------------------------------------------------------------------------

void dispatcher::match() {
  if (draining_)
    index_.take_news().clear(); // Nobody waits for it.
  else if (!holding_off_)
    do {
      const auto news = index_.take_news();
      match_local(news);
      match_remote(news);
    } while (index_.has_news()); // A job that was taken has let another follow.
  lend();
}

void dispatcher::match_local(const std::vector<job_kind>& news) {
  reserved_for_.reset();
  auto free = free_slots();
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    const auto here = each++;
    const bool cordoned = is_cordoned(here->request.worker);
    if (!cordoned && here->unserved && !any_fits(news, {here->request.labels}))
      continue;
    here->unserved = false;
    if (cordoned)
      continue;
    auto job = index_.take(here->request.labels, free);
    if (job) {
      free -= index_.limited(job->weight);
      auto asker = std::move(*here);
      waiting_.erase(here);
      open_claim(std::move(asker), std::move(job));
    } else if (index_.reserved_for()) {
      reserved_for_ = index_.reserved_for();
    } else {
      here->unserved = true;
    }
  }
}

void dispatcher::open_claim(question asker, std::optional<ready_job> job) {
  claim_request wanted{job ? job->id : job_id{}, asker.request.worker, asker.request.nonce, std::nullopt, asker.lent,
                       asker.request.labels};
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
  trouble_ = answer || !is_storage_trouble(answer.error()) ? std::string{} : answer.error().message;
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
  if (closed.job && closed.job->id != key.job) {
    // An offer had got it another one: this one is ready as before.
    put_back(*closed.job, true);
    closed.job.reset();
  }
  told_meanwhile_.erase(key.job);
  if (!closed.asker) {
    if (closed.job)
      index_.release(closed.job->project, closed.job->weight);
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
    put_back(*closed.job, is_storage_trouble(why));
  if (is_storage_trouble(why)) {
    holding_off_ = true;
    remind();
  } else if (closed.job) {
    ++lost_races_;
  }
  if (closed.asker)
    wait_again(std::move(*closed.asker));
}

void dispatcher::put_back(const ready_job& taken, bool still_ready) {
  index_.release(taken.project, taken.weight);
  if (const auto told = told_meanwhile_.extract(taken.id))
    index_.add(told.mapped());
  else if (still_ready)
    index_.add(taken);
}

void dispatcher::wait_again(question asker) {
  // In front: it has waited longest. Whether an earlier grant exists is known now.
  asker.request.repeat = false;
  asker.unserved = false;
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

} // namespace kcx
