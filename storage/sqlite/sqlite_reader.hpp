/// The class behind open_sqlite_reader(); not for users of the reader. Its parts are in reader.cpp (jobs, events,
/// tokens), reader_counts.cpp (what is counted) and reader_outbox.cpp (webhooks and deliveries).
#pragma once

#include "storage/job_reader.hpp"
#include "storage/sqlite/connection.hpp"
#include "storage/sqlite/reader_statements.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <utility>
#include <vector>

namespace kcx::sqlite {

inline constexpr std::size_t largest_page = 1'000;

/// One read transaction: everything inside it sees the same moment.
class snapshot {
public:
  explicit snapshot(connection& db) : db_{db} { db_.use(sql::begin_read).run(); }
  ~snapshot() { sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr); }
  snapshot(const snapshot&) = delete;
  snapshot& operator=(const snapshot&) = delete;

private:
  connection& db_;
};

class sqlite_reader final : public job_reader {
public:
  sqlite_reader(std::unique_ptr<connection> db, std::chrono::milliseconds limit) : db_{std::move(db)}, limit_{limit} {}

  expected<job_record> job(job_id id) override;
  expected<job_page> jobs(const job_filter& filter) override;
  expected<std::pair<attempt_key, log_summary>> log_of(job_id id, std::int32_t attempt) override;
  expected<queue_stats> stats() override;
  expected<std::vector<queue_info>> queues() override;
  expected<queue_info> queue(const std::string& name) override;
  expected<job_blockers> blockers(job_id id) override;
  expected<event_page> events(const event_filter& filter) override;
  expected<std::vector<token_record>> tokens() override;
  expected<std::vector<project_webhook>> webhooks() override;
  expected<due_deliveries> due(timestamp now, std::size_t limit, std::size_t of_one_receiver) override;
  expected<delivery_page> deliveries(const delivery_filter& filter) override;

private:
  /// A result that took long to count, and until when it is good enough.
  template <class T>
  struct kept {
    std::optional<T> value;
    std::chrono::steady_clock::time_point until;
  };

  /// Runs a query in a transaction of its own, and ends it when it works for longer than `limit`.
  template <class Query>
  auto read(std::chrono::milliseconds limit, Query&& query) -> decltype(query()) {
    return guarded(*db_, [&]() {
      const work_limit bound{*db_, limit};
      const snapshot view{*db_};
      return query();
    });
  }
  template <class Query>
  auto read(Query&& query) -> decltype(query()) {
    return read(limit_, std::forward<Query>(query));
  }
  /// A query that counts any number of rows. Its result is kept for a time in proportion to what it took.
  template <class T, class Query>
  expected<T> count(kept<T>& last, Query&& query);
  [[nodiscard]] std::chrono::milliseconds counting_limit() const { return 12 * limit_; }

  void count_jobs(queue_stats& stats);
  void find_oldest(queue_stats& stats);
  std::int64_t count_queued_in(const std::string& queue);

  std::unique_ptr<connection> db_;
  std::chrono::milliseconds limit_;
  kept<queue_stats> stats_;
  kept<std::map<std::string, queue_info>> queues_;
};

template <class T, class Query>
expected<T> sqlite_reader::count(kept<T>& last, Query&& query) {
  const auto began = std::chrono::steady_clock::now();
  if (last.value && began < last.until)
    return *last.value;
  auto found = read(counting_limit(), std::forward<Query>(query));
  const auto ended = std::chrono::steady_clock::now();
  last = {};
  // A short count is made each time. A long one must not keep the reader from other work.
  if (found && ended - began > limit_ / 5)
    last = {*found, ended + 20 * (ended - began)};
  return found;
}

} // namespace kcx::sqlite
