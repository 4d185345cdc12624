// The part of the readers that tells of webhooks and their outbox.
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_reader.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace kcx::sqlite {

namespace {

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

} // namespace

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

expected<due_deliveries> sqlite_reader::due(timestamp now, std::size_t limit, std::size_t of_one_receiver) {
  const auto started = std::chrono::steady_clock::now();
  return read([&]() -> expected<due_deliveries> {
    due_deliveries found;
    std::unordered_map<std::string, std::size_t> of_receiver;
    auto rows = db_->use(sql::select_due_deliveries);
    rows.bind(now);
    // What waits for one receiver can be any number: few now rather than an error later.
    while (found.items.size() < limit && std::chrono::steady_clock::now() - started <= limit_ / 2 && rows.step()) {
      if (++of_receiver[receiver_of(rows.text(3))] > of_one_receiver)
        continue;
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
    const auto undelivered = filter.state && *filter.state != delivery_state::delivered;
    auto rows = db_->use(filter.job    ? sql::select_deliveries_of_job
                         : undelivered ? sql::select_undelivered
                                       : sql::select_deliveries);
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

} // namespace kcx::sqlite
