#include "storage/sqlite/maintenance.hpp"

#include "config/posix.hpp"
#include "storage/sqlite/connection.hpp"
#include "storage/sqlite/schema.hpp"

#include <SQLiteCpp/Backup.h>

#include <cerrno>
#include <fcntl.h>
#include <sqlite3.h>
#include <system_error>
#include <tuple>
#include <unistd.h>

namespace kcx {

namespace {

namespace fs = std::filesystem;
using sqlite::connection;

constexpr auto patience = std::chrono::seconds{10};

error no_file(const fs::path& file) {
  return {ec::not_found, "there is no database " + file.string(), {}};
}

/// Asked of the system itself: SQLite only knows that it could not open the file, and not why.
outcome may_be_read(const fs::path& file) {
  const unique_fd opened{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened)
    return done{};
  return error{ec::system_failed,
               "The database " + file.string() + " cannot be read: " + std::generic_category().message(errno) + ".",
               {}};
}

std::vector<std::string> find_damage(connection& db) {
  std::vector<std::string> found;
  SQLite::Statement check{db.database(), "PRAGMA quick_check(10)"};
  while (check.executeStep())
    if (auto words = check.getColumn(0).getString(); words != "ok")
      found.push_back(std::move(words));
  SQLite::Statement orphans{db.database(), "PRAGMA foreign_key_check"};
  if (orphans.executeStep())
    found.push_back("a row of " + orphans.getColumn(0).getString() + " belongs to nothing");
  return found;
}

database_report report_of(connection& db) {
  database_report report;
  report.version = db.database().execAndGet("PRAGMA user_version").getInt();
  report.known_version = static_cast<std::int32_t>(sqlite::migrations().size());
  report.node_id = db.database().execAndGet("SELECT node_id FROM node").getString();
  SQLite::Statement count{db.database(), "SELECT count(*), max(created_at) FROM jobs"};
  if (count.executeStep()) {
    report.jobs = count.getColumn(0).getInt64();
    if (!count.getColumn(1).isNull())
      report.newest = timestamp{std::chrono::milliseconds{count.getColumn(1).getInt64()}};
  }
  report.damage = find_damage(db);
  return report;
}

/// Made here and not by SQLite: with its mode, and never over a file that is there.
outcome make_empty(const fs::path& file) {
  const unique_fd made{::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (made)
    return done{};
  const auto number = errno;
  return error{number == EEXIST ? ec::conflict : ec::storage_failed,
               "cannot make " + file.string() + ": " + std::generic_category().message(number),
               {}};
}

/// A node started on the copy must not take the processes of the one it was copied from for its own leftovers.
void make_independent(connection& db) {
  db.execute("UPDATE node SET node_id = lower(hex(randomblob(16)))");
}

/// Opened and read once before anything is copied: what is wrong with the original is told of the original.
outcome try_to_read(const fs::path& file) {
  if (auto readable = may_be_read(file); !readable)
    return readable;
  try {
    connection from{file, SQLite::OPEN_READONLY, patience};
    std::ignore = from.database().execAndGet("PRAGMA user_version");
    return done{};
  } catch (...) {
    return sqlite::current_error(file, errno);
  }
}

outcome copy_into(const fs::path& file, const fs::path& copy) {
  connection to{copy, SQLite::OPEN_READWRITE, patience};
  {
    connection from{file, SQLite::OPEN_READONLY, patience};
    SQLite::Backup backup{to.database(), from.database()};
    // In one go: between two pieces a writer could change what was copied, and it would begin again and again.
    if (const auto result = backup.executeStep(-1); result != SQLITE_DONE)
      return error{ec::storage_busy, "The database " + file.string() + " is busy; try again.", {}};
  }
  // A single file, whatever the original's journal is; the node that opens it changes that back.
  to.execute("PRAGMA journal_mode = DELETE");
  to.execute("PRAGMA synchronous = FULL");
  make_independent(to);
  if (const auto damage = find_damage(to); !damage.empty())
    return error{ec::storage_unusable, "The database " + file.string() + " is damaged: " + damage.front(), {}};
  return done{};
}

} // namespace

expected<database_report> examine_database(const fs::path& file) {
  std::error_code failed;
  if (!fs::exists(file, failed))
    return no_file(file);
  if (auto readable = may_be_read(file); !readable)
    return readable.error();
  if (auto looked = sqlite::inspect(file); !looked)
    return looked.error();
  try {
    connection db{file, SQLite::OPEN_READONLY, patience};
    return guarded(db, [&]() -> expected<database_report> { return report_of(db); });
  } catch (...) {
    return sqlite::current_error(file, 0);
  }
}

outcome copy_database(const fs::path& file, const fs::path& copy) {
  std::error_code failed;
  if (!fs::exists(file, failed))
    return no_file(file);
  if (auto readable = try_to_read(file); !readable)
    return readable;
  if (auto made = make_empty(copy); !made)
    return made;
  outcome result;
  try {
    result = copy_into(file, copy);
  } catch (...) {
    result = sqlite::current_error(copy, errno);
  }
  if (!result)
    fs::remove(copy, failed);
  return result;
}

expected<std::unordered_map<std::int64_t, std::int32_t>> latest_attempts(const fs::path& file) {
  try {
    connection db{file, SQLite::OPEN_READONLY, patience};
    std::unordered_map<std::int64_t, std::int32_t> latest;
    SQLite::Statement rows{db.database(), "SELECT id, attempt FROM jobs WHERE attempt > 0"};
    while (rows.executeStep())
      latest.emplace(rows.getColumn(0).getInt64(), rows.getColumn(1).getInt());
    return latest;
  } catch (...) {
    return sqlite::current_error(file, 0);
  }
}

} // namespace kcx
