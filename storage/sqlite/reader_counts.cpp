// The part of the readers that counts. It takes time in proportion to what there is: see sqlite_reader::count.
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_reader.hpp"

#include <filesystem>
#include <map>
#include <system_error>

namespace kcx::sqlite {

namespace {

/// How many lanes the search for the oldest queued job looks at.
constexpr int most_heads = 1'000;

std::int64_t file_bytes(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(file, ignored);
  return ignored ? 0 : static_cast<std::int64_t>(bytes);
}

} // namespace

expected<queue_stats> sqlite_reader::stats() {
  return count(stats_, [&]() -> expected<queue_stats> {
    queue_stats stats;
    count_jobs(stats);
    find_oldest(stats);
    stats.database_bytes = file_bytes(db_->file());
    stats.wal_bytes = file_bytes(db_->file().string() + "-wal");
    return stats;
  });
}

void sqlite_reader::count_jobs(queue_stats& stats) {
  for (const auto* sql : {sql::count_final, sql::count_held}) {
    auto rows = db_->use(sql);
    while (rows.step())
      stats.jobs_by_state[read_state(rows, 0)] = rows.integer(1);
  }
  for (const auto& [state, sql] : {std::pair{job_state::queued, sql::count_queued},
                                   {job_state::scheduled, sql::count_scheduled},
                                   {job_state::blocked, sql::count_blocked}}) {
    auto row = db_->use(sql);
    if (row.step() && row.integer(0) > 0)
      stats.jobs_by_state[state] = row.integer(0);
  }
}

void sqlite_reader::find_oldest(queue_stats& stats) {
  lane_name lane;
  for (auto seen = 0; seen < most_heads && next_lane(*db_, lane); ++seen) {
    auto head = db_->use(sql::select_lane_head);
    const auto at = head.bind(lane.project, lane.queue, lane.labels).step() ? head.optional_time(0) : std::nullopt;
    if (at && (!stats.oldest_queued_at || *at < *stats.oldest_queued_at))
      stats.oldest_queued_at = at;
  }
}

expected<std::vector<queue_info>> sqlite_reader::queues() {
  auto counted = count(queues_, [&]() -> expected<std::map<std::string, queue_info>> {
    std::map<std::string, queue_info> found;
    for (const auto& [sql, member] : {std::pair{sql::count_queued_by_queue, &queue_info::queued},
                                      std::pair{sql::count_held_by_queue, &queue_info::running}}) {
      auto rows = db_->use(sql);
      while (rows.step())
        found[rows.text(0)].*member += rows.integer(1);
    }
    return found;
  });
  if (!counted)
    return std::move(counted).error();
  return read([&]() -> expected<std::vector<queue_info>> {
    // As they are now: who paused a queue looks whether it is.
    auto paused = db_->use(sql::select_paused);
    while (paused.step())
      (*counted)[paused.text(0)].paused = queue_pause{paused.time(1), paused.text(2)};
    std::vector<queue_info> queues;
    for (auto& [name, queue] : *counted) {
      queue.name = name;
      queues.push_back(std::move(queue));
    }
    return queues;
  });
}

std::int64_t sqlite_reader::count_queued_in(const std::string& queue) {
  std::int64_t queued = 0;
  for (lane_name lane; next_lane(*db_, lane);) {
    if (lane.queue != queue)
      continue;
    auto row = db_->use(sql::count_lane);
    queued += row.bind(lane.project, lane.queue, lane.labels).step() ? row.integer(0) : 0;
  }
  return queued;
}

expected<queue_info> sqlite_reader::queue(const std::string& name) {
  return read(counting_limit(), [&]() -> expected<queue_info> {
    queue_info found;
    found.name = name;
    found.queued = count_queued_in(name);
    auto held = db_->use(sql::count_held_of_queue);
    found.running = held.bind(name).step() ? held.integer(0) : 0;
    if (auto paused = db_->use(sql::select_pause); paused.bind(name).step())
      found.paused = queue_pause{paused.time(0), paused.text(1)};
    return found;
  });
}

} // namespace kcx::sqlite
