#include "actors/dispatcher/ready_index.hpp"

#include <algorithm>
#include <limits>
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
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

} // namespace

bool ready_index::head::operator<(const head& other) const noexcept {
  return std::tie(held, tag, first) < std::tie(other.held, other.tag, other.first);
}

ready_index::ready_index(std::size_t window, std::size_t lane_window)
  : window_{std::max<std::size_t>(window, 2)}, lane_window_{std::max<std::size_t>(lane_window, 1)} {}

// -- what is ready ----------------------------------------------------------------------------------------------------

void ready_index::reset(const ready_window& jobs) {
  jobs_.clear();
  followers_.clear();
  follows_.clear();
  families_.clear();
  sizes_.clear();
  hungry_.clear();
  for (auto& [name, owner] : projects_) {
    owner.waiting = 0;
    owner.lanes.clear();
  }
  cut_lanes_ = 0;
  lanes_ = 0;
  left_out_ = false;
  // The marks first: adding may push jobs out and move them back.
  for (const auto& last : jobs.more)
    cut(lane_of(last), position_of(last));
  for (const auto* each : {&jobs.jobs, &jobs.followers})
    for (const auto& job : *each)
      add(job);
  if (jobs.lanes_left_out)
    leave_out();
}

void ready_index::refill(const ready_job& from, const ready_window& jobs) {
  auto* const where = find_lane(from);
  // It was forgotten or cut elsewhere meanwhile: what came is of no use.
  if (where == nullptr || where->complete_to != position_of(from))
    return;
  cut(*where, jobs.more.empty() ? std::nullopt : std::optional{position_of(jobs.more.front())});
  for (const auto* each : {&jobs.jobs, &jobs.followers})
    for (const auto& job : *each)
      add(job);
  if (auto* const left = find_lane(from))
    forget_if_empty(*left);
}

void ready_index::add(const ready_job& job) {
  if (job.after.value != 0 && is_known(job.after))
    return follow(job);
  if (contains(job.id))
    return;
  // It comes first now: what was before it is gone.
  if (const auto former = follows_.find(job.id.value); former != follows_.end()) {
    followers_.erase(former->second);
    follows_.erase(former);
  }
  if (left_out_ && find_lane(job) == nullptr)
    return discover(job);
  auto& where = lane_of(job);
  if (where.complete_to && *where.complete_to < position_of(job))
    return;
  insert(job);
  if (where.jobs.size() > lane_window_)
    drop_last(where);
  else if (jobs_.size() > window_)
    drop_last(*sizes_.rbegin()->second);
}

bool ready_index::remove(job_id id) {
  const auto found = jobs_.find(id.value);
  if (found == jobs_.end())
    return remove_follower(id);
  erase(found);
  let_follow(id);
  return true;
}

// -- groups -----------------------------------------------------------------------------------------------------------

void ready_index::follow(const ready_job& job) {
  const auto former = follows_.find(job.id.value);
  if (former != follows_.end() && former->second == job.after.value)
    return;
  if (former != follows_.end())
    remove_follower(job.id);
  else if (const auto first = jobs_.find(job.id.value); first != jobs_.end())
    erase(first); // another one has come before it
  else if (followers_.size() >= window_)
    return;
  drop_followers(job.after);
  followers_.emplace(job.after.value, job);
  follows_.emplace(job.id.value, job.after.value);
}

void ready_index::let_follow(job_id id) {
  auto next = followers_.extract(id.value);
  if (next.empty())
    return;
  auto& job = next.mapped();
  follows_.erase(job.id.value);
  job.after = {};
  add(job);
  if (!contains(job.id))
    drop_followers(job.id); // it lies beyond the window, and they with it
}

void ready_index::drop_followers(job_id id) {
  for (auto next = followers_.extract(id.value); !next.empty(); next = followers_.extract(next.mapped().id.value))
    follows_.erase(next.mapped().id.value);
}

bool ready_index::remove_follower(job_id id) {
  const auto found = follows_.find(id.value);
  if (found == follows_.end())
    return false;
  const auto before = found->second;
  follows_.erase(found);
  followers_.erase(before);
  if (auto next = followers_.extract(id.value); !next.empty()) {
    next.key() = before;
    next.mapped().after = job_id{before};
    follows_[next.mapped().id.value] = before;
    followers_.insert(std::move(next));
  }
  return true;
}

void ready_index::remove_queue(const std::string& queue) {
  std::vector<lane*> gone;
  for (auto& [name, owner] : projects_)
    for (auto& [where, each] : owner.lanes)
      if (where->kind.queue == queue)
        gone.push_back(&each);
  for (auto* each : gone) {
    cut(*each, std::nullopt);
    const std::vector<ready_position> jobs{each->jobs.begin(), each->jobs.end()};
    for (const auto& at : jobs) {
      drop_followers(at.id); // of whatever queue: it holds them up
      remove(at.id);
    }
    if (jobs.empty())
      forget_if_empty(*each);
  }
  std::vector<job_id> followers;
  for (const auto& [before, job] : followers_)
    if (job.queue == queue)
      followers.push_back(job.id);
  for (const auto id : followers) {
    drop_followers(id);
    remove_follower(id);
  }
}

// -- handing out ------------------------------------------------------------------------------------------------------

bool job_kind::fits(const job_taker& worker) const {
  return (worker.queues == nullptr || std::ranges::binary_search(*worker.queues, queue)) &&
         std::ranges::includes(worker.labels, labels);
}

ready_index::family* ready_index::next_family(const job_taker& worker) {
  family* best = nullptr;
  const auto look_at = [&](family& each) {
    ++looked_at_;
    if (!each.heads.empty() && (best == nullptr || *each.heads.begin() < *best->heads.begin()) &&
        std::ranges::includes(worker.labels, each.kind.labels))
      best = &each;
  };
  if (worker.queues == nullptr) {
    for (auto& [kind, each] : families_)
      look_at(each);
  } else {
    for (const auto& queue : *worker.queues)
      for (auto at = families_.lower_bound({queue, {}}); at != families_.end() && at->first.queue == queue; ++at)
        look_at(at->second);
  }
  return best;
}

std::optional<ready_job> ready_index::take(const job_taker& worker) {
  reserved_for_.reset();
  auto* const where = next_family(worker);
  if (where == nullptr)
    return std::nullopt;
  const auto* const best = &*where->heads.begin();
  auto& owner = *best->owner;
  const auto found = jobs_.find(best->first.id.value);
  if (std::min<std::int64_t>(found->second.weight, worker.capacity.value_or(capacity_)) > worker.free) {
    reserved_for_ = best->first.id;
    return std::nullopt;
  }
  ready_job job{found->second.at.id, found->second.at.order_key, found->second.weight,
                owner.name,          where->kind.queue,          where->kind.labels};
  erase(found);
  reorder(owner, [this, &job](project& changed) {
    changed.held += job.weight;
    virtual_time_ = std::max(virtual_time_, changed.tag);
    changed.tag = virtual_time_ + job.weight;
  });
  let_follow(job.id);
  return job;
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

ready_index::lane* ready_index::find_lane(const ready_job& job) {
  const auto owner = projects_.find(job.project);
  const auto where = families_.find(job_kind{job.queue, normalized(job.labels)});
  if (owner == projects_.end() || where == families_.end())
    return nullptr;
  const auto found = owner->second.lanes.find(&where->second);
  return found == owner->second.lanes.end() ? nullptr : &found->second;
}

ready_index::lane& ready_index::lane_of(const ready_job& job) {
  job_kind kind{job.queue, normalized(job.labels)};
  auto& where = families_[kind];
  auto& owner = project_of(job.project);
  auto [found, fresh] = owner.lanes.try_emplace(&where);
  if (fresh) {
    where.kind = std::move(kind);
    ++where.lanes;
    ++lanes_;
    found->second = {++last_lane_, &owner, &where};
    sizes_.emplace(std::pair{std::size_t{0}, last_lane_}, &found->second);
  }
  return found->second;
}

ready_index::head ready_index::head_of(project& owner, const std::set<ready_position>& jobs) {
  return {owner.held, owner.tag, *jobs.begin(), &owner};
}

void ready_index::insert(const ready_job& job) {
  auto& into = lane_of(job);
  auto& owner = *into.owner;
  auto& where = *into.where;
  if (owner.waiting == 0)
    owner.tag = std::max(owner.tag, virtual_time_);
  if (where.heads.empty())
    news_.push_back(where.kind);
  if (!into.jobs.empty())
    where.heads.erase(head_of(owner, into.jobs));
  into.jobs.insert(position_of(job));
  where.heads.insert(head_of(owner, into.jobs));
  jobs_.emplace(job.id.value, entry{position_of(job), job.weight, &owner, &where});
  ++owner.waiting;
  resized(into, into.jobs.size() - 1);
}

void ready_index::erase(std::unordered_map<std::int64_t, entry>::iterator found) {
  auto& owner = *found->second.owner;
  auto& where = *found->second.where;
  auto& from = owner.lanes.at(&where);
  where.heads.erase(head_of(owner, from.jobs));
  from.jobs.erase(found->second.at);
  if (!from.jobs.empty())
    where.heads.insert(head_of(owner, from.jobs));
  jobs_.erase(found);
  --owner.waiting;
  resized(from, from.jobs.size() + 1);
  forget_if_empty(from);
}

void ready_index::discover(const ready_job& job) {
  // What came before it in its lane may have been left out as well: the lane is read from its beginning, or with the
  // others that are left out.
  if (lanes_ < window_)
    cut(lane_of(job), ready_position{std::numeric_limits<std::int64_t>::min(), {}});
}

void ready_index::leave_out() {
  left_out_ = true;
  known_beside_ = jobs_.size();
}

void ready_index::drop_last(lane& from) {
  const auto at = *from.jobs.rbegin();
  const bool only = from.jobs.size() == 1;
  // Everything before the dropped job is still known: the next refill begins with it. But where there are more lanes
  // than places, refills would push them out in turns for ever.
  cut(from, only ? std::nullopt : std::optional{ready_position{at.order_key, {at.id.value - 1}}});
  drop_followers(at.id);
  erase(jobs_.find(at.id.value));
  if (only)
    leave_out();
}

void ready_index::cut(lane& where, std::optional<ready_position> complete_to) {
  if (where.complete_to && !complete_to)
    --cut_lanes_;
  else if (!where.complete_to && complete_to)
    ++cut_lanes_;
  where.complete_to = complete_to;
  resized(where, where.jobs.size());
}

void ready_index::resized(lane& where, std::size_t before) {
  sizes_.erase({before, where.number});
  sizes_.emplace(std::pair{where.jobs.size(), where.number}, &where);
  const auto few = std::max<std::size_t>(1, std::min(refill_limit(), window_ / 2 / std::max<std::size_t>(1, lanes_)));
  if (where.complete_to && where.jobs.size() < few)
    hungry_.emplace(where.number, &where);
  else
    hungry_.erase(where.number);
}

void ready_index::forget_if_empty(lane& where) {
  if (!where.jobs.empty() || where.complete_to)
    return;
  sizes_.erase({0, where.number});
  --lanes_;
  auto& family_left = *where.where;
  where.owner->lanes.erase(&family_left); // and with it `where`
  if (--family_left.lanes == 0)
    families_.erase(job_kind{family_left.kind});
}

std::optional<ready_job> ready_index::wants_refill() const {
  if (hungry_.empty())
    return std::nullopt;
  // With so many lanes only those with nothing known, which are the first by size: the next snapshot shows all anew.
  const auto& smallest = *sizes_.begin();
  if (left_out_ && smallest.first.first > 0)
    return std::nullopt;
  const auto& where = left_out_ ? *smallest.second : *hungry_.begin()->second;
  return ready_job{where.complete_to->id, where.complete_to->order_key, 1,
                   where.owner->name,     where.where->kind.queue,      where.where->kind.labels};
}

template <class Change>
void ready_index::reorder(project& owner, Change change) {
  replaced_ += owner.lanes.size();
  for (auto& [where, each] : owner.lanes)
    if (!each.jobs.empty())
      where->heads.erase(head_of(owner, each.jobs));
  change(owner);
  for (auto& [where, each] : owner.lanes)
    if (!each.jobs.empty())
      where->heads.insert(head_of(owner, each.jobs));
}

void ready_index::forget_idle_projects() {
  if (projects_.size() <= max_projects_remembered + jobs_.size())
    return;
  std::erase_if(projects_, [](const auto& each) { return each.second.held == 0 && each.second.lanes.empty(); });
}

} // namespace kcx
