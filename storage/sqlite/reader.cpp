#include "storage/sqlite/reader.hpp"

#include "storage/sqlite/connection.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/schema.hpp"
#include "storage/sqlite/statements.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <sqlite3.h>
#include <system_error>

namespace kcx {

namespace sqlite {

namespace {

constexpr std::size_t largest_page = 1'000;
/// How many ids one step of a filtered search covers, before the clock is looked at.
constexpr std::int64_t window = 20'000;
/// How many lanes the search for the oldest queued job looks at.
constexpr int most_heads = 1'000;

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

/// The SQL of a filtered search, newest first: fixed pieces only, the values are bound by bind_filter.
std::string search_text(const job_filter& filter) {
  std::string text = std::string{"SELECT " KCX_JOB_COLUMNS " FROM jobs j "} +
                     (filter.dead_letters ? "INDEXED BY jobs_dead " : "") +
                     KCX_JOB_TABLES " WHERE j.id < ?1 AND j.id >= ?2";
  if (filter.dead_letters)
    text += " AND j.dead_letter = 1";
  if (!filter.states.empty()) {
    text += " AND j.state IN (";
    for (std::size_t i = 0; i < filter.states.size(); ++i)
      text += i == 0 ? "?" : ", ?";
    text += ")";
  }
  for (const auto& [column, value] : {std::pair{"project", &filter.project},
                                      {"queue", &filter.queue},
                                      {"name", &filter.name},
                                      {"grp", &filter.group}})
    if (*value)
      text += std::string{" AND j."} + column + " = ?";
  if (filter.label)
    text += " AND j.labels <> '[]' AND EXISTS (SELECT 1 FROM "
            "json_each(iif(json_valid(j.labels), j.labels, '[]')) WHERE value = ?)";
  return text + " ORDER BY j.id DESC LIMIT ?";
}

void bind_filter(cursor& rows, const job_filter& filter, std::int64_t below, std::int64_t from, std::size_t limit) {
  rows.bind(below, from);
  for (auto state : filter.states)
    rows.bind(to_string(state));
  for (const auto* value : {&filter.project, &filter.queue, &filter.name, &filter.group, &filter.label})
    if (*value)
      rows.bind(**value);
  rows.bind(static_cast<std::int64_t>(limit));
}

/// A row of deliveries without its secret parts.
delivery read_delivery(const cursor& row) {
  delivery read;
  read.id = row.integer(0);
  read.job = job_id{row.integer(1)};
  read.event = read_state(row, 2);
  read.url = row.text(3);
  const auto state = parse_delivery_state(row.text(4));
  if (!state)
    throw bad_value{"a delivery has the state " + row.text(4)};
  read.state = *state;
  read.tries = row.number(5);
  read.created_at = row.time(6);
  read.next_at = row.optional_time(7);
  read.last_at = row.optional_time(8);
  read.status = row.optional_number(9);
  read.failure = row.text(10);
  return read;
}

/// What is told, from the columns behind the secret.
std::string body_of(const cursor& row, const delivery& what) {
  const auto text_or_null = [&](int column, const char* none) {
    const auto text = row.text(column);
    return text == none ? nlohmann::json() : nlohmann::json(text);
  };
  const auto exit_code = row.optional_number(19);
  return nlohmann::json{{"event", "job." + std::string{to_string(what.event)}},
                        {"job", what.job.value},
                        {"state", to_string(what.event)},
                        {"at", to_rfc3339(what.created_at)},
                        {"version", row.integer(12)},
                        {"name", row.text(13)},
                        {"project", row.text(14)},
                        {"queue", row.text(15)},
                        {"reason", text_or_null(16, "none")},
                        {"message", text_or_null(17, "")},
                        {"attempt", row.integer(18)},
                        {"exit_code", exit_code ? nlohmann::json(*exit_code) : nlohmann::json()},
                        {"worker", text_or_null(20, "")},
                        {"retry_of", row.is_null(21) ? nlohmann::json() : nlohmann::json(row.integer(21))}}
    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<job_state> read_events(std::string_view list) {
  std::vector<job_state> events;
  for (const auto state : webhook_states())
    if (list.find("," + std::string{to_string(state)} + ",") != std::string_view::npos)
      events.push_back(state);
  return events;
}

std::int64_t file_bytes(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(file, ignored);
  return ignored ? 0 : static_cast<std::int64_t>(bytes);
}

} // namespace

class sqlite_reader final : public job_reader {
public:
  sqlite_reader(std::unique_ptr<connection> db, std::chrono::milliseconds limit) : db_{std::move(db)}, limit_{limit} {}

  expected<job_record> job(job_id id) override;
  expected<job_page> jobs(const job_filter& filter) override;
  expected<std::pair<attempt_key, log_summary>> log_of(job_id id, std::int32_t attempt) override;
  expected<queue_stats> stats() override;
  expected<std::vector<queue_info>> queues() override;
  expected<job_blockers> blockers(job_id id) override;
  expected<event_page> events(const event_filter& filter) override;
  expected<std::vector<token_record>> tokens() override;
  expected<std::vector<project_webhook>> webhooks() override;
  expected<due_deliveries> due(timestamp now, std::size_t limit) override;
  expected<delivery_page> deliveries(const delivery_filter& filter) override;

private:
  template <class Query>
  auto read(Query&& query) -> decltype(query()) {
    return guarded(*db_, [&]() {
      const work_limit limit{*db_, limit_};
      const snapshot view{*db_};
      return query();
    });
  }

  std::unique_ptr<connection> db_;
  std::chrono::milliseconds limit_;
};

expected<job_record> sqlite_reader::job(job_id id) {
  return read([&]() -> expected<job_record> {
    auto row = db_->use(sql::select_job);
    if (!row.bind(id).step())
      return missing_job(*db_, id);
    auto job = read_job(row);
    job.steps = read_steps(*db_, job);
    auto lines = db_->use(sql::select_history);
    lines.bind(id);
    while (lines.step())
      job.history.push_back({lines.time(0), read_state(lines, 1), read_reason(lines, 2), read_reason(lines, 3),
                             lines.number(4), lines.text(5)});
    return job;
  });
}

expected<job_page> sqlite_reader::jobs(const job_filter& filter) {
  const auto limit = std::clamp<std::size_t>(filter.limit, 1, largest_page);
  const auto started = std::chrono::steady_clock::now();
  return read([&]() -> expected<job_page> {
    job_page page;
    auto highest = db_->use(sql::select_highest_id);
    auto below = highest.step() ? highest.integer(0) + 1 : 1;
    if (filter.before)
      below = std::min(below, filter.before->value);
    SQLite::Statement search{db_->database(), search_text(filter)};
    while (below > 1 && page.items.size() < limit) {
      // An index of their own leads to dead letters: no need to go step by step.
      const auto from = filter.dead_letters ? 1 : std::max<std::int64_t>(1, below - window);
      cursor rows{search};
      bind_filter(rows, filter, below, from, limit - page.items.size());
      // A short page now rather than an error later: jobs may carry much, and the machine may be busy.
      bool late = false;
      while (!late && rows.step()) {
        page.items.push_back(read_job(rows));
        page.items.back().steps = read_steps(*db_, page.items.back());
        late = std::chrono::steady_clock::now() - started > limit_ / 2;
      }
      below = late || page.items.size() == limit ? page.items.back().id.value : from;
      if (late || std::chrono::steady_clock::now() - started > limit_ / 2)
        break;
    }
    if (below > 1)
      page.next = job_id{below};
    return page;
  });
}

expected<std::pair<attempt_key, log_summary>> sqlite_reader::log_of(job_id id, std::int32_t attempt) {
  return read([&]() -> expected<std::pair<attempt_key, log_summary>> {
    auto row = db_->use(sql::select_log);
    if (!row.bind(id).step())
      return missing_job(*db_, id);
    const auto latest = row.number(1);
    if (attempt == 0)
      attempt = latest;
    if (attempt == latest && is_held(read_state(row, 0)))
      return std::pair{attempt_key{id, attempt}, log_summary{-1, false}};
    if (attempt == 0) // it never ran
      return std::pair{attempt_key{id, 0}, log_summary{}};
    auto ended = db_->use(sql::select_attempt);
    if (!ended.bind(id, attempt).step())
      return error{ec::not_found, "job " + std::to_string(id.value) + " has no attempt " + std::to_string(attempt), {}};
    return std::pair{attempt_key{id, attempt}, log_summary{ended.integer(7), ended.integer(8) != 0}};
  });
}

expected<queue_stats> sqlite_reader::stats() {
  return read([&]() -> expected<queue_stats> {
    queue_stats stats;
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
    lane_name lane;
    for (auto seen = 0; seen < most_heads && next_lane(*db_, lane); ++seen) {
      auto head = db_->use(sql::select_lane_head);
      const auto at = head.bind(lane.project, lane.queue, lane.labels).step() ? head.optional_time(0) : std::nullopt;
      if (at && (!stats.oldest_queued_at || *at < *stats.oldest_queued_at))
        stats.oldest_queued_at = at;
    }
    stats.database_bytes = file_bytes(db_->file());
    stats.wal_bytes = file_bytes(db_->file().string() + "-wal");
    return stats;
  });
}

expected<std::vector<queue_info>> sqlite_reader::queues() {
  return read([&]() -> expected<std::vector<queue_info>> {
    std::map<std::string, queue_info> found;
    for (const auto& [sql, member] : {std::pair{sql::count_queued_by_queue, &queue_info::queued},
                                      std::pair{sql::count_held_by_queue, &queue_info::running}}) {
      auto rows = db_->use(sql);
      while (rows.step())
        found[rows.text(0)].*member = rows.integer(1);
    }
    auto paused = db_->use(sql::select_paused);
    while (paused.step()) {
      auto& queue = found[paused.text(0)];
      queue.paused_at = paused.time(1);
      queue.paused_by = paused.text(2);
    }
    std::vector<queue_info> queues;
    for (auto& [name, queue] : found) {
      queue.name = name;
      queues.push_back(std::move(queue));
    }
    return queues;
  });
}

expected<job_blockers> sqlite_reader::blockers(job_id id) {
  constexpr std::int64_t most_needs = 20;
  return read([&]() -> expected<job_blockers> {
    job_blockers found;
    auto job = db_->use(sql::select_group_of);
    if (!job.bind(id).step())
      return missing_job(*db_, id);
    if (!job.is_null(0)) {
      auto group = db_->use(sql::select_group);
      group.bind(job.text(0)).step();
      found.group_held = group.integer(0);
      found.group_next = job_id{group.integer(1)};
      found.group_limit = job.number(1);
    }
    auto needs = db_->use(sql::select_open_needs);
    needs.bind(id, most_needs);
    while (needs.step())
      found.needs.push_back({job_id{needs.integer(0)}, read_condition(needs, 1), read_state(needs, 2)});
    auto count = db_->use(sql::count_open_needs);
    found.open_needs = count.bind(id).step() ? count.integer(0) : 0;
    return found;
  });
}

expected<event_page> sqlite_reader::events(const event_filter& filter) {
  return read([&]() -> expected<event_page> {
    auto last = db_->use(sql::select_last_event);
    const auto highest = last.step() ? last.integer(0) : 0;
    event_page page{{}, highest, false};
    if (!filter.after)
      return page;
    const auto after = std::min(*filter.after, highest);
    // One job has few changes; all jobs together have any number.
    const auto upto = filter.job ? highest : std::min(highest, after + window);
    const auto limit = static_cast<std::int64_t>(std::clamp<std::size_t>(filter.limit, 1, largest_page));
    auto rows = db_->use(filter.job ? sql::select_events_of_job : sql::select_events);
    rows.bind(after, upto, filter.project, filter.queue, limit);
    if (filter.job)
      rows.bind(*filter.job);
    while (rows.step()) {
      const history_record what{rows.time(5),         read_state(rows, 6), read_reason(rows, 7),
                                read_reason(rows, 8), rows.number(9),      rows.text(10)};
      page.items.push_back({rows.integer(0), job_id{rows.integer(1)}, rows.text(2), rows.text(3), rows.text(4), what});
    }
    page.last = static_cast<std::int64_t>(page.items.size()) == limit ? page.items.back().number : upto;
    page.more = page.last < highest;
    return page;
  });
}

expected<std::vector<token_record>> sqlite_reader::tokens() {
  return read([&]() -> expected<std::vector<token_record>> {
    std::vector<token_record> tokens;
    auto rows = db_->use(sql::select_tokens);
    while (rows.step()) {
      // Without any it may do nothing: one that cannot be read must not keep the others out.
      const auto scopes = labels_or_none(rows, 3);
      new_token what{rows.text(1), rows.text(2), scopes, rows.text(5), rows.optional_time(6), rows.optional_number(7)};
      tokens.push_back({rows.integer(0), std::move(what), rows.time(4), rows.optional_time(8)});
    }
    return tokens;
  });
}

// -- webhooks ---------------------------------------------------------------------------------------------------------

expected<std::vector<project_webhook>> sqlite_reader::webhooks() {
  return read([&]() -> expected<std::vector<project_webhook>> {
    std::vector<project_webhook> hooks;
    auto rows = db_->use(sql::select_webhooks);
    while (rows.step())
      hooks.push_back(
        {rows.text(0), {rows.text(1), {}, read_events(rows.text(3))}, rows.integer(2) != 0, rows.time(4)});
    return hooks;
  });
}

expected<due_deliveries> sqlite_reader::due(timestamp now, std::size_t limit) {
  return read([&]() -> expected<due_deliveries> {
    due_deliveries found;
    auto rows = db_->use(sql::select_due_deliveries);
    rows.bind(now, static_cast<std::int64_t>(limit));
    while (rows.step()) {
      found.items.push_back(read_delivery(rows));
      found.items.back().secret = rows.text(11);
      found.items.back().body = body_of(rows, found.items.back());
    }
    auto next = db_->use(sql::select_next_delivery);
    if (next.bind(now).step())
      found.next_at = next.optional_time(0);
    return found;
  });
}

expected<delivery_page> sqlite_reader::deliveries(const delivery_filter& filter) {
  return read([&]() -> expected<delivery_page> {
    const auto limit = std::clamp<std::size_t>(filter.limit, 1, largest_page);
    auto rows = db_->use(filter.job ? sql::select_deliveries_of_job : sql::select_deliveries);
    rows.bind(filter.before.value_or(std::numeric_limits<std::int64_t>::max()),
              filter.state ? std::optional{to_string(*filter.state)} : std::nullopt, static_cast<std::int64_t>(limit));
    if (filter.job)
      rows.bind(*filter.job);
    delivery_page page;
    while (rows.step())
      page.items.push_back(read_delivery(rows));
    if (page.items.size() == limit)
      page.next = page.items.back().id;
    return page;
  });
}

} // namespace sqlite

expected<std::unique_ptr<job_reader>> open_sqlite_reader(const std::filesystem::path& file,
                                                         std::chrono::milliseconds work_limit) {
  try {
    auto db = std::make_unique<sqlite::connection>(file, SQLite::OPEN_READONLY, std::chrono::seconds{1});
    // Fails here, not at the first request, if the file is no database.
    db->database().execAndGet("PRAGMA schema_version").getInt64();
    return std::unique_ptr<job_reader>{std::make_unique<sqlite::sqlite_reader>(std::move(db), work_limit)};
  } catch (...) {
    return sqlite::current_error(file, 0);
  }
}

} // namespace kcx
