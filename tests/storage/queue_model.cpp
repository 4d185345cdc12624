#include "tests/storage/queue_model.hpp"

#include <algorithm>
#include <utility>

namespace kcx::test {

namespace {

bool waits(job_state state) {
  return state == job_state::scheduled || state == job_state::blocked || state == job_state::queued;
}

bool held_now(job_state state) {
  return state == job_state::running || state == job_state::cancelling;
}

bool final_now(job_state state) {
  return !waits(state) && !held_now(state);
}

job_reason cause_of(const attempt_result& result) {
  switch (result.outcome) {
  case attempt_outcome::exited: return result.exit_code == 0 ? job_reason::none : job_reason::exit_code;
  case attempt_outcome::signalled: return job_reason::signal;
  case attempt_outcome::spawn_failed: return job_reason::spawn_failed;
  case attempt_outcome::time_limit: return job_reason::time_limit;
  case attempt_outcome::no_output: return job_reason::no_output;
  case attempt_outcome::cancelled: return job_reason::cancelled_by;
  case attempt_outcome::worker_crashed: return job_reason::worker_crashed;
  case attempt_outcome::node_stopped: return job_reason::node_stopped;
  case attempt_outcome::node_restarted: return job_reason::node_restarted;
  case attempt_outcome::not_started: return job_reason::not_started;
  case attempt_outcome::lease_expired: return job_reason::lease_expired;
  }
  return job_reason::none;
}

job_state last_state(job_reason cause) {
  static const std::map<job_reason, job_state> states{
    {job_reason::none, job_state::succeeded},           {job_reason::time_limit, job_state::timed_out},
    {job_reason::no_output, job_state::timed_out},      {job_reason::cancelled_by, job_state::cancelled},
    {job_reason::node_stopped, job_state::interrupted}, {job_reason::node_restarted, job_state::interrupted},
    {job_reason::lease_expired, job_state::interrupted}};
  const auto found = states.find(cause);
  return found == states.end() ? job_state::failed : found->second;
}

bool met(need_condition condition, job_state state) {
  if (condition == need_condition::success)
    return state == job_state::succeeded;
  if (condition == need_condition::failure)
    return state == job_state::failed || state == job_state::timed_out || state == job_state::interrupted;
  return true;
}

} // namespace

// -- submitting -------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> queue_model::holder_of(const std::string& key) const {
  for (const auto& [id, job] : jobs)
    if (!key.empty() && job.spec.unique_key == key && !final_now(job.state) && !job.key_given)
      return id;
  return std::nullopt;
}

std::vector<job_need> queue_model::predecessors(const job_spec& spec) const {
  std::vector<job_need> found;
  for (const auto& [id, job] : jobs)
    if (!spec.unique_key.empty() && job.spec.unique_key == spec.unique_key && held_now(job.state))
      found.push_back({job_id{id}, "", need_condition::always});
  return found;
}

std::int64_t queue_model::insert(const job_spec& spec, timestamp now, bool blocked) {
  auto& job = jobs[++last_id];
  job.spec = spec;
  const auto later = spec.run_at && *spec.run_at > now;
  job.run_at = spec.run_at;
  job.state = blocked ? job_state::blocked : later ? job_state::scheduled : job_state::queued;
  job.order_key = key_of(later ? *spec.run_at : now, spec.priority);
  if (spec.wait_limit)
    job.wait_until = (later ? *spec.run_at : now) + *spec.wait_limit;
  return last_id;
}

void queue_model::supersede(std::int64_t id) {
  const auto spec = jobs.at(id).spec;
  if (spec.supersede == supersede_policy::none)
    return;
  for (auto& [other, job] : jobs)
    if (other < id && job.spec.group == spec.group &&
        (waits(job.state) || (spec.supersede == supersede_policy::running && job.state == job_state::running)))
      cancel(other);
}

void queue_model::open(model_job& job, timestamp now) {
  const auto later = job.run_at && *job.run_at > now;
  job.state = later ? job_state::scheduled : job_state::queued;
  job.order_key = key_of(later ? *job.run_at : now, job.spec.priority);
}

void queue_model::block(std::int64_t id, std::vector<job_need> needs, timestamp now) {
  auto& job = jobs.at(id);
  for (const auto& need : needs) {
    const auto state = jobs.at(need.job.value).state;
    if (!final_now(state)) {
      job.open_needs.push_back(need);
    } else if (!met(need.condition, state)) {
      end(id, job_state::skipped, job_reason::need_failed);
      return;
    }
  }
  if (job.open_needs.empty())
    open(job, now);
}

expected<std::vector<std::int64_t>> queue_model::submit(const std::vector<job_spec>& specs, timestamp now) {
  for (const auto& spec : specs) {
    std::set<std::pair<std::string, std::int64_t>> named;
    for (const auto& need : spec.needs)
      if (!named.emplace(need.ref, need.job.value).second)
        return error{ec::invalid_input, "", {}};
  }
  const auto before = *this;
  const auto highest = last_id;
  std::vector<std::int64_t> ids;
  std::set<std::int64_t> fresh;
  for (const auto& spec : specs) {
    if (const auto holder = holder_of(spec.unique_key)) {
      if (spec.on_conflict == conflict_policy::give_existing) {
        ids.push_back(*holder);
        continue;
      }
      if (spec.on_conflict == conflict_policy::reject) {
        *this = before;
        return error{ec::conflict, "", {}};
      }
      cancel(*holder);
      if (auto& job = jobs.at(*holder); job.state == job_state::cancelling)
        job.key_given = true;
    }
    ids.push_back(insert(spec, now, !spec.needs.empty() || !predecessors(spec).empty()));
    fresh.insert(ids.back());
    supersede(ids.back());
  }
  std::vector<std::pair<std::int64_t, std::vector<job_need>>> blocked;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    auto& job = jobs.at(ids[i]);
    // One that was given for two of the array counts once.
    if (fresh.erase(ids[i]) == 0)
      continue;
    auto needs = predecessors(job.spec);
    std::vector<job_need> resolved;
    for (auto need : specs[i].needs) {
      if (!need.ref.empty())
        for (std::size_t k = 0; k < specs.size(); ++k)
          if (specs[k].ref == need.ref)
            need.job = job_id{ids[k]};
      if (need.ref.empty() && (need.job.value > highest || !jobs.contains(need.job.value))) {
        *this = before;
        return error{ec::invalid_input, "", {}};
      }
      need.ref.clear();
      resolved.push_back(need);
      needs.push_back(need);
    }
    job.spec.needs = resolved;
    // One that a later one of the array has cancelled waits for nothing.
    if (job.state == job_state::blocked)
      blocked.emplace_back(ids[i], needs);
  }
  for (const auto& [id, needs] : blocked)
    if (reaches(id, id)) {
      *this = before;
      return error{ec::invalid_input, "", {}};
    }
  for (const auto& [id, needs] : blocked)
    block(id, needs, now);
  return ids;
}

bool queue_model::reaches(std::int64_t from, std::int64_t to) const {
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> open{from};
  while (!open.empty()) {
    const auto id = open.back();
    open.pop_back();
    if (jobs.at(id).state != job_state::blocked)
      continue;
    for (const auto& need : jobs.at(id).spec.needs) {
      if (need.job.value == to)
        return true;
      if (jobs.contains(need.job.value) && seen.insert(need.job.value).second)
        open.push_back(need.job.value);
    }
  }
  return false;
}

// -- moving -----------------------------------------------------------------------------------------------------------

void queue_model::end(std::int64_t id, job_state state, job_reason reason) {
  auto& job = jobs.at(id);
  job.state = state;
  job.reason = reason;
  job.open_needs.clear();
  job.wait_until.reset();
  ends[id] = state;
}

bool queue_model::is_ready(std::int64_t id) const {
  const auto& job = jobs.at(id);
  if (job.state != job_state::queued || paused.contains(job.spec.queue))
    return false;
  if (job.spec.group.empty())
    return true;
  std::int32_t held_in_group = 0;
  for (const auto& [other, each] : jobs) {
    if (each.spec.group != job.spec.group)
      continue;
    if (each.state == job_state::queued && other < id)
      return false;
    held_in_group += held_now(each.state) ? 1 : 0;
  }
  return held_in_group < job.spec.group_limit;
}

expected<std::int32_t> queue_model::claim(std::int64_t id, const std::string& worker, bool leased, timestamp now) {
  if (!jobs.contains(id))
    return error{missing(id), "", {}};
  if (!is_ready(id))
    return error{ec::not_ready, "", {}};
  auto& job = jobs.at(id);
  if (job.wait_until && *job.wait_until <= now)
    return error{ec::not_ready, "", {}};
  job.state = job_state::running;
  job.reason = job_reason::none;
  job.worker = worker;
  job.leased = leased;
  job.started = false;
  return ++job.attempt;
}

ec queue_model::confirm(attempt_key key) {
  const auto found = jobs.find(key.job.value);
  if (found == jobs.end() || !held_now(found->second.state) || found->second.attempt != key.attempt)
    return ec::stale_attempt;
  found->second.started = true;
  found->second.ever_started = true;
  found->second.wait_until.reset();
  return ec::none;
}

ec queue_model::finish(const attempt_result& result, timestamp now, std::optional<timestamp> retry_at) {
  const auto id = result.key.job.value;
  if (!jobs.contains(id))
    return missing(id);
  auto& job = jobs.at(id);
  if (!held_now(job.state) || job.attempt != result.key.attempt) {
    const auto before = job.ended.find(result.key.attempt);
    const bool same = before != job.ended.end() && before->second.outcome == result.outcome &&
                      before->second.exit_code == result.exit_code;
    return same ? ec::none : ec::stale_attempt;
  }
  job.ended[result.key.attempt] = result;
  if (result.outcome != attempt_outcome::not_started) {
    job.ever_started = true;
    job.wait_until.reset();
  }
  const auto cause = cause_of(result);
  if (job.state == job_state::cancelling) {
    end(id, job_state::cancelled, job_reason::cancelled_by);
    return ec::none;
  }
  const bool requeues = job.spec.on_interrupt == interrupt_policy::requeue;
  const std::set<job_reason> interruptions{job_reason::worker_crashed, job_reason::node_stopped,
                                           job_reason::node_restarted, job_reason::lease_expired};
  const bool stopped = requeues && cause == job_reason::node_stopped;
  const bool counted =
    requeues && !stopped && interruptions.contains(cause) && job.interrupts < job.spec.max_interrupts;
  if (cause == job_reason::not_started || stopped || counted) {
    job.state = job_state::queued;
    job.reason = cause == job_reason::not_started ? job_reason::not_started : job_reason::requeued;
    ++job.uncounted;
    job.interrupts += counted ? 1 : 0;
    return ec::none;
  }
  const bool retried = std::ranges::find(job.spec.retry_on, cause) != job.spec.retry_on.end();
  if (retried && job.attempt - job.uncounted < job.spec.max_attempts) {
    job.state = job_state::scheduled;
    job.reason = job_reason::retry;
    job.run_at = retry_at.value_or(now);
    job.order_key = key_of(*job.run_at, job.spec.priority);
    return ec::none;
  }
  end(id, last_state(cause), cause);
  job.dead_letter = job.spec.max_attempts > 1 && job.state != job_state::succeeded && job.state != job_state::cancelled;
  return ec::none;
}

ec queue_model::cancel(std::int64_t id) {
  if (!jobs.contains(id))
    return missing(id);
  auto& job = jobs.at(id);
  if (job.state == job_state::cancelling || job.state == job_state::cancelled)
    return ec::none;
  if (final_now(job.state))
    return ec::conflict;
  if (job.state == job_state::running) {
    job.state = job_state::cancelling;
    job.reason = job_reason::cancelled_by;
  } else {
    end(id, job_state::cancelled, job_reason::cancelled_by);
  }
  return ec::none;
}

ec queue_model::update(std::int64_t id, const job_patch& patch, timestamp now) {
  if (!jobs.contains(id))
    return missing(id);
  auto& job = jobs.at(id);
  if (!waits(job.state))
    return ec::conflict;
  const auto before = job.spec.priority;
  job.spec.priority = patch.priority.value_or(before);
  if (!patch.run_at) {
    job.order_key += (before - job.spec.priority) * step.count();
    return ec::none;
  }
  const auto start = *patch.run_at;
  const bool later = start && *start > now;
  job.spec.run_at = start;
  job.run_at = later || job.state != job_state::scheduled ? start : std::optional{now};
  job.order_key = key_of(later ? *start : now, job.spec.priority);
  if (job.wait_until)
    job.wait_until = later ? *start + *job.spec.wait_limit : std::min(*job.wait_until, now + *job.spec.wait_limit);
  if (job.state == job_state::queued && later)
    job.state = job_state::scheduled;
  else if (job.state == job_state::scheduled && !later)
    job.state = job_state::queued;
  return ec::none;
}

expected<std::int64_t> queue_model::retry(std::int64_t id, timestamp now) {
  if (!jobs.contains(id))
    return error{missing(id), "", {}};
  auto spec = jobs.at(id).spec;
  if (!final_now(jobs.at(id).state) || holder_of(spec.unique_key) || !predecessors(spec).empty())
    return error{ec::conflict, "", {}};
  spec.run_at.reset();
  // A need counts in the shape of its latest retry, and only if that has not ended.
  std::vector<job_need> open_needs;
  for (auto& need : spec.needs) {
    for (auto again = true; again;) {
      const auto latest =
        std::find_if(jobs.rbegin(), jobs.rend(), [&](const auto& each) { return each.second.retry_of == need.job; });
      again = latest != jobs.rend();
      if (again)
        need.job = job_id{latest->first};
    }
    if (jobs.contains(need.job.value) && !final_now(jobs.at(need.job.value).state))
      open_needs.push_back(need);
  }
  const auto fresh = insert(spec, now, !open_needs.empty());
  if (!open_needs.empty())
    block(fresh, open_needs, now);
  jobs.at(fresh).retry_of = job_id{id};
  jobs.at(id).dead_letter = false;
  return fresh;
}

ec queue_model::remove(std::int64_t id) {
  if (!jobs.contains(id))
    return missing(id);
  if (!final_now(jobs.at(id).state))
    return ec::conflict;
  jobs.erase(id);
  return ec::none;
}

// -- what happens by itself -------------------------------------------------------------------------------------------

void queue_model::promote(timestamp now) {
  for (auto& [id, job] : jobs)
    if (job.state == job_state::scheduled && job.run_at && *job.run_at <= now)
      job.state = job_state::queued;
  for (auto& [id, job] : jobs)
    if ((job.state == job_state::queued || job.state == job_state::blocked) && job.wait_until && *job.wait_until <= now)
      end(id, job_state::timed_out, job_reason::wait_limit);
}

void queue_model::settle(timestamp now) {
  for (auto changed = true; changed;) {
    changed = false;
    for (auto& [id, job] : jobs) {
      if (job.state != job_state::blocked)
        continue;
      const auto failed = std::ranges::any_of(job.open_needs, [&](const auto& need) {
        const auto found = ends.find(need.job.value);
        return found != ends.end() && !met(need.condition, found->second);
      });
      std::erase_if(job.open_needs, [&](const auto& need) { return ends.contains(need.job.value); });
      changed = changed || failed || job.open_needs.empty();
      if (failed)
        end(id, job_state::skipped, job_reason::need_failed);
      else if (job.open_needs.empty())
        open(job, now);
    }
  }
}

std::vector<attempt_key> queue_model::held(const std::optional<std::string>& worker) const {
  std::vector<attempt_key> found;
  for (const auto& [id, job] : jobs)
    if (held_now(job.state) && !job.leased && (!worker || job.worker == *worker))
      found.push_back({job_id{id}, job.attempt});
  return found;
}

std::vector<std::int64_t> queue_model::ready() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  for (const auto& [id, job] : jobs)
    if (is_ready(id))
      order.emplace_back(job.order_key, id);
  std::ranges::sort(order);
  std::vector<std::int64_t> ids;
  ids.reserve(order.size());
  for (const auto& [key, id] : order)
    ids.push_back(id);
  return ids;
}

std::vector<std::int64_t> queue_model::followers() const {
  std::vector<std::int64_t> found;
  for (const auto id : ready()) {
    const auto& group = jobs.at(id).spec.group;
    if (group.empty())
      continue;
    auto running = 1 + std::ranges::count_if(jobs, [&](const auto& each) {
                     return each.second.spec.group == group && held_now(each.second.state);
                   });
    for (auto next = jobs.upper_bound(id); next != jobs.end(); ++next) {
      const auto& job = next->second;
      if (job.spec.group != group || job.state != job_state::queued)
        continue;
      if (running++ >= job.spec.group_limit || paused.contains(job.spec.queue))
        break;
      found.push_back(next->first);
    }
  }
  std::ranges::sort(found);
  return found;
}

} // namespace kcx::test
