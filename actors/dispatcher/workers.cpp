// The part of the dispatcher that knows the node's own workers.
#include "actors/dispatcher/dispatcher.hpp"
#include "actors/dispatcher/errors.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

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
    // Its former self may have been granted something after the database had ended what it held.
    if (lost_.erase(asker.request.worker) > 0)
      caf::anon_send(database_, abandon_atom_v, asker.request.worker);
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

std::int64_t dispatcher::filled(const std::string& worker, std::int32_t weight) const {
  // The slot of a cordoned worker is no part of the capacity: its job fills that, and of the others' the rest.
  return index_.limited(is_cordoned(worker) ? weight - 1 : weight);
}

std::int64_t dispatcher::free_slots() const {
  auto free = capacity_;
  for (const auto& [key, each] : held_)
    free -= filled(each.worker, each.weight);
  for (const auto& each : claims_) {
    if (each.job)
      free -= filled(each.request.worker, each.job->weight);
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
    if (each.holder.address() != down.source)
      continue;
    orphans.push_back(key);
    if (!each.grant)
      continue;
    // Who ends in peace has done with all that it took: it had not heard of this one yet.
    if (down.reason)
      lost_.insert(each.worker);
    else
      give_back(key);
  }
  // The others their supervisor has marked; here only the slots come free.
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
  drain_remote();
  lend();
}

} // namespace kcx
