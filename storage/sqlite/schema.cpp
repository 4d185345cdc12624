#include "storage/sqlite/schema.hpp"

#include <array>
#include <fstream>
#include <map>
#include <sqlite3.h>
#include <system_error>

namespace kcx::sqlite {

namespace {

// What a transaction did to groups, for the store that looks at them before the commit. Of the connection, not of the
// file: after a restart everything ready is read anew.
constexpr const char* watch_groups = R"sql(
CREATE TEMP TABLE touched_groups (grp TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TRIGGER group_grew AFTER INSERT ON main.jobs WHEN NEW.grp IS NOT NULL BEGIN
  INSERT OR IGNORE INTO touched_groups (grp) VALUES (NEW.grp);
END;
CREATE TEMP TRIGGER group_moved AFTER UPDATE OF state, labels, order_key ON main.jobs WHEN NEW.grp IS NOT NULL BEGIN
  INSERT OR IGNORE INTO touched_groups (grp) VALUES (NEW.grp);
END;
)sql";

std::int64_t pragma(connection& db, const char* sql) {
  return db.database().execAndGet(sql).getInt64();
}

error refused(const std::filesystem::path& file, const std::string& why) {
  return {ec::storage_unusable, "The database " + file.string() + " " + why, {}};
}

/// Not a queue's file, by its first bytes; SQLite's own words for it are less clear, and it may create files beside it.
outcome check_magic(const std::filesystem::path& file) {
  std::array<char, 16> head{};
  std::ifstream in{file, std::ios::binary};
  if (!in)
    return error{ec::storage_failed, "The database " + file.string() + " cannot be read.", {}};
  in.read(head.data(), head.size());
  const std::string_view magic{"SQLite format 3\0", 16};
  if (in.gcount() != 0 && std::string_view{head.data(), static_cast<std::size_t>(in.gcount())} != magic)
    return refused(file, "is damaged or is no database: its first bytes are not SQLite's. Nothing was written to it.");
  return done{};
}

/// SQLite takes the write-ahead log of a file without content for a left-over and removes it, though it may hold all
/// there is: so before it sees either.
outcome check_files(const std::filesystem::path& file) {
  std::error_code unknown;
  const bool exists = std::filesystem::exists(file, unknown);
  if (exists && !std::filesystem::is_regular_file(file, unknown))
    return refused(file, "is no regular file.");
  const auto bytes_in = [](const std::filesystem::path& path) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(path, missing);
    return missing ? 0 : size;
  };
  if (bytes_in(file) == 0 && bytes_in(file.string() + "-wal") > 0)
    return refused(file, std::string{exists ? "is empty" : "is missing"} +
                           ", though its write-ahead log is there and may hold jobs. Nothing was written; put the "
                           "database back, or restore it from a backup.");
  return done{};
}

outcome check_owner_and_version(connection& db) {
  const auto version = pragma(db, "PRAGMA user_version");
  const bool empty = pragma(db, "SELECT count(*) FROM sqlite_schema") == 0;
  if (empty && version == 0)
    return done{}; // created a moment before a crash: as good as new
  if (!empty && pragma(db, "PRAGMA application_id") != application_id)
    return refused(db.file(), "belongs to another program. Nothing was written to it.");
  if (empty || version <= 0)
    return refused(db.file(), "is damaged: it has schema version " + std::to_string(version) +
                                (empty ? " and no table." : ".") +
                                " Nothing was written to it; restore it from a backup.");
  if (version > static_cast<std::int64_t>(migrations().size()))
    return refused(db.file(), "has schema version " + std::to_string(version) + ", but this program knows only up to " +
                                std::to_string(migrations().size()) +
                                ": use the newer program. Nothing was written to it.");
  return done{};
}

/// Tables, indexes and triggers with their text.
std::map<std::string, std::string> objects_of(SQLite::Database& db) {
  std::map<std::string, std::string> found;
  SQLite::Statement rows{db, "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema"};
  while (rows.executeStep())
    found.emplace(rows.getColumn(0).getString(), rows.getColumn(1).getString());
  return found;
}

/// A queue that lacks a table or a trigger would take jobs and never run them.
outcome check_objects(connection& db) {
  SQLite::Database model{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  for (const auto* migration : migrations().first(static_cast<std::size_t>(pragma(db, "PRAGMA user_version"))))
    model.exec(migration);
  const auto present = objects_of(db.database());
  for (const auto& [name, text] : objects_of(model)) {
    const auto found = present.find(name);
    if (found == present.end() || found->second != text)
      return refused(db.file(), "is damaged: its " + name + (found == present.end() ? " is missing" : " was changed") +
                                  ". Nothing was written to it; restore it from a backup.");
  }
  return done{};
}

outcome check_damage(connection& db) {
  const work_limit limit{db, std::chrono::seconds{1}};
  try {
    const auto words = db.database().execAndGet("PRAGMA quick_check(1)").getString();
    if (words != "ok")
      return refused(db.file(), "is damaged (" + words + "). Nothing was written to it; restore it from a backup.");
  } catch (const SQLite::Exception& failure) {
    if (failure.getErrorCode() != SQLITE_INTERRUPT)
      throw;
  }
  return done{};
}

} // namespace

void migrate(connection& db, timestamp now) {
  const auto wanted = static_cast<std::int64_t>(migrations().size());
  if (pragma(db, "PRAGMA user_version") == wanted)
    return;
  SQLite::Statement{db.database(), "BEGIN IMMEDIATE"}.executeStep();
  try {
    const auto present = pragma(db, "PRAGMA user_version");
    for (auto version = present; version < wanted; ++version)
      db.execute(migrations()[static_cast<std::size_t>(version)]);
    if (present == 0) {
      SQLite::Statement insert{
        db.database(), "INSERT INTO node (only, node_id, created_at) VALUES (1, lower(hex(randomblob(16))), ?)"};
      insert.bind(1, std::int64_t{now.time_since_epoch().count()});
      insert.exec();
      db.execute("PRAGMA application_id = " + std::to_string(application_id));
    }
    db.execute("PRAGMA user_version = " + std::to_string(wanted));
    db.execute("COMMIT");
  } catch (...) {
    if (db.in_transaction())
      sqlite3_exec(db.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

std::unique_ptr<connection> open_writer(const std::filesystem::path& file, timestamp now,
                                        std::chrono::milliseconds busy_timeout) {
  auto db = std::make_unique<connection>(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, busy_timeout);
  db->execute("PRAGMA journal_mode = WAL");
  // Every commit reaches the disk before it is acknowledged.
  db->execute("PRAGMA synchronous = FULL");
  // What is deleted is overwritten: secrets must not stay in free pages.
  db->execute("PRAGMA secure_delete = ON");
  // A log that once grew under a long reader is cut back when it starts anew.
  db->execute("PRAGMA journal_size_limit = 67108864");
  migrate(*db, now);
  // What a crash left in the log goes into the file, so that the log begins anew: else it would grow with each crash.
  // As far as there is space; what is wrong with the file, the next operation tells.
  sqlite3_wal_checkpoint_v2(db->handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  db->execute(watch_groups);
  return db;
}

outcome inspect(const std::filesystem::path& file) {
  if (auto there = check_files(file); !there)
    return there;
  std::error_code missing;
  if (!std::filesystem::exists(file, missing))
    return missing ? outcome{error{ec::storage_failed,
                                   "The database " + file.string() + " cannot be found (" + missing.message() + ").",
                                   {}}}
                   : outcome{done{}};
  if (auto magic = check_magic(file); !magic)
    return magic;
  try {
    // A read-only connection recovers a left-over write-ahead log in memory but never changes the file.
    connection db{file, SQLite::OPEN_READONLY, std::chrono::seconds{5}};
    if (auto owned = check_owner_and_version(db); !owned)
      return owned;
    if (auto complete = check_objects(db); !complete)
      return complete;
    return check_damage(db);
  } catch (...) {
    return current_error(file, 0);
  }
}

bool is_empty(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown))
    return false;
  connection db{file, SQLite::OPEN_READONLY, std::chrono::seconds{5}};
  return pragma(db, "SELECT count(*) FROM sqlite_schema") == 0;
}

} // namespace kcx::sqlite
