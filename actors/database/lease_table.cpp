#include "actors/database/lease_table.hpp"

namespace kcx {

void lease_table::add(leased_attempt held, time now, bool inherited) {
  remove(held.key.job);
  const auto job = held.key.job.value;
  const auto ends = now + held.lease;
  leases_.emplace(job, lease{std::move(held), now, ends, inherited});
  ends_.emplace(ends, job);
}

std::optional<attempt_key> lease_table::remove(job_id job) {
  const auto found = leases_.find(job.value);
  if (found == leases_.end())
    return std::nullopt;
  const auto key = found->second.held.key;
  ends_.erase({found->second.ends, job.value});
  leases_.erase(found);
  return key;
}

lease_table::lease* lease_table::find(attempt_key key, std::uint64_t nonce) {
  const auto found = leases_.find(key.job.value);
  if (found == leases_.end() || found->second.held.key != key || found->second.held.nonce != nonce)
    return nullptr;
  return &found->second;
}

const lease_table::lease* lease_table::find(attempt_key key) const {
  const auto found = leases_.find(key.job.value);
  return found == leases_.end() || found->second.held.key != key ? nullptr : &found->second;
}

void lease_table::renew(lease& which, time now) {
  const auto job = which.held.key.job.value;
  ends_.erase({which.ends, job});
  which.ends = now + which.held.lease;
  ends_.emplace(which.ends, job);
}

std::vector<attempt_key> lease_table::expired(time now, std::size_t limit) const {
  std::vector<attempt_key> found;
  for (const auto& [ends, job] : ends_) {
    if (now < ends || found.size() == limit)
      break;
    found.push_back(leases_.at(job).held.key);
  }
  return found;
}

std::optional<lease_table::time> lease_table::next_end() const {
  return ends_.empty() ? std::nullopt : std::optional{ends_.begin()->first};
}

std::vector<leased_attempt> lease_table::all() const {
  std::vector<leased_attempt> found;
  found.reserve(leases_.size());
  for (const auto& [job, each] : leases_)
    found.push_back(each.held);
  return found;
}

} // namespace kcx
