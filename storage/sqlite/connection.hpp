/// One SQLite connection as KCX uses it: settings, cached statements, and errors that a user understands.
///
/// Inside this folder SQLite's failures travel as SQLite::Exception up to guarded() or the store's write(), which turn
/// them into kcx::error; none leaves the folder. Not thread safe: one thread at a time.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

struct sqlite3;

namespace kcx::sqlite {

/// A stored value that no version of this program writes. It concerns whatever is read there alone: a file is damaged
/// where SQLite says so.
class bad_value : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A cached statement in use: bound, stepped, and reset when it goes out of scope.
class cursor {
public:
  explicit cursor(SQLite::Statement& statement) : statement_{&statement} {}
  cursor(cursor&& other) noexcept : statement_{other.statement_}, next_{other.next_} { other.statement_ = nullptr; }
  cursor& operator=(cursor&&) = delete;
  ~cursor();

  /// Binds the next parameters in order.
  template <class... Ts>
  cursor& bind(const Ts&... values) {
    (put(values), ...);
    return *this;
  }

  /// Whether there is a (further) row. Throws SQLite::Exception.
  bool step() { return statement_->executeStep(); }
  /// Runs a statement that yields no rows; returns how many rows it changed. Throws SQLite::Exception.
  int run();

  [[nodiscard]] std::int64_t integer(int column) const { return statement_->getColumn(column).getInt64(); }
  [[nodiscard]] std::int32_t number(int column) const { return static_cast<std::int32_t>(integer(column)); }
  [[nodiscard]] std::string text(int column) const { return statement_->getColumn(column).getString(); }
  [[nodiscard]] bool is_null(int column) const { return statement_->isColumnNull(column); }
  [[nodiscard]] std::optional<std::int32_t> optional_number(int column) const;
  [[nodiscard]] timestamp time(int column) const { return timestamp{std::chrono::milliseconds{integer(column)}}; }
  [[nodiscard]] std::optional<timestamp> optional_time(int column) const;

private:
  void put(std::int64_t value) { statement_->bind(next_++, value); }
  void put(std::int32_t value) { statement_->bind(next_++, value); }
  void put(bool value) { statement_->bind(next_++, value ? 1 : 0); }
  void put(std::uint64_t value) { put(static_cast<std::int64_t>(value)); }
  void put(const std::string& value) { statement_->bind(next_++, value); }
  /// Only for texts that live as long as the program, such as to_string() returns.
  void put(std::string_view literal) { statement_->bindNoCopy(next_++, literal.data()); }
  void put(std::nullptr_t) { statement_->bind(next_++); }
  void put(timestamp value) { put(std::int64_t{value.time_since_epoch().count()}); }
  void put(std::chrono::milliseconds value) { put(std::int64_t{value.count()}); }
  void put(job_id value) { put(value.value); }
  template <class T>
  void put(const std::optional<T>& value) {
    if (value)
      put(*value);
    else
      put(nullptr);
  }

  SQLite::Statement* statement_;
  int next_ = 1;
};

class connection {
public:
  /// Opens the file with SQLite's OPEN_ flags and applies the settings that every connection has. Throws
  /// SQLite::Exception.
  connection(const std::filesystem::path& file, int flags, std::chrono::milliseconds busy_timeout);

  /// A statement from the cache, keyed by the address of its text: only for texts that live as long as the program.
  /// It must not be in use already.
  cursor use(const char* sql);
  /// A statement of its own, for texts made at run time.
  void execute(const std::string& sql) { database_.exec(sql); }
  [[nodiscard]] SQLite::Database& database() noexcept { return database_; }
  [[nodiscard]] sqlite3* handle() const noexcept { return database_.getHandle(); }
  /// Whether a transaction is open. SQLite closes it by itself on some errors, a full disk among them.
  [[nodiscard]] bool in_transaction() const noexcept;
  [[nodiscard]] std::int64_t last_id() const noexcept { return database_.getLastInsertRowid(); }
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  /// Whether the path still leads to the file that is open, and that is not empty: SQLite itself would go on writing
  /// into a file that nobody can open any more.
  [[nodiscard]] bool is_in_place() const noexcept;

private:
  std::filesystem::path file_;
  SQLite::Database database_;
  /// Device and inode, as they were when it was opened.
  std::pair<std::uint64_t, std::uint64_t> identity_{};
  std::unordered_map<const char*, std::unique_ptr<SQLite::Statement>> statements_;
};

/// Ends statements that work longer than they may: while it lives, they fail with SQLITE_INTERRUPT after `limit`.
class work_limit {
public:
  work_limit(connection& db, std::chrono::milliseconds limit);
  ~work_limit();
  work_limit(const work_limit&) = delete;
  work_limit& operator=(const work_limit&) = delete;

  [[nodiscard]] bool passed() const noexcept { return std::chrono::steady_clock::now() >= deadline_; }

private:
  sqlite3* handle_;
  std::chrono::steady_clock::time_point deadline_;
};

/// What a failure means, in a sentence that names the file, the cause and what to do. `system_error` is the errno that
/// SQLite noted (sqlite3_system_errno), 0 if none.
[[nodiscard]] error to_error(const SQLite::Exception& failure, const std::filesystem::path& file, int system_error);
/// The same for whatever a function may throw: called inside a catch block.
[[nodiscard]] error current_error(const std::filesystem::path& file, int system_error) noexcept;
/// The errno of the latest failure of a connection.
[[nodiscard]] int system_error_of(const connection& db) noexcept;

/// Runs `function`, which returns an expected, and turns what it throws into an error.
template <class Function>
auto guarded(connection& db, Function&& function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return current_error(db.file(), system_error_of(db));
  }
}

} // namespace kcx::sqlite
