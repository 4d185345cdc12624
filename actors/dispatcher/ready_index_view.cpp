// What the index of ready jobs tells about one of them.
#include "actors/dispatcher/ready_index.hpp"

#include <tuple>

namespace kcx {

std::optional<ready_job> ready_index::find(job_id id) const {
  const auto found = jobs_.find(id.value);
  if (found == jobs_.end())
    return std::nullopt;
  const auto& job = found->second;
  return ready_job{id, job.at.order_key, job.weight, job.owner->name, job.where->kind.queue, job.where->kind.labels};
}

namespace {

/// The jobs of one project in several lanes, in one order.
class merged {
public:
  void add(const std::set<ready_position>& jobs) { lanes_.emplace_back(jobs.begin(), jobs.end()); }

  [[nodiscard]] const ready_position* first() const {
    const ready_position* best = nullptr;
    for (const auto& [at, end] : lanes_)
      if (at != end && (best == nullptr || *at < *best))
        best = &*at;
    return best;
  }

  void pop() {
    const auto* best = first();
    for (auto& [at, end] : lanes_)
      if (at != end && &*at == best)
        return void(++at);
  }

private:
  using iterator = std::set<ready_position>::const_iterator;
  std::vector<std::pair<iterator, iterator>> lanes_;
};

} // namespace

std::optional<std::int64_t>
ready_index::position(job_id id, std::int64_t most,
                      const std::function<bool(const std::vector<std::string>&)>& fits) const {
  const auto wanted = jobs_.find(id.value);
  if (wanted == jobs_.end() || !fits(wanted->second.where->kind.labels))
    return std::nullopt;
  std::map<std::string, merged> waiting;
  std::set<std::tuple<std::int64_t, std::int64_t, ready_position, std::string>> order;
  for (const auto& [name, owner] : projects_) {
    auto& jobs = waiting[name];
    for (const auto& [where, positions] : owner.lanes)
      if (fits(where->kind.labels))
        jobs.add(positions.jobs);
    if (const auto* first = jobs.first())
      order.emplace(owner.held, owner.tag, *first, name);
  }
  auto now = virtual_time_;
  for (std::int64_t count = 1; count <= most && !order.empty(); ++count) {
    auto [held, tag, first, name] = *order.begin();
    if (first.id == id)
      return count;
    order.erase(order.begin());
    const auto weight = jobs_.at(first.id.value).weight;
    now = std::max(now, tag);
    auto& jobs = waiting[name];
    jobs.pop();
    if (const auto* next = jobs.first())
      order.emplace(held + weight, now + weight, *next, name);
  }
  return std::nullopt;
}

} // namespace kcx
