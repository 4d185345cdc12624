// The part of the store that moves jobs on: steps, finishing, cancelling, promoting, ending what a lost holder held.
#include "storage/job_json.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace kcx::sqlite {

namespace {

error stale(attempt_key key) {
  return {ec::stale_attempt,
          "attempt " + std::to_string(key.attempt) + " of job " + std::to_string(key.job.value) + " is no longer held",
          {}};
}

/// What is wrong with the steps that a worker elsewhere reports; the node's own are told which there are.
std::optional<error> unknown_step(const attempt_result& result, std::size_t count) {
  for (std::size_t i = 0; result.nonce && i < result.steps.size(); ++i) {
    const auto index = result.steps[i].index;
    if (static_cast<std::size_t>(index) < count)
      continue;
    const auto what = "there is no step " + std::to_string(index) + ": job " + std::to_string(result.key.job.value) +
                      " has " + std::to_string(count) + ", counted from 0";
    return error{ec::invalid_input, what, {{"/steps/" + std::to_string(i) + "/index", what}}};
  }
  return std::nullopt;
}

/// How a step ended that was running when its attempt did.
step_state last_state(attempt_outcome outcome) {
  switch (outcome) {
  case attempt_outcome::time_limit:
  case attempt_outcome::no_output: return step_state::timed_out;
  case attempt_outcome::cancelled: return step_state::cancelled;
  case attempt_outcome::worker_crashed:
  case attempt_outcome::node_stopped:
  case attempt_outcome::node_restarted:
  case attempt_outcome::not_started:
  case attempt_outcome::lease_expired: return step_state::interrupted;
  default: return step_state::failed;
  }
}

job_change change_of(const hot_row& row, job_state state, job_reason reason, timestamp at) {
  return {row.id, state, reason, row.attempt, row.worker, at};
}

} // namespace

expected<hot_row> sqlite_store::load(job_id id) {
  auto row = db_->use(sql::select_for_move);
  if (!row.bind(id).step())
    return missing_job(*db_, id);
  hot_row job;
  job.id = id;
  job.state = read_state(row, 0);
  job.reason = read_reason(row, 1);
  job.message = row.text(2);
  job.attempt = row.number(3);
  job.uncounted = row.number(4);
  job.interrupts = row.number(5);
  job.worker = row.text(6);
  job.nonce = row.integer(7);
  job.claimed_at = row.optional_time(8);
  job.started_at = row.optional_time(9);
  job.ready = {id, row.integer(10), row.number(11), row.text(12), row.text(13), labels_or_none(row, 14)};
  job.plain = row.integer(15) != 0;
  job.grouped = row.integer(16) != 0;
  job.wait_until = row.optional_time(17);
  return job;
}

// -- steps ------------------------------------------------------------------------------------------------------------

bool sqlite_store::put_step(attempt_key key, const step_record& step) {
  return db_->use(sql::put_step_if_held)
           .bind(key.job, key.attempt, step.index, to_string(step.state), step.exit_code, step.signal, step.started_at,
                 step.finished_at)
           .run() != 0;
}

outcome sqlite_store::record_step(attempt_key key, const step_record& step) {
  return write(parts::one, [&]() -> outcome {
    if (!put_step(key, step))
      return stale(key);
    return done{};
  });
}

void sqlite_store::store_steps(const attempt_result& result, timestamp now) {
  for (const auto& step : result.steps)
    put_step(result.key, step);
  db_->use(sql::end_running_steps)
    .bind(result.key.job, result.key.attempt, to_string(last_state(result.outcome)), now)
    .run();
}

// -- finishing --------------------------------------------------------------------------------------------------------

expected<transition_result> sqlite_store::finish(const attempt_result& result, timestamp now) {
  return write(parts::several, [&]() -> expected<transition_result> {
    const auto row = load(result.key.job);
    if (!row)
      return row.error();
    if (!is_held(row->state) || row->attempt != result.key.attempt)
      return finished_before(*row, result);
    if (result.nonce && static_cast<std::uint64_t>(row->nonce) != *result.nonce)
      return stale(result.key);
    return finish_held(*row, result, now);
  });
}

expected<transition_result> sqlite_store::finished_before(const hot_row& row, const attempt_result& result) {
  auto stored = db_->use(sql::select_attempt);
  const auto same = stored.bind(result.key.job, result.key.attempt).step() &&
                    stored.text(0) == to_string(result.outcome) && stored.optional_number(1) == result.exit_code &&
                    stored.optional_number(2) == result.signal &&
                    (!result.nonce || static_cast<std::uint64_t>(stored.integer(9)) == *result.nonce);
  if (!same)
    return stale(result.key);
  transition_result answer;
  answer.change = {row.id,         read_state(stored, 3), read_reason(stored, 4), result.key.attempt,
                   stored.text(5), stored.time(6)};
  answer.repeated = true;
  return answer;
}

expected<transition_result> sqlite_store::finish_held(const hot_row& row, const attempt_result& result, timestamp now) {
  job_record job;
  job.state = row.state;
  job.uncounted = row.uncounted;
  job.interrupts = row.interrupts;
  // One that cannot be read ends as if it asked for nothing: held for ever it would be worse.
  if (auto spec = row.plain ? expected<job_spec>{job_spec{}} : load_spec(row.id)) {
    job.spec = std::move(*spec);
    if (auto wrong = unknown_step(result, job.spec.steps.size()))
      return *std::move(wrong);
  }
  const auto end = judge(job, result);
  std::optional<timestamp> run_at;
  auto key = row.ready.order_key; // queued again at its old place
  if (end.state == job_state::scheduled) {
    run_at = now + with_jitter(end.delay, result.key);
    key = order_key(*run_at, job.spec.priority, options_.ageing_step);
  }
  // Who cancelled a job is worth more than how its processes ended.
  const auto& message = row.state == job_state::cancelling ? row.message : result.message;
  if (!row.plain)
    store_steps(result, now); // while the attempt is still held: the statement is fenced
  // Whoever asked for several attempts wants to hear that the last one failed, too, or was interrupted.
  const auto dead = job.spec.max_attempts > 1 && is_met(need_condition::failure, end.state);
  store_finish(row, result, end, message, now, run_at, key, dead);
  store_attempt(row, result, end, now);
  if (!result.outputs.empty() || result.artifacts != artifact_summary{})
    db_->use(sql::insert_result)
      .bind(row.id, row.attempt, nlohmann::json(result.outputs).dump(), result.artifacts.files, result.artifacts.bytes,
            result.artifacts.cut)
      .run();
  if (!row.plain && is_final(end.state))
    erase_secrets(row.id);
  transition_result answer;
  answer.change = change_of(row, end.state, end.reason, now);
  if (end.state != job_state::queued)
    return answer;
  // It goes on waiting: its limit may have passed while it was held.
  const auto waits = row.wait_until && result.outcome == attempt_outcome::not_started;
  answer.change.timed = waits;
  if (!row.grouped && !(waits && *row.wait_until <= now))
    answer.ready = row.ready;
  return answer;
}

namespace {

// Of the holder, who was there: a confirmation is stored some moments later. Its clock may have stepped.
std::optional<timestamp> start_of(const hot_row& row, const attempt_result& result, timestamp now) {
  if (!result.started_at)
    return row.started_at;
  const auto claimed = std::min(row.claimed_at.value_or(now), now);
  return std::clamp(*result.started_at, claimed, now);
}

} // namespace

void sqlite_store::store_finish(const hot_row& row, const attempt_result& result, const verdict& end,
                                const std::string& message, timestamp now, std::optional<timestamp> run_at,
                                std::int64_t key, bool dead_letter) {
  const auto started = start_of(row, result, now);
  const auto final = is_final(end.state);
  std::optional<std::chrono::milliseconds> duration;
  if (final && started)
    duration = std::max(result.duration, std::chrono::milliseconds{0});
  const auto changed =
    db_->use(sql::finish_if_held)
      .bind(row.id, row.attempt, to_string(end.state), to_string(end.reason), to_string(end.cause), message, now,
            end.gives_attempt_back ? 1 : 0, end.counts_interrupt ? 1 : 0, started,
            end.state == job_state::queued ? std::optional{now} : std::nullopt, run_at,
            final ? std::optional{now} : std::nullopt, key, result.exit_code, result.signal, duration, result.log.bytes,
            result.log.cut, dead_letter, result.outcome == attempt_outcome::not_started)
      .run();
  if (changed == 0)
    throw std::logic_error{"a held job could not be finished"};
}

void sqlite_store::store_attempt(const hot_row& row, const attempt_result& result, const verdict& end, timestamp now) {
  db_->use(sql::insert_attempt)
    .bind(row.id, row.attempt, row.worker, row.nonce, row.claimed_at, start_of(row, result, now), now,
          to_string(result.outcome), to_string(end.state), to_string(end.reason), to_string(end.cause),
          result.exit_code, result.signal, result.message, std::max(result.duration, std::chrono::milliseconds{0}),
          result.log.bytes, result.log.cut)
    .run();
}

namespace {

// Adds what the holder left of the log. A log also proves a start whose confirmation did not get here: taken for a
// claim that was never used, the job would run twice.
void add_log(attempt_result& result, const hot_row& row, attempt_outcome how, timestamp now, const log_lookup& log_of) {
  const auto log = log_of ? log_of(result.key) : std::nullopt;
  if (!log)
    return;
  result.log = *log;
  if (result.started_at)
    return;
  result.outcome = how;
  result.started_at = row.claimed_at;
  result.duration = std::max(std::chrono::milliseconds{0}, now - result.started_at.value_or(now));
}

} // namespace

expected<std::vector<transition_result>> sqlite_store::end_held(const std::optional<std::string>& worker,
                                                                attempt_outcome how, timestamp now, std::size_t limit,
                                                                const log_lookup& log_of) {
  return write(parts::several, [&]() -> expected<std::vector<transition_result>> {
    std::vector<attempt_result> ended;
    {
      auto rows = db_->use(worker ? sql::select_held_by : sql::select_held);
      rows.bind(static_cast<std::int64_t>(limit));
      if (worker)
        rows.bind(*worker);
      while (rows.step()) {
        auto& result = ended.emplace_back();
        result.key = {job_id{rows.integer(0)}, rows.number(1)};
        result.started_at = rows.optional_time(2);
        result.outcome = result.started_at ? how : attempt_outcome::not_started;
        // The clock that measured it is gone with its holder.
        if (result.started_at)
          result.duration = std::max(std::chrono::milliseconds{0}, now - *result.started_at);
      }
    }
    std::vector<transition_result> results;
    for (auto& result : ended) {
      const auto row = load(result.key.job);
      if (!row)
        return row.error();
      add_log(result, *row, how, now, log_of);
      // Whether all that it was to keep was copied, nobody is there to tell.
      if (result.started_at)
        if (const auto spec = load_spec(result.key.job); spec && !spec->artifacts.empty())
          result.artifacts.cut = true;
      auto moved = finish_held(*row, result, now);
      if (!moved)
        return moved.error();
      results.push_back(std::move(*moved));
    }
    return results;
  });
}

// -- cancelling and promoting -----------------------------------------------------------------------------------------

expected<transition_result> sqlite_store::cancel(job_id id, const std::string& who, timestamp now) {
  return write(parts::several, [&] { return cancel_one(id, who, now); });
}

expected<transition_result> sqlite_store::cancel_one(job_id id, const std::string& who, timestamp now) {
  const auto row = load(id);
  if (!row)
    return row.error();
  transition_result answer;
  if (row->state == job_state::cancelling || row->state == job_state::cancelled) {
    answer.change = change_of(*row, row->state, row->reason, now);
    answer.repeated = true;
    return answer;
  }
  if (is_final(row->state))
    return error{ec::conflict,
                 "job " + std::to_string(id.value) + " has ended already: " + std::string{to_string(row->state)},
                 {}};
  const auto running = row->state == job_state::running;
  db_->use(running ? sql::cancel_if_running : sql::cancel_if_waiting).bind(id, who, now).run();
  if (!running && !row->plain)
    erase_secrets(id);
  answer.change =
    change_of(*row, running ? job_state::cancelling : job_state::cancelled, job_reason::cancelled_by, now);
  return answer;
}

void sqlite_store::cancel_several(const std::vector<job_id>& jobs, const std::string& who, timestamp now,
                                  accepted_jobs& accepted) {
  if (jobs.empty())
    return;
  auto list = nlohmann::json::array();
  for (const auto each : jobs)
    list.push_back(each.value);
  const auto ids = list.dump();
  {
    auto rows = db_->use(sql::select_unfinished);
    rows.bind(ids);
    while (rows.step()) {
      auto& told = accepted.others.emplace_back();
      const auto state = read_state(rows, 1);
      told.change = {job_id{rows.integer(0)},
                     is_held(state) ? job_state::cancelling : job_state::cancelled,
                     job_reason::cancelled_by,
                     rows.number(2),
                     rows.text(3),
                     now};
      told.repeated = state == job_state::cancelling;
    }
  }
  db_->use(sql::cancel_several).bind(ids, who, now).run();
  if (db_->use(sql::erase_secrets_of_several).bind(ids).run() > 0)
    secrets_in_log_ = true;
}

void sqlite_store::promote_scheduled(promotion& moved, timestamp now, std::size_t limit) {
  {
    auto rows = db_->use(sql::select_due);
    rows.bind(now, static_cast<std::int64_t>(limit));
    while (rows.step()) {
      moved.changes.push_back(
        {job_id{rows.integer(0)}, job_state::queued, job_reason::none, rows.number(6), rows.text(7), now});
      if (rows.integer(8) == 0)
        moved.ready.push_back(read_ready(rows));
    }
  }
  for (const auto& change : moved.changes)
    db_->use(sql::queue_if_scheduled).bind(change.id, now).run();
}

void sqlite_store::expire_waiting(promotion& moved, timestamp now, std::size_t limit) {
  const auto first = moved.changes.size();
  {
    auto rows = db_->use(sql::select_impatient);
    rows.bind(now, static_cast<std::int64_t>(limit));
    while (rows.step())
      moved.changes.push_back(
        {job_id{rows.integer(0)}, job_state::timed_out, job_reason::wait_limit, rows.number(1), {}, now});
  }
  for (auto i = first; i < moved.changes.size(); ++i) {
    const auto id = moved.changes[i].id;
    db_->use(sql::expire_if_waiting).bind(id, now).run();
    erase_secrets(id);
    // One that became ready in this very call is ready no longer.
    std::erase_if(moved.ready, [&](const ready_job& job) { return job.id == id; });
  }
}

expected<promotion> sqlite_store::promote_due(timestamp now, std::size_t limit) {
  return write(parts::several, [&]() -> expected<promotion> {
    promotion moved;
    promote_scheduled(moved, now, limit);
    expire_waiting(moved, now, limit);
    moved.next_due = forget_answers(now);
    for (const auto* sql : {sql::select_next_due, sql::select_next_impatient}) {
      auto next = db_->use(sql);
      const auto at = next.step() ? next.optional_time(0) : std::nullopt;
      if (at && (!moved.next_due || *at < *moved.next_due))
        moved.next_due = at;
    }
    return moved;
  });
}

} // namespace kcx::sqlite
