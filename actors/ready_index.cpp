#include "actors/ready_index.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace kcx {

namespace {

/// Projects without jobs are remembered while their last start still counts; no more than this many, since names come
/// from users.
constexpr std::size_t max_projects_remembered = 10'000;

ready_position position_of(const ready_job& job) {
  return {job.order_key, job.id};
}

std::vector<std::string> normalized(std::vector<std::string> labels) {
  std::ranges::sort(labels);
  const auto [first, last] = std::ranges::unique(labels);
  labels.erase(first, last);
  return labels;
}

} // namespace

bool ready_index::head::operator<(const head& other) const noexcept {
  return std::tie(held, tag, first) < std::tie(other.held, other.tag, other.first);
}

ready_index::ready_index(std::size_t window) : window_{std::max<std::size_t>(window, 2)} {}

// -- what is ready ----------------------------------------------------------------------------------------------------

void ready_index::reset(std::span<const ready_job> jobs, bool more) {
  jobs_.clear();
  lanes_.clear();
  sizes_.clear();
  for (auto& [name, owner] : projects_) {
    owner.waiting = 0;
    owner.lanes.clear();
  }
  complete_to_.reset();
  refill(jobs, more);
}

void ready_index::refill(std::span<const ready_job> jobs, bool more) {
  // The marker first: adding may push jobs out and move it back.
  if (!more)
    complete_to_.reset();
  else if (!jobs.empty())
    complete_to_ = position_of(jobs.back());
  for (const auto& job : jobs)
    add(job);
}

void ready_index::add(const ready_job& job) {
  if (contains(job.id))
    return;
  insert(job);
  if (jobs_.size() > window_)
    evict_one();
}

bool ready_index::remove(job_id id) {
  const auto found = jobs_.find(id.value);
  if (found == jobs_.end())
    return false;
  erase(found);
  return true;
}

void ready_index::remove_queue(const std::string& queue) {
  std::vector<job_id> gone;
  for (const auto& [id, job] : jobs_) {
    if (job.where->queue == queue)
      gone.push_back(job.at.id);
  }
  for (const auto id : gone)
    remove(id);
}

// -- handing out ------------------------------------------------------------------------------------------------------

std::optional<ready_job> ready_index::take(const std::vector<std::string>& labels, std::int64_t free) {
  reserved_for_.reset();
  const head* best = nullptr;
  lane* where = nullptr;
  for (auto& [key, each] : lanes_) {
    const auto& first = *each.heads.begin();
    if ((best == nullptr || first < *best) && std::ranges::includes(labels, each.labels)) {
      best = &first;
      where = &each;
    }
  }
  if (best == nullptr)
    return std::nullopt;
  auto& owner = *best->owner;
  const auto found = jobs_.find(best->first.id.value);
  if (limited(found->second.weight) > free) {
    reserved_for_ = best->first.id;
    return std::nullopt;
  }
  ready_job job{found->second.at.id, found->second.at.order_key, found->second.weight, owner.name, where->queue,
                where->labels};
  erase(found);
  reorder(owner, [this, &job](project& changed) {
    changed.held += job.weight;
    virtual_time_ = std::max(virtual_time_, changed.tag);
    changed.tag = virtual_time_ + job.weight;
  });
  return job;
}

std::optional<ready_job> ready_index::find(job_id id) const {
  const auto found = jobs_.find(id.value);
  if (found == jobs_.end())
    return std::nullopt;
  const auto& job = found->second;
  return ready_job{id, job.at.order_key, job.weight, job.owner->name, job.where->queue, job.where->labels};
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
  if (wanted == jobs_.end() || !fits(wanted->second.where->labels))
    return std::nullopt;
  std::map<std::string, merged> waiting;
  std::set<std::tuple<std::int64_t, std::int64_t, ready_position, std::string>> order;
  for (const auto& [name, owner] : projects_) {
    auto& jobs = waiting[name];
    for (const auto& [where, positions] : owner.lanes)
      if (fits(where->labels))
        jobs.add(positions);
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

void ready_index::hold(const std::string& name, std::int32_t weight) {
  reorder(project_of(name), [weight](project& changed) { changed.held += weight; });
}

void ready_index::release(const std::string& name, std::int32_t weight) {
  reorder(project_of(name), [this, weight](project& changed) {
    changed.held = std::max<std::int64_t>(changed.held - weight, 0);
    // While it held slots others went ahead in virtual time; that is not saved up for later.
    changed.tag = std::max(changed.tag, virtual_time_);
  });
  forget_idle_projects();
}

// -- inside -----------------------------------------------------------------------------------------------------------

ready_index::project& ready_index::project_of(const std::string& name) {
  auto& owner = projects_[name];
  if (owner.name.empty())
    owner.name = name;
  return owner;
}

ready_index::lane& ready_index::lane_of(const ready_job& job) {
  auto labels = normalized(job.labels);
  auto& found = lanes_[lane_key{job.queue, labels}];
  found.queue = job.queue;
  found.labels = std::move(labels);
  return found;
}

ready_index::head ready_index::head_of(project& owner, const std::set<ready_position>& jobs) {
  return {owner.held, owner.tag, *jobs.begin(), &owner};
}

void ready_index::insert(const ready_job& job) {
  auto& owner = project_of(job.project);
  auto& where = lane_of(job);
  if (owner.waiting == 0)
    owner.tag = std::max(owner.tag, virtual_time_);
  auto& waiting = owner.lanes[&where];
  if (!waiting.empty())
    where.heads.erase(head_of(owner, waiting));
  waiting.insert(position_of(job));
  where.heads.insert(head_of(owner, waiting));
  jobs_.emplace(job.id.value, entry{position_of(job), job.weight, &owner, &where});
  count_waiting(owner, owner.waiting + 1);
}

void ready_index::erase(std::unordered_map<std::int64_t, entry>::iterator found) {
  auto& owner = *found->second.owner;
  auto& where = *found->second.where;
  const auto at = found->second.at;
  auto& waiting = owner.lanes.at(&where);
  where.heads.erase(head_of(owner, waiting));
  waiting.erase(at);
  if (waiting.empty())
    owner.lanes.erase(&where);
  else
    where.heads.insert(head_of(owner, waiting));
  if (where.heads.empty())
    lanes_.erase(lane_key{where.queue, where.labels});
  jobs_.erase(found);
  count_waiting(owner, owner.waiting - 1);
}

void ready_index::evict_one() {
  auto& fullest = projects_.at(sizes_.rbegin()->second);
  const auto last = std::ranges::max_element(fullest.lanes, {}, [](const auto& each) { return *each.second.rbegin(); });
  const auto at = *last->second.rbegin();
  erase(jobs_.find(at.id.value));
  // Everything before the dropped job is still known: the next refill begins with it.
  const ready_position before{at.order_key, {at.id.value - 1}};
  complete_to_ = complete_to_ ? std::min(*complete_to_, before) : before;
}

template <class Change>
void ready_index::reorder(project& owner, Change change) {
  for (auto& [where, waiting] : owner.lanes)
    where->heads.erase(head_of(owner, waiting));
  change(owner);
  for (auto& [where, waiting] : owner.lanes)
    where->heads.insert(head_of(owner, waiting));
}

void ready_index::count_waiting(project& owner, std::size_t waiting) {
  sizes_.erase({owner.waiting, owner.name});
  owner.waiting = waiting;
  if (waiting > 0)
    sizes_.emplace(waiting, owner.name);
}

void ready_index::forget_idle_projects() {
  if (projects_.size() <= max_projects_remembered + jobs_.size())
    return;
  std::erase_if(projects_, [](const auto& each) { return each.second.held == 0 && each.second.waiting == 0; });
}

} // namespace kcx
