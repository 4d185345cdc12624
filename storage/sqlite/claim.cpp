// The part of the store that hands jobs out: claiming them, and telling which ones can be claimed.
#include "storage/job_json.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace kcx::sqlite {

// -- claiming ---------------------------------------------------------------------------------------------------------

expected<job_id> sqlite_store::job_of_nonce(const claim_request& request) {
  if (request.job.value != 0 && !request.lent)
    return request.job;
  auto row = db_->use(sql::select_by_nonce);
  if (row.bind(request.worker, request.nonce).step())
    return job_id{row.integer(0)};
  if (request.job.value == 0)
    return error{ec::not_ready, "worker " + request.worker + " holds no job by this claim", {}};
  return request.job;
}

std::vector<need_grant> sqlite_store::left_by(const std::vector<job_need>& needs) {
  std::vector<need_grant> left;
  for (const auto& need : needs) {
    auto& each = left.emplace_back();
    each.key.job = need.job;
    each.wants_artifacts = need.artifacts;
    auto row = db_->use(sql::select_left);
    each.removed = !row.bind(need.job).step();
    if (each.removed)
      continue;
    each.key.attempt = row.number(0);
    each.ref = row.text(1);
    each.outputs = read_outputs(row, 2);
    if (row.is_null(1) && !each.outputs.empty())
      throw bad_value{"the name by which it finds the outputs of job " + std::to_string(need.job.value)};
    each.artifacts = read_artifacts(row, 2);
  }
  return left;
}

expected<job_grant> sqlite_store::claim(const claim_request& request, timestamp now) {
  std::optional<unreadable_job> unreadable;
  auto grant = write(parts::one, [&] { return claim_one(request, now, unreadable); });
  if (!unreadable)
    return grant;
  return write(parts::several, [&] { return give_up(request, *unreadable, now); });
}

void sqlite_store::read_grant(const cursor& row, job_grant& grant) {
  auto spec = from_stored_json(row.text(4));
  if (!spec)
    throw bad_value{spec.error().message};
  grant.spec = std::move(*spec);
  grant.spec.secrets = read_secrets(row, 5);
  grant.needs = left_by(grant.spec.needs);
}

expected<job_grant> sqlite_store::claim_one(const claim_request& request, timestamp now,
                                            std::optional<unreadable_job>& unreadable) {
  const auto job = job_of_nonce(request);
  if (!job)
    return job.error();
  job_grant grant;
  grant.nonce = request.nonce;
  auto queued = false;
  {
    auto row = db_->use(sql::select_for_claim);
    if (!row.bind(*job).step())
      return missing_job(*db_, *job);
    queued = read_state(row, 0) == job_state::queued;
    grant.repeated =
      !row.is_null(2) && static_cast<std::uint64_t>(row.integer(2)) == request.nonce && row.text(3) == request.worker;
    if (!queued && !grant.repeated)
      return error{ec::not_ready, "job " + std::to_string(job->value) + " is " + row.text(0) + ", not queued", {}};
    if (queued && row.integer(6) != 0)
      return error{ec::not_ready, "the queue of job " + std::to_string(job->value) + " is paused", {}};
    if (const auto until = row.optional_time(10); queued && until && *until <= now)
      return error{ec::not_ready, "job " + std::to_string(job->value) + " has waited longer than it may", {}};
    if (queued && !row.is_null(7))
      if (auto room = room_in_group(row.text(7), *job, row.number(8)); !room)
        return std::move(room).error();
    grant.key = {*job, row.number(1) + (queued ? 1 : 0)};
    try {
      if (const auto wanted = read_labels(row, 9); queued && !std::ranges::includes(request.labels, wanted))
        return error{ec::not_ready,
                     "job " + std::to_string(job->value) + " asks for labels that " + request.worker + " has not",
                     {}};
      read_grant(row, grant);
    } catch (const bad_value& what) {
      unreadable = unreadable_job{grant.key, queued, unreadable_message(what)};
      return error{ec::not_ready, unreadable->why, {}};
    }
  }
  if (queued)
    db_->use(sql::claim_if_queued).bind(*job, request.worker, request.nonce, now, request.lease).run();
  return grant;
}

expected<job_grant> sqlite_store::give_up(const claim_request& request, const unreadable_job& job, timestamp now) {
  // Left in the queue it would be claimed again and again: it ends as a command does that cannot be started.
  if (job.queued)
    db_->use(sql::claim_if_queued).bind(job.key.job, request.worker, request.nonce, now, request.lease).run();
  const auto row = load(job.key.job);
  if (!row)
    return row.error();
  attempt_result result;
  result.key = job.key;
  result.outcome = attempt_outcome::spawn_failed;
  result.message = job.why;
  auto ended = finish_held(*row, result, now);
  if (!ended)
    return std::move(ended).error();
  job_grant grant;
  grant.key = job.key;
  grant.nonce = request.nonce;
  grant.ended = std::move(*ended);
  return grant;
}

outcome sqlite_store::confirm_start(attempt_key key, timestamp now) {
  return write(parts::one, [&]() -> outcome {
    if (db_->use(sql::confirm_if_held).bind(key.job, key.attempt, now).run() == 0)
      return error{ec::stale_attempt,
                   "attempt " + std::to_string(key.attempt) + " of job " + std::to_string(key.job.value) +
                     " is no longer held",
                   {}};
    return done{};
  });
}

// -- leases -----------------------------------------------------------------------------------------------------------

expected<std::vector<leased_attempt>> sqlite_store::leased_attempts() {
  if (unusable_)
    return *unusable_;
  try {
    std::vector<leased_attempt> found;
    auto rows = db_->use(sql::select_leased);
    while (rows.step())
      found.push_back({{job_id{rows.integer(0)}, rows.number(1)},
                       static_cast<std::uint64_t>(rows.integer(2)),
                       rows.text(3),
                       rows.text(4),
                       rows.number(5),
                       std::chrono::milliseconds{rows.integer(6)},
                       rows.time(7),
                       rows.integer(8) != 0,
                       rows.integer(9) != 0});
    return found;
  } catch (...) {
    return failed();
  }
}

// -- what is ready ----------------------------------------------------------------------------------------------------

std::vector<lane_name> sqlite_store::lanes(std::size_t limit) {
  std::vector<lane_name> found;
  const auto walk = [&](lane_name lane, const lane_name* last) {
    while (found.size() < limit && next_lane(*db_, lane) && (last == nullptr || lane <= *last)) {
      if (!db_->use(sql::is_paused).bind(lane.queue).step())
        found.push_back(lane);
    }
  };
  walk(shown_to_, nullptr);
  walk({}, &shown_to_);
  return found;
}

void sqlite_store::read_lane(const lane_name& lane, std::int64_t after_key, job_id after, std::size_t limit,
                             ready_window& window) {
  const auto first = window.jobs.size();
  auto rows = db_->use(sql::select_ready);
  // One more than wanted tells whether there is more.
  rows.bind(lane.project, lane.queue, lane.labels, after_key, after, static_cast<std::int64_t>(limit) + 1);
  while (rows.step()) {
    if (window.jobs.size() - first == limit) {
      window.more.push_back(window.jobs.back());
      return;
    }
    window.jobs.push_back(read_ready(rows));
    // Of many groups a few at once will do: each claim tells what comes next.
    if (!rows.is_null(6) && window.followers.size() < limit)
      add_followers(rows.text(6), window.jobs.back(), window.followers);
  }
}

expected<ready_window> sqlite_store::ready_jobs(std::size_t limit) {
  if (unusable_)
    return *unusable_;
  try {
    ready_window window;
    auto names = lanes(limit + 1);
    window.lanes_left_out = names.size() > limit;
    if (window.lanes_left_out)
      names.pop_back();
    shown_to_ = window.lanes_left_out ? names.back() : lane_name{};
    const auto each = std::max<std::size_t>(1, limit / std::max<std::size_t>(1, names.size()));
    for (const auto& lane : names)
      read_lane(lane, std::numeric_limits<std::int64_t>::min(), job_id{}, each, window);
    return window;
  } catch (...) {
    return failed();
  }
}

expected<ready_window> sqlite_store::ready_jobs_behind(const ready_job& last, std::size_t limit) {
  if (unusable_)
    return *unusable_;
  try {
    ready_window window;
    const lane_name lane{last.project, last.queue, labels_text(last.labels)};
    if (!db_->use(sql::is_paused).bind(lane.queue).step())
      read_lane(lane, last.order_key, last.id, limit, window);
    return window;
  } catch (...) {
    return failed();
  }
}

} // namespace kcx::sqlite
