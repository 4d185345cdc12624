#include "actors/database/commit_batch.hpp"

namespace kcx {

void commit_batch::inserted(const accepted_jobs& accepted, timestamp now) {
  for (const auto& each : accepted.others)
    moved(each);
  job_id last;
  for (const auto& job : accepted.jobs) {
    // New ids ascend: one that does not stands in the array once more, for the sake of its unique key.
    if (!accepted.is_new(job.id) || job.id <= last)
      continue;
    last = job.id;
    if (job.state == job_state::queued && job.spec.group.empty())
      ready_.push_back(to_ready(job));
    const bool timed = job.state == job_state::scheduled || job.spec.wait_limit.has_value();
    changes_.push_back({job.id, job.state, job.reason, 0, {}, now, timed});
  }
}

void commit_batch::claimed(const job_grant& grant, const claim_request& request, timestamp now) {
  if (grant.repeated)
    return;
  gone(grant.key.job);
  changes_.push_back({grant.key.job, job_state::running, job_reason::none, grant.key.attempt, request.worker, now});
  if (request.lease)
    leased_.push_back({grant.key, grant.nonce, request.worker, grant.spec.project, grant.spec.weight, *request.lease,
                       now, false, false});
}

void commit_batch::moved(const transition_result& result) {
  if (result.repeated)
    return;
  const auto& change = result.change;
  ready_again_ = ready_again_ || result.ready.has_value();
  if (result.ready)
    ready_.push_back(*result.ready);
  else if (change.state == job_state::cancelling)
    cancelled_.push_back({change.id, change.attempt});
  else
    gone(change.id);
  changes_.push_back(change);
}

void commit_batch::gone(job_id job) {
  // A job that became ready in this very batch is in neither list for a listener that hears of both at once.
  if (std::erase_if(ready_, [&](const ready_job& each) { return each.id == job; }) == 0)
    gone_.push_back(job);
}

void commit_batch::paused(const std::string& queue) {
  std::erase_if(ready_, [&](const ready_job& each) { return each.queue == queue; });
  paused_.push_back(queue);
}

void commit_batch::resumed() {
  resumed_ = true;
}

void commit_batch::updated(const transition_result& result) {
  // Away from its old place, wherever it stands now.
  gone(result.change.id);
  ready_again_ = ready_again_ || result.ready.has_value();
  if (result.ready)
    ready_.push_back(*result.ready);
  changes_.push_back(result.change);
}

void commit_batch::promoted(const promotion& result) {
  for (const auto& change : result.changes) {
    if (is_final(change.state))
      gone(change.id);
  }
  ready_again_ = ready_again_ || !result.ready.empty();
  ready_.insert(ready_.end(), result.ready.begin(), result.ready.end());
  changes_.insert(changes_.end(), result.changes.begin(), result.changes.end());
}

void commit_batch::followed(const follow_up& result) {
  for (const auto& each : result.moved)
    moved(each);
  ready_again_ = ready_again_ || !result.heads.empty();
  ready_.insert(ready_.end(), result.heads.begin(), result.heads.end());
  ready_.insert(ready_.end(), result.followers.begin(), result.followers.end());
}

void commit_batch::settle_all(const error* failure) const {
  for (const auto& answer : answers_)
    answer(failure);
}

} // namespace kcx
