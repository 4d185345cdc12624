#include "storage/sqlite/store.hpp"

#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/schema.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <sqlite3.h>

namespace kcx {

namespace sqlite {

namespace {

/// How long an operation waits for a file that another has waited for in vain.
constexpr std::chrono::milliseconds impatience{50};

} // namespace

// -- transactions -----------------------------------------------------------------------------------------------------

outcome sqlite_store::begin() {
  if (unusable_)
    return *unusable_;
  if (db_->in_transaction())
    return done{};
  try {
    db_->use(sql::begin).run();
    be_patient(true);
    return done{};
  } catch (...) {
    auto failure = failed();
    if (failure.code == ec::storage_busy)
      be_patient(false);
    return failure;
  }
}

void sqlite_store::be_patient(bool patient) noexcept {
  if (patient_ != patient)
    sqlite3_busy_timeout(db_->handle(), static_cast<int>((patient ? options_.busy_timeout : impatience).count()));
  patient_ = patient;
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
  beyond_.clear();
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

} // namespace sqlite

namespace {

std::string read_node_id(sqlite::connection& db) {
  auto row = db.use(sqlite::sql::select_node_id);
  return row.step() ? row.text(0) : std::string{};
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
    if (options.used_ids.value > 0 && sqlite::is_empty(file))
      return error{ec::storage_unusable,
                   "The database " + file.string() + " is empty, though files of job " +
                     std::to_string(options.used_ids.value) +
                     " are there. Nothing was written; restore it from a backup, or remove it to begin without the "
                     "former jobs.",
                   {}};
    auto db = sqlite::open_writer(file, now, options.busy_timeout);
    auto node_id = read_node_id(*db);
    if (node_id.empty())
      return error{ec::storage_unusable,
                   "The database " + file.string() + " is damaged: it has no node id. Restore it from a backup.",
                   {}};
    pass_over(*db, options.used_ids);
    return std::unique_ptr<job_store>{
      std::make_unique<sqlite::sqlite_store>(std::move(db), std::move(node_id), options)};
  } catch (...) {
    return sqlite::current_error(file, 0);
  }
}

} // namespace kcx
