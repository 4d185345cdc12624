/// The read side of the queue, for HTTP and inspection. Sees committed data only.
///
/// Thread: one at a time per reader; several readers may work beside each other and beside the writer, which they never
/// block. Each call is one short read transaction of its own. Nothing here writes.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/token.hpp"
#include "storage/webhook.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kcx {

/// Which jobs to list. Empty members do not filter.
struct job_filter {
  std::vector<job_state> states{};
  std::optional<std::string> project{};
  std::optional<std::string> queue{};
  std::optional<std::string> name{};
  std::optional<std::string> label{};
  std::optional<std::string> group{};
  /// Dead letters only.
  bool dead_letters = false;
  /// Only ids below this one (the cursor of the previous page).
  std::optional<job_id> before{};
  /// 1 to 1,000.
  std::size_t limit = 50;
};

struct job_page {
  std::vector<job_record> items; ///< Newest first, without history.
  /// Pass as `before` for the next page. A page may be short, even empty, and yet have a next one: a rare match is
  /// looked for in bounded time per call.
  std::optional<job_id> next;
};

/// Figures for the inspection port.
struct queue_stats {
  std::map<job_state, std::int64_t> jobs_by_state;
  std::optional<timestamp> oldest_queued_at;
  std::int64_t database_bytes = 0;
  std::int64_t wal_bytes = 0;
};

struct queue_pause {
  timestamp at{};
  std::string by;
};

/// A queue that has unfinished jobs or is paused.
struct queue_info {
  std::string name;
  std::int64_t queued = 0;
  std::int64_t running = 0;
  std::optional<queue_pause> paused{};
};

/// A need of a blocked job that has not ended.
struct open_need {
  job_id job;
  need_condition condition = need_condition::success;
  job_state state = job_state::queued;
};

/// Which other jobs hold a waiting one back, or the pause of its queue.
struct job_blockers {
  /// The first few.
  std::vector<open_need> needs{};
  std::int64_t open_needs = 0;
  /// How many of its group are held, and which queued one is next. 0 without a group.
  std::int64_t group_held = 0;
  job_id group_next{};
  std::int32_t group_limit = 0;
  std::optional<queue_pause> paused{};
};

/// One change of a job's state, among those of all jobs.
struct job_event {
  /// Ascending in the order of commits, with gaps, never used again.
  std::int64_t number = 0;
  job_id job;
  std::string name;
  std::string project;
  std::string queue;
  history_record what;
};

/// Which changes to list. Empty members do not filter.
struct event_filter {
  std::optional<job_id> job{};
  std::optional<std::string> project{};
  std::optional<std::string> queue{};
  /// Only those behind this number; nothing: none, which tells the last number.
  std::optional<std::int64_t> after{};
  /// 1 to 1,000.
  std::size_t limit = 200;
};

struct event_page {
  std::vector<job_event> items; ///< In order.
  /// Pass as `after` to go on: everything up to here was looked at. At the end this is the last number ever given.
  std::int64_t last = 0;
  /// Something is behind `last`. A page may be empty and yet have more: a rare match is looked for in bounded time.
  bool more = false;
};

class job_reader {
public:
  virtual ~job_reader() = default;

  /// One job with the steps of its latest attempt and its history. Fails with not_found, or gone if it was removed.
  [[nodiscard]] virtual expected<job_record> job(job_id id) = 0;
  [[nodiscard]] virtual expected<job_page> jobs(const job_filter& filter) = 0;
  /// The log sizes of one attempt (of the latest with attempt 0); an attempt that still runs has bytes = -1.
  [[nodiscard]] virtual expected<std::pair<attempt_key, log_summary>> log_of(job_id id, std::int32_t attempt) = 0;
  /// These two count, which takes time in proportion to the jobs: where it took long they may be as old as 20 times
  /// that.
  [[nodiscard]] virtual expected<queue_stats> stats() = 0;
  /// By name.
  [[nodiscard]] virtual expected<std::vector<queue_info>> queues() = 0;
  /// One of them as it is now, or one of this name without jobs.
  [[nodiscard]] virtual expected<queue_info> queue(const std::string& name) = 0;
  /// Fails as job() does.
  [[nodiscard]] virtual expected<job_blockers> blockers(job_id id) = 0;
  /// Changes of state of the jobs that are there; those of a removed job went with it.
  [[nodiscard]] virtual expected<event_page> events(const event_filter& filter) = 0;
  /// All of them, by id.
  [[nodiscard]] virtual expected<std::vector<token_record>> tokens() = 0;
  /// Of projects, by name.
  [[nodiscard]] virtual expected<std::vector<project_webhook>> webhooks() = 0;
  /// At most `limit` deliveries that are to be sent, and `of_one_receiver` to one, those that waited longest first,
  /// with secrets. Fewer where very many wait.
  [[nodiscard]] virtual expected<due_deliveries> due(timestamp now, std::size_t limit, std::size_t of_one_receiver) = 0;
  [[nodiscard]] virtual expected<delivery_page> deliveries(const delivery_filter& filter) = 0;
};

} // namespace kcx
