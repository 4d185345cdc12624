#include "storage/sqlite/reader.hpp"

#include "storage/sqlite/reader_statements.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_reader.hpp"

#include <algorithm>

namespace kcx {

namespace sqlite {

namespace {

/// How many ids one step of a filtered search covers, before the clock is looked at.
constexpr std::int64_t window = 20'000;

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

} // namespace

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

expected<job_blockers> sqlite_reader::blockers(job_id id) {
  constexpr std::int64_t most_needs = 20;
  return read([&]() -> expected<job_blockers> {
    job_blockers found;
    auto job = db_->use(sql::select_held_back);
    if (!job.bind(id).step())
      return missing_job(*db_, id);
    if (!job.is_null(2))
      found.paused = queue_pause{job.time(2), job.text(3)};
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
