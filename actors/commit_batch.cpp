#include "actors/commit_batch.hpp"

namespace kcx {

void commit_batch::inserted(const std::vector<job_record>& jobs, timestamp now) {
  for (const auto& job : jobs) {
    if (job.state == job_state::queued)
      ready_.push_back(to_ready(job));
    changes_.push_back({job.id, job.state, job.reason, 0, {}, now});
  }
}

void commit_batch::claimed(const job_grant& grant, const std::string& worker, timestamp now) {
  if (grant.repeated)
    return;
  // A job that became ready in this very batch is in neither list for a listener that hears of both at once.
  if (std::erase_if(ready_, [&](const ready_job& each) { return each.id == grant.key.job; }) == 0)
    gone_.push_back(grant.key.job);
  changes_.push_back({grant.key.job, job_state::running, job_reason::none, grant.key.attempt, worker, now});
}

void commit_batch::moved(const transition_result& result) {
  if (result.repeated)
    return;
  const auto& change = result.change;
  if (result.ready)
    ready_.push_back(*result.ready);
  else if (change.state == job_state::cancelling)
    cancelled_.push_back({change.id, change.attempt});
  else if (std::erase_if(ready_, [&](const ready_job& each) { return each.id == change.id; }) == 0)
    gone_.push_back(change.id);
  changes_.push_back(change);
}

void commit_batch::promoted(const promotion& result) {
  ready_.insert(ready_.end(), result.ready.begin(), result.ready.end());
  changes_.insert(changes_.end(), result.changes.begin(), result.changes.end());
}

void commit_batch::settle_all(const error* failure) const {
  for (const auto& answer : answers_)
    answer(failure);
}

} // namespace kcx
