// What the dispatcher tells about itself and about a job that waits.
#include "actors/dispatcher/dispatcher.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

void dispatcher::each_worker(const std::function<void(const std::vector<std::string>&)>& what) const {
  for (const auto& [holder, labels] : watched_)
    what(labels);
  const auto since = clock().now() - options_.remote_memory;
  for (const auto& [name, each] : remote_workers_) {
    if (each.seen >= since)
      what(each.labels);
  }
}

void dispatcher::find_idle(const ready_job& job, dispatch_view& view) const {
  view.free = view.idle_workers = 0;
  std::optional<std::int64_t> spare;
  const auto look_at = [&](const std::vector<std::string>& labels, std::int64_t free, std::int64_t capacity) {
    if (!std::ranges::includes(labels, job.labels))
      return;
    const auto left = free - std::min<std::int64_t>(job.weight, capacity);
    view.idle_workers += left >= 0 ? 1 : 0;
    if (spare && left <= *spare)
      return;
    spare = left;
    view.free = free;
    view.capacity = capacity;
  };
  const auto free = std::max<std::int64_t>(free_slots(), 0);
  for (const auto& each : waiting_) {
    if (!is_cordoned(each.request.worker))
      look_at(each.request.labels, free, capacity_);
  }
  for (const auto& each : remote_waiting_) {
    const auto& asked = each.request;
    if (asked.queues.empty() || std::ranges::binary_search(asked.queues, job.queue))
      look_at(asked.labels, asked.free, asked.capacity);
  }
}

dispatch_view dispatcher::why(job_id job) const {
  constexpr std::int64_t most = 10'000;
  dispatch_view view;
  view.ready = static_cast<std::int64_t>(index_.size());
  view.capacity = capacity_;
  view.free = std::max<std::int64_t>(free_slots(), 0);
  each_worker([&](const auto&) { ++view.workers; });
  view.idle_workers =
    std::ranges::count_if(waiting_, [this](const auto& each) { return !is_cordoned(each.request.worker); }) +
    static_cast<std::int64_t>(remote_waiting_.size());
  view.reserved_for = reserved_for_;
  view.draining = draining_;
  view.trouble = trouble_;
  view.claiming = is_claimed(job);
  const auto known = index_.find(job);
  view.known = known.has_value();
  if (!known)
    return view;
  view.weight = known->weight;
  find_idle(*known, view);
  std::vector<std::vector<std::string>> workers;
  each_worker([&](const auto& labels) { workers.push_back(labels); });
  // While there is no worker at all, the next one may fit any job.
  view.position = index_.position(job, most, [&](const auto& labels) {
    return workers.empty() ||
           std::ranges::any_of(workers, [&](const auto& each) { return std::ranges::includes(each, labels); });
  });
  view.missing_labels = known->labels;
  for (const auto& labels : workers) {
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
          {"waiting_remote_workers", remote_waiting_.size()},
          {"open_claims", claims_.size() + remote_claims_.size()},
          {"held_attempts", held_.size()},
          {"leased_attempts", leased_.size()},
          {"lent_offers", lent_.size()},
          {"granted", granted_},
          {"kinds_looked_at", index_.looked_at()},
          {"lost_races", lost_races_},
          {"unknown_claims", unknown_},
          {"capacity", capacity_ == INT64_MAX ? actor_status{} : actor_status(capacity_)},
          {"reserved_for", reserved_for_ ? actor_status(reserved_for_->value) : actor_status{}},
          {"subscribed", subscribed_},
          {"draining", draining_}};
}

} // namespace kcx
