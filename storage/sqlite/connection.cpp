#include "storage/sqlite/connection.hpp"

#include <cerrno>
#include <new>
#include <sqlite3.h>
#include <sys/stat.h>
#include <system_error>

namespace kcx::sqlite {

namespace {

/// Opcodes of SQLite's machine between two looks at the clock: some tens of microseconds.
constexpr int opcodes_per_look = 2'000;

int deadline_passed(void* limit) {
  return static_cast<work_limit*>(limit)->passed() ? 1 : 0;
}

std::string system_words(int number) {
  return number == 0 ? std::string{} : " (" + std::system_category().message(number) + ")";
}

error full(const std::string& name) {
  return {ec::storage_full, "The disk or quota of " + name + " is full: nothing was stored. Free space on it.", {}};
}

error damaged(const std::string& name, const std::string& words) {
  return {ec::storage_unusable,
          "The database " + name + " is damaged (" + words +
            "): nothing more is written to it. Restore it from a backup.",
          {}};
}

/// A connection belongs to one thread. Nor does anybody ask for SQLite's memory statistics, for which each allocation
/// of each connection would take one common lock; that must be said before SQLite is used first.
int with_no_locks(int flags) {
  static const int before_first_use = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)before_first_use;
  return flags | SQLITE_OPEN_NOMUTEX;
}

} // namespace

cursor::~cursor() {
  if (statement_ != nullptr)
    statement_->tryReset(); // its error is that of the step that failed, which was thrown already
}

int cursor::run() {
  while (statement_->executeStep()) {
  }
  return statement_->getChanges();
}

std::optional<std::int32_t> cursor::optional_number(int column) const {
  if (is_null(column))
    return std::nullopt;
  return number(column);
}

std::optional<timestamp> cursor::optional_time(int column) const {
  if (is_null(column))
    return std::nullopt;
  return time(column);
}

connection::connection(const std::filesystem::path& file, int flags, std::chrono::milliseconds busy_timeout)
  : file_{file}, database_{file.string(), with_no_locks(flags), static_cast<int>(busy_timeout.count())} {
  auto* db = handle();
  sqlite3_extended_result_codes(db, 1);
  // A file made by somebody else must not run code of its own, and SQL must not rewrite SQLite's own tables.
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  // A checkpoint inside a commit would make one submitter wait for it: checkpoints are calls of their own.
  sqlite3_wal_autocheckpoint(db, 0);
  // A mapped page of a damaged or truncated file would be a SIGBUS instead of an error.
  database_.exec("PRAGMA mmap_size = 0");
  // Savepoints spill to temporary files otherwise, and giving their memory back costs more than the SQL.
  database_.exec("PRAGMA temp_store = MEMORY");
  struct stat about {};
  if (::stat(file_.c_str(), &about) == 0)
    identity_ = {about.st_dev, about.st_ino};
}

bool connection::is_in_place() const noexcept {
  struct stat about {};
  return ::stat(file_.c_str(), &about) == 0 && about.st_size > 0 &&
         identity_ == std::pair<std::uint64_t, std::uint64_t>{about.st_dev, about.st_ino};
}

cursor connection::use(const char* sql) {
  auto& slot = statements_[sql];
  if (!slot)
    slot = std::make_unique<SQLite::Statement>(database_, sql);
  return cursor{*slot};
}

bool connection::in_transaction() const noexcept {
  return sqlite3_get_autocommit(handle()) == 0;
}

work_limit::work_limit(connection& db, std::chrono::milliseconds limit)
  : handle_{db.handle()}, deadline_{std::chrono::steady_clock::now() + limit} {
  sqlite3_progress_handler(handle_, opcodes_per_look, &deadline_passed, this);
}

work_limit::~work_limit() {
  sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
}

error to_error(const SQLite::Exception& failure, const std::filesystem::path& file, int system_error) {
  const auto name = file.string();
  const auto words = std::string{failure.what()};
  switch (failure.getErrorCode() & 0xFF) {
  case SQLITE_FULL: return full(name);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return {
      ec::storage_busy, "Another process holds the database " + name + ": nothing was stored. Try again later.", {}};
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return damaged(name, words);
  case SQLITE_INTERRUPT: return {ec::timeout, "The query took too long and was ended: ask for less at once.", {}};
  case SQLITE_CONSTRAINT: return {ec::internal, "An invariant of the database refused a write: " + words + ".", {}};
  case SQLITE_IOERR:
    // Of the index of the write-ahead log, SQLite does not tell why it cannot grow.
    if (system_error == ENOSPC || system_error == EDQUOT || failure.getExtendedErrorCode() == SQLITE_IOERR_SHMSIZE)
      return full(name);
    break;
  default: break;
  }
  return {
    ec::storage_failed, "Using the database " + name + " failed: " + words + system_words(system_error) + ".", {}};
}

error current_error(const std::filesystem::path& file, int system_error) noexcept {
  try {
    throw;
  } catch (const SQLite::Exception& failure) {
    return to_error(failure, file, system_error);
  } catch (const bad_value& failure) {
    return {ec::internal, "The database " + file.string() + " holds what cannot be read: " + failure.what() + ".", {}};
  } catch (const std::bad_alloc&) {
    return {ec::storage_failed, "Not enough memory.", {}};
  } catch (const std::exception& failure) {
    return {ec::internal, failure.what(), {}};
  }
}

int system_error_of(const connection& db) noexcept {
  return sqlite3_system_errno(db.handle());
}

} // namespace kcx::sqlite
