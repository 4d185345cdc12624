#include "storage/sqlite/store.hpp"

#include "storage/job_json.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/schema.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <nlohmann/json.hpp>

#include <sqlite3.h>

namespace kcx {

namespace sqlite {

// -- transactions -----------------------------------------------------------------------------------------------------

outcome sqlite_store::begin() {
  if (unusable_)
    return *unusable_;
  if (db_->in_transaction())
    return done{};
  try {
    db_->use(sql::begin).run();
    return done{};
  } catch (...) {
    return failed();
  }
}

outcome sqlite_store::commit() {
  if (unusable_)
    return *unusable_;
  if (!db_->in_transaction())
    return done{};
  if (!db_->is_in_place())
    return noted({ec::storage_unusable,
                  "the database file " + db_->file().string() +
                    " was removed, replaced or emptied while the node runs; nothing more is stored",
                  {}});
  try {
    db_->use(sql::commit).run();
    return done{};
  } catch (...) {
    auto failure = failed();
    rollback();
    return failure;
  }
}

void sqlite_store::rollback() noexcept {
  // Without the cache: preparing a statement could need memory that is not there.
  if (db_->in_transaction())
    sqlite3_exec(db_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void sqlite_store::undo() noexcept {
  // After some errors SQLite has rolled everything back by itself; then there is no savepoint left.
  if (!db_->in_transaction())
    return;
  if (sqlite3_exec(db_->handle(), "ROLLBACK TO op; RELEASE op", nullptr, nullptr, nullptr) != SQLITE_OK)
    rollback();
}

error sqlite_store::noted(error failure) {
  if (failure.code == ec::storage_unusable && !unusable_) {
    unusable_ = failure;
    rollback();
    // Closing must not write what the log holds into a damaged file either.
    sqlite3_db_config(db_->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  return failure;
}

// -- claiming ---------------------------------------------------------------------------------------------------------

expected<job_id> sqlite_store::job_of_nonce(const claim_request& request) {
  if (request.job.value != 0)
    return request.job;
  auto row = db_->use(sql::select_by_nonce);
  if (!row.bind(request.worker, request.nonce).step())
    return error{ec::not_ready, "worker " + request.worker + " holds no job by this claim", {}};
  return job_id{row.integer(0)};
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
    each.artifacts = read_artifacts(row, 2);
  }
  return left;
}

expected<job_grant> sqlite_store::claim(const claim_request& request, timestamp now) {
  return write(parts::one, [&]() -> expected<job_grant> {
    const auto job = job_of_nonce(request);
    if (!job)
      return job.error();
    job_grant grant;
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
      if (queued && !row.is_null(7))
        if (auto room = room_in_group(row.text(7), *job, row.number(8)); !room)
          return std::move(room).error();
      auto spec = from_stored_json(row.text(4));
      if (!spec)
        return noted(spec.error());
      grant.spec = std::move(*spec);
      if (!row.is_null(5))
        grant.spec.secrets = nlohmann::json::parse(row.text(5)).get<std::map<std::string, std::string>>();
      grant.key = {*job, row.number(1) + (queued ? 1 : 0)};
    }
    grant.needs = left_by(grant.spec.needs);
    if (queued)
      db_->use(sql::claim_if_queued).bind(*job, request.worker, request.nonce, now).run();
    return grant;
  });
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

expected<std::vector<ready_job>> sqlite_store::ready_jobs(std::int64_t after_key, job_id after_id, std::size_t limit) {
  if (unusable_)
    return *unusable_;
  try {
    std::vector<ready_job> jobs;
    auto rows = db_->use(sql::select_ready);
    rows.bind(after_key, after_id, static_cast<std::int64_t>(limit));
    while (rows.step())
      jobs.push_back(read_ready(rows));
    return jobs;
  } catch (...) {
    return failed();
  }
}

} // namespace sqlite

namespace {

std::string read_node_id(sqlite::connection& db) {
  auto row = db.use(sqlite::sql::select_node_id);
  return row.step() ? row.text(0) : throw sqlite::bad_value{"the database has no node id"};
}

void pass_over(sqlite::connection& db, job_id used) {
  const auto row = [&] {
    auto highest = db.use(sqlite::sql::select_highest_id);
    return highest.step() ? std::optional{highest.integer(0)} : std::nullopt;
  }();
  if (used.value > row.value_or(0))
    db.use(row ? sqlite::sql::raise_highest_id : sqlite::sql::insert_highest_id).bind(used).run();
}

} // namespace

expected<std::unique_ptr<job_store>> open_sqlite_store(const std::filesystem::path& file, timestamp now,
                                                       const sqlite_options& options) {
  if (auto sound = sqlite::inspect(file); !sound)
    return sound.error();
  try {
    auto db = sqlite::open_writer(file, now, options.busy_timeout);
    auto node_id = read_node_id(*db);
    pass_over(*db, options.used_ids);
    return std::unique_ptr<job_store>{
      std::make_unique<sqlite::sqlite_store>(std::move(db), std::move(node_id), options)};
  } catch (...) {
    return sqlite::current_error(file, 0);
  }
}

} // namespace kcx
