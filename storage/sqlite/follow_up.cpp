// The part of the store that knows what follows from what happens to jobs: needs and groups.
#include "storage/job_json.hpp"
#include "storage/job_needs.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace kcx::sqlite {

namespace {

job_change waiting_change(job_id id, job_state state, job_reason reason, timestamp at) {
  return {id, state, reason, 0, {}, at};
}

} // namespace

// -- at the insert ----------------------------------------------------------------------------------------------------

std::vector<field_error> sqlite_store::resolve_needs(const needs_context& in, std::size_t which,
                                                     std::vector<job_need>& needs) {
  std::vector<field_error> wrong;
  for (std::size_t n = 0; n < needs.size(); ++n) {
    auto& need = needs[n];
    if (!need.ref.empty()) {
      need.job = in.jobs[in.by_ref.at(need.ref)].id;
      need.ref.clear();
      continue;
    }
    auto row = db_->use(sql::select_state);
    const auto exists = row.bind(need.job).step();
    if (need.job.value > in.highest_before)
      wrong.push_back({need_pointer(which, n, in.several), "there is no job " + std::to_string(need.job.value)});
    else if (!exists)
      wrong.push_back({need_pointer(which, n, in.several),
                       "job " + std::to_string(need.job.value) + " was removed: how it ended is not known any more"});
  }
  return wrong;
}

outcome sqlite_store::link_needs(const submission& asked, accepted_jobs& accepted, std::int64_t highest_before,
                                 timestamp now) {
  constexpr std::size_t most_errors = 100;
  needs_context context{accepted.jobs, {}, highest_before, asked.several};
  for (std::size_t i = 0; i < asked.specs.size(); ++i)
    context.by_ref.emplace(asked.specs[i].ref, i);
  error refused{ec::invalid_input, "a job needs one that is not there", {}};
  std::vector<std::size_t> linked;
  job_id last;
  for (std::size_t i = 0; i < accepted.jobs.size() && refused.fields.size() < most_errors; ++i) {
    auto& job = accepted.jobs[i];
    // New ids ascend: one that does not is given back once more.
    if (!accepted.is_new(job.id) || job.id <= last)
      continue;
    last = job.id;
    auto& needs = job.spec.needs;
    const auto by_ref = std::any_of(needs.begin(), needs.end(), [](const auto& each) { return !each.ref.empty(); });
    const auto wrong = resolve_needs(context, i, needs);
    refused.fields.insert(refused.fields.end(), wrong.begin(), wrong.end());
    if (by_ref && wrong.empty())
      db_->use(sql::update_spec).bind(job.id, to_stored_json(job.spec).dump()).run();
    // One that a later one of the array has cancelled waits for nothing; what it names must be there all the same.
    if (job.state == job_state::blocked)
      linked.push_back(i);
  }
  if (refused.fields.empty()) {
    std::vector<linked_job> waiting;
    for (const auto i : linked)
      waiting.push_back({accepted.jobs[i].id, i, accepted.jobs[i].spec.needs});
    refused.fields = find_endless(waiting, asked.several);
  }
  if (!refused.fields.empty())
    return refused;
  for (const auto i : linked) {
    auto& job = accepted.jobs[i];
    auto all = predecessors(job.spec);
    all.insert(all.end(), job.spec.needs.begin(), job.spec.needs.end());
    if (block_on(job.id, all, now).change.state != job_state::blocked)
      job = stored_job(job.id);
  }
  return done{};
}

transition_result sqlite_store::block_on(job_id job, const std::vector<job_need>& needs, timestamp now) {
  auto blocked = false;
  for (const auto& need : needs) {
    auto state = job_state::succeeded;
    {
      auto row = db_->use(sql::select_state);
      if (!row.bind(need.job).step())
        throw bad_value{"a needed job is missing"};
      state = read_state(row, 0);
    }
    if (!is_final(state)) {
      db_->use(sql::insert_open_need).bind(need.job, job, to_string(need.condition)).run();
      blocked = true;
    } else if (!is_met(need.condition, state)) {
      return skip(job, need.job, state, now);
    }
  }
  if (!blocked)
    return unblock(job, now);
  transition_result waits;
  waits.change = waiting_change(job, job_state::blocked, job_reason::none, now);
  return waits;
}

// -- moving on --------------------------------------------------------------------------------------------------------

bool sqlite_store::is_blocked(job_id job) {
  auto row = db_->use(sql::select_state);
  return row.bind(job).step() && row.text(0) == to_string(job_state::blocked);
}

transition_result sqlite_store::unblock(job_id job, timestamp now) {
  transition_result moved;
  std::optional<timestamp> run_at;
  std::int32_t priority = 0;
  auto grouped = false;
  {
    auto row = db_->use(sql::select_blocked);
    if (!row.bind(job).step())
      throw bad_value{"a job with needs is not blocked"};
    moved.ready = read_ready(row);
    run_at = row.optional_time(6);
    priority = row.number(7);
    grouped = row.integer(8) != 0;
  }
  const auto later = run_at && *run_at > now;
  const auto state = later ? job_state::scheduled : job_state::queued;
  moved.ready->order_key = order_key(later ? *run_at : now, priority, options_.ageing_step);
  db_->use(sql::unblock_if_blocked)
    .bind(job, to_string(state), now, later ? std::nullopt : std::optional{now}, moved.ready->order_key)
    .run();
  moved.change = waiting_change(job, state, job_reason::none, now);
  if (later || grouped)
    moved.ready.reset();
  return moved;
}

transition_result sqlite_store::skip(job_id job, job_id need, job_state state, timestamp now) {
  const auto why = "job " + std::to_string(need.value) + " ended as " + std::string{to_string(state)};
  db_->use(sql::skip_if_blocked).bind(job, why, now).run();
  erase_secrets(job);
  transition_result moved;
  moved.change = waiting_change(job, job_state::skipped, job_reason::need_failed, now);
  return moved;
}

void sqlite_store::settle_needs(follow_up& done, timestamp now, std::size_t limit) {
  for (auto room = limit;;) {
    job_id need;
    auto state = job_state::succeeded;
    {
      auto row = db_->use(sql::select_ended_need);
      if (!row.step())
        return;
      need = job_id{row.integer(0)};
      state = read_state(row, 1);
    }
    std::vector<std::pair<job_id, need_condition>> dependents;
    {
      auto rows = db_->use(sql::select_dependents);
      rows.bind(need, static_cast<std::int64_t>(room));
      while (rows.step())
        dependents.emplace_back(job_id{rows.integer(0)}, read_condition(rows, 1));
    }
    for (const auto& [job, condition] : dependents) {
      if (db_->use(sql::delete_open_need).bind(need, job, to_string(condition)).run() == 0)
        continue; // it went with another need of the same job, a moment ago
      if (!is_blocked(job))
        continue; // what waits no longer must not hold up what follows for others
      if (!is_met(condition, state))
        done.moved.push_back(skip(job, need, state, now));
      else if (auto open = db_->use(sql::has_open_needs); !open.bind(job).step())
        done.moved.push_back(unblock(job, now));
    }
    if (dependents.size() == room) {
      done.more = true;
      return;
    }
    room -= dependents.size();
    db_->use(sql::forget_ended_need).bind(need).run();
  }
}

expected<follow_up> sqlite_store::settle(timestamp now, std::size_t limit) {
  if (unusable_)
    return *unusable_;
  try {
    follow_up nothing;
    const auto ended = db_->use(sql::select_ended_need).step();
    if (!ended && !db_->use(sql::select_touched_groups).step())
      return nothing;
  } catch (...) {
    return failed();
  }
  return write(parts::several, [&]() -> expected<follow_up> {
    follow_up done;
    settle_needs(done, now, limit);
    find_heads(done); // after those that were unblocked just now
    return done;
  });
}

// -- groups -----------------------------------------------------------------------------------------------------------

outcome sqlite_store::room_in_group(const std::string& group, job_id job, std::int32_t limit) {
  auto row = db_->use(sql::select_group);
  row.bind(group).step();
  if (row.integer(0) >= limit)
    return error{
      ec::not_ready, "as many jobs of group " + group + " run as job " + std::to_string(job.value) + " allows", {}};
  if (row.integer(1) != job.value)
    return error{ec::not_ready, "job " + std::to_string(row.integer(1)) + " of group " + group + " comes first", {}};
  return done{};
}

void sqlite_store::supersede(const job_record& job, timestamp now, accepted_jobs& accepted) {
  if (job.spec.supersede == supersede_policy::none)
    return;
  std::vector<job_id> older;
  const auto collect = [&](const char* sql) {
    auto rows = db_->use(sql);
    rows.bind(job.spec.group, job.id);
    while (rows.step())
      older.push_back(job_id{rows.integer(0)});
  };
  collect(sql::select_older_waiting);
  if (job.spec.supersede == supersede_policy::running)
    collect(sql::select_older_running);
  cancel_several(older, "superseded by job " + std::to_string(job.id.value) + " of its group", now, accepted);
}

void sqlite_store::add_followers(const std::string& group, const ready_job& head, std::vector<ready_job>& into) {
  const auto paused = [this](const std::string& queue) { return db_->use(sql::is_paused).bind(queue).step(); };
  const auto held = [&] {
    auto row = db_->use(sql::select_group);
    return row.bind(group).step() ? row.integer(0) : 0;
  }();
  auto rows = db_->use(sql::select_followers);
  rows.bind(group, head.id, static_cast<std::int64_t>(most_followers));
  const auto* before = &head;
  auto last = head.id;
  // The first for which there is no room, or whose queue is paused, holds up all behind it.
  for (auto running = held + 1; rows.step() && running < rows.integer(6) && !paused(before->queue); ++running) {
    auto next = read_ready(rows);
    next.after = std::exchange(last, next.id);
    into.push_back(std::move(next));
    before = &into.back();
  }
  if (before != &head && paused(before->queue))
    into.pop_back();
}

void sqlite_store::find_heads(follow_up& done) {
  std::vector<std::string> groups;
  {
    auto rows = db_->use(sql::select_touched_groups);
    while (rows.step())
      groups.push_back(rows.text(0));
  }
  for (const auto& group : groups) {
    auto row = db_->use(sql::select_head);
    if (!row.bind(group).step())
      continue;
    done.heads.push_back(read_ready(row));
    add_followers(group, done.heads.back(), done.followers);
  }
  if (!groups.empty())
    db_->use(sql::forget_touched_groups).run();
}

} // namespace kcx::sqlite
