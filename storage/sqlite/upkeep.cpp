// The part of the store that looks after what has ended: retrying, dead letters, removing; pausing; checkpoints.
#include "storage/job_json.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <algorithm>
#include <sqlite3.h>

namespace kcx::sqlite {

namespace {

constexpr std::int64_t page_bytes = 4'096;

std::string name_of(job_id id) {
  return "job " + std::to_string(id.value);
}

/// The secrets that are missing or too many, each with its pointer.
std::vector<field_error> compare_secrets(const std::vector<std::string>& wanted,
                                         const std::map<std::string, std::string>& given) {
  std::vector<field_error> wrong;
  for (const auto& name : wanted)
    if (!given.contains(name))
      wrong.push_back({"/secrets/" + name, "is missing: secrets are erased when a job ends, and this one had it"});
  for (const auto& [name, value] : given)
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end())
      wrong.push_back({"/secrets/" + name, "is not a secret of this job"});
  return wrong;
}

} // namespace

// -- retrying ---------------------------------------------------------------------------------------------------------

expected<job_record> sqlite_store::retry(job_id id, const std::map<std::string, std::string>& secrets, timestamp now,
                                         retry_what what) {
  return write(parts::several, [&]() -> expected<job_record> {
    job_spec spec;
    {
      auto row = db_->use(sql::select_for_retry);
      if (!row.bind(id).step())
        return missing_job(*db_, id);
      if (!is_final(read_state(row, 0)))
        return error{ec::conflict, name_of(id) + " has not ended yet: it is " + row.text(0), {}};
      if (what == retry_what::dead_letter && row.integer(2) == 0)
        return error{ec::conflict, name_of(id) + " is no dead letter", {}};
      auto stored = load_spec(id);
      if (!stored)
        return std::move(stored).error();
      spec = std::move(*stored);
      auto wrong = compare_secrets(read_labels(row, 1), secrets);
      if (!wrong.empty())
        return error{ec::invalid_input, "the secrets of " + name_of(id) + " must be given again", std::move(wrong)};
    }
    if (const auto holder = holder_of_key(spec.unique_key))
      return error{ec::conflict, name_of(*holder) + " has the same unique key and has not ended", {}};
    if (const auto held = predecessors(spec); !held.empty())
      return error{ec::conflict, name_of(held.front().job) + " of the same unique key is still being ended", {}};
    spec.secrets = secrets;
    spec.run_at.reset(); // again means now
    const auto open = renew_needs(spec.needs);
    auto job = insert_one(spec, now, id, open.empty() ? readiness::open : readiness::blocked);
    if (!open.empty())
      block_on(job.id, open, now);
    db_->use(sql::copy_webhook_secret).bind(job.id, id).run();
    db_->use(sql::discard_if_dead).bind(id).run();
    return job;
  });
}

std::vector<job_need> sqlite_store::renew_needs(std::vector<job_need>& needs) {
  std::vector<job_need> open;
  for (auto& need : needs) {
    for (auto more = true; more;) {
      auto row = db_->use(sql::select_latest_retry);
      more = row.bind(need.job).step() && !row.is_null(0);
      if (more)
        need.job = job_id{row.integer(0)};
    }
    auto row = db_->use(sql::select_state);
    if (row.bind(need.job).step() && !is_final(read_state(row, 0)))
      open.push_back(need);
  }
  return open;
}

outcome sqlite_store::discard_dead_letter(job_id id) {
  return write(parts::one, [&]() -> outcome {
    if (db_->use(sql::discard_if_dead).bind(id).run() != 0)
      return done{};
    auto row = db_->use(sql::select_log);
    if (!row.bind(id).step())
      return missing_job(*db_, id);
    return error{ec::conflict, name_of(id) + " is no dead letter", {}};
  });
}

// -- queues -----------------------------------------------------------------------------------------------------------

outcome sqlite_store::pause_queue(const std::string& queue, const std::string& who, timestamp now) {
  return write(parts::one, [&]() -> outcome {
    db_->use(sql::pause_queue).bind(queue, now, who).run();
    return done{};
  });
}

outcome sqlite_store::resume_queue(const std::string& queue) {
  return write(parts::one, [&]() -> outcome {
    db_->use(sql::resume_queue).bind(queue).run();
    return done{};
  });
}

expected<std::vector<std::string>> sqlite_store::paused_queues() {
  if (unusable_)
    return *unusable_;
  try {
    std::vector<std::string> names;
    auto rows = db_->use(sql::select_paused);
    while (rows.step())
      names.push_back(rows.text(0));
    return names;
  } catch (...) {
    return failed();
  }
}

// -- removing ---------------------------------------------------------------------------------------------------------

expected<removed_job> sqlite_store::remove(job_id id) {
  return write(parts::one, [&]() -> expected<removed_job> {
    removed_job removed{id, 0};
    {
      auto row = db_->use(sql::select_log);
      if (!row.bind(id).step())
        return missing_job(*db_, id);
      if (!is_final(read_state(row, 0)))
        return error{ec::conflict, name_of(id) + " has not ended yet: it is " + row.text(0), {}};
      removed.attempts = row.number(1);
    }
    db_->use(sql::remove_job).bind(id).run();
    beyond_.clear();
    return removed;
  });
}

void sqlite_store::find_expired(std::vector<removed_job>& found, job_state state, const retention_rule& rule,
                                timestamp now, std::size_t limit) {
  if (found.size() >= limit)
    return;
  const auto beyond = rule.count ? newest_beyond(state, *rule.count) : 0;
  // What was created after the cut cannot have ended before it, so the search ends there: by id, jobs ascend in their
  // creation, and only those that took long are looked at in vain.
  const auto cut = rule.age ? std::optional{now - *rule.age} : std::nullopt;
  auto rows = db_->use(sql::select_final);
  rows.bind(to_string(state));
  while (found.size() < limit && rows.step()) {
    const auto id = rows.integer(0);
    const auto too_old = cut && rows.time(3) < *cut;
    if (id <= beyond || too_old)
      found.push_back({job_id{id}, rows.number(1)});
    else if (!cut || rows.time(2) >= *cut)
      break;
  }
  if (found.size() < limit)
    beyond_.erase(state);
}

std::int64_t sqlite_store::newest_beyond(job_state state, std::int64_t count) {
  if (const auto known = beyond_.find(state); known != beyond_.end() && known->second.first == count)
    return known->second.second;
  auto row = db_->use(sql::select_beyond);
  const auto newest = row.bind(to_string(state), count).step() ? row.integer(0) : 0;
  beyond_[state] = {count, newest};
  return newest;
}

expected<std::vector<removed_job>> sqlite_store::remove_expired(const retention_policy& policy, timestamp now,
                                                                std::size_t limit) {
  return write(parts::several, [&]() -> expected<std::vector<removed_job>> {
    std::vector<removed_job> found;
    for (const auto& [state, rule] : policy)
      if (is_final(state))
        find_expired(found, state, rule, now, limit);
    for (const auto& job : found)
      db_->use(sql::remove_job).bind(job.id).run();
    return found;
  });
}

// -- upkeep -----------------------------------------------------------------------------------------------------------

// What lies in the write-ahead log needs its place in the database file at the next checkpoint.
std::int64_t sqlite_store::owed_bytes() noexcept {
  if (unusable_)
    return 0;
  try {
    auto row = db_->use(sql::page_count);
    const auto pages = row.step() ? row.integer(0) : 0;
    std::error_code unknown;
    const auto size = std::filesystem::file_size(db_->file(), unknown);
    return unknown ? 0 : std::max<std::int64_t>(0, pages * page_bytes - static_cast<std::int64_t>(size));
  } catch (const std::exception&) {
    return 0;
  }
}

void sqlite_store::erase_secrets(job_id job) {
  if (db_->use(sql::erase_secrets).bind(job).run() > 0)
    secrets_in_log_ = true;
}

expected<std::int64_t> sqlite_store::checkpoint() {
  if (unusable_)
    return *unusable_;
  if (db_->in_transaction())
    return error{ec::internal, "a checkpoint was asked for inside a transaction", {}};
  auto in_log = 0;
  auto copied = 0;
  const auto result = sqlite3_wal_checkpoint_v2(db_->handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &in_log, &copied);
  if (result != SQLITE_OK && (result & 0xFF) != SQLITE_BUSY) // busy: readers are in the way, the rest comes next time
    return noted(to_error(SQLite::Exception{db_->handle(), result}, db_->file(), system_error_of(*db_)));
  constexpr std::int64_t frame_bytes = page_bytes + 24;
  if (secrets_in_log_ && in_log == copied)
    empty_log();
  else if (in_log * frame_bytes > options_.largest_log)
    restart_log();
  return std::max(0, in_log - copied) * frame_bytes;
}

// What was copied stays in the log until others write over it, which on an idle node is never.
void sqlite_store::empty_log() {
  const auto now = std::chrono::steady_clock::now();
  if (emptied_at_ && now - *emptied_at_ < options_.log_emptying_interval)
    return;
  // A reader is in the way for a moment only: rather at the next checkpoint than wait for it.
  if (checkpoint_within(SQLITE_CHECKPOINT_TRUNCATE, {})) {
    secrets_in_log_ = false;
    emptied_at_ = now;
  }
}

// Readers that overlap keep the log from ever being begun anew. Those that begin while this waits read the database
// file alone, so it is soon over; writers wait meanwhile, hence not soon again where it was in vain.
void sqlite_store::restart_log() {
  const auto now = std::chrono::steady_clock::now();
  if (waited_at_ && now - *waited_at_ < options_.reader_pause)
    return;
  if (!checkpoint_within(SQLITE_CHECKPOINT_RESTART, options_.reader_patience))
    waited_at_ = now;
}

bool sqlite_store::checkpoint_within(int mode, std::chrono::milliseconds patience) {
  sqlite3_busy_timeout(db_->handle(), static_cast<int>(patience.count()));
  const auto result = sqlite3_wal_checkpoint_v2(db_->handle(), nullptr, mode, nullptr, nullptr);
  patient_ = false;
  be_patient(true);
  return result == SQLITE_OK;
}

} // namespace kcx::sqlite
