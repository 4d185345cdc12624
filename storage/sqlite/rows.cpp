#include "storage/sqlite/rows.hpp"

#include "storage/job_json.hpp"
#include "storage/sqlite/statements.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kcx::sqlite {

namespace {

template <class Enum>
Enum known(std::optional<Enum> value, const cursor& row, int column) {
  if (!value)
    throw bad_value{"a stored word is unknown: " + row.text(column)};
  return *value;
}

std::map<std::string, std::string> read_texts(const cursor& row, int column, const char* complaint) {
  const auto object = nlohmann::json::parse(row.text(column), nullptr, false);
  if (!object.is_object() || !std::ranges::all_of(object, [](const auto& value) { return value.is_string(); }))
    throw bad_value{complaint};
  return object.get<std::map<std::string, std::string>>();
}

/// What of the job stands elsewhere than in its hot row. Throws bad_value.
void read_rest(const cursor& row, job_record& job) {
  auto spec = from_stored_json(row.text(22));
  if (!spec)
    throw bad_value{spec.error().message};
  job.spec = std::move(*spec);
  job.outputs = read_outputs(row, 24);
}

} // namespace

job_state read_state(const cursor& row, int column) {
  return known(parse_job_state(row.text(column)), row, column);
}

job_reason read_reason(const cursor& row, int column) {
  return parse_job_reason(row.text(column)).value_or(job_reason::none);
}

need_condition read_condition(const cursor& row, int column) {
  return known(parse_need_condition(row.text(column)), row, column);
}

std::vector<std::string> read_labels(const cursor& row, int column) {
  if (row.is_null(column))
    return {};
  const auto labels = nlohmann::json::parse(row.text(column), nullptr, false);
  if (!labels.is_array() || !std::ranges::all_of(labels, [](const auto& value) { return value.is_string(); }))
    throw bad_value{"stored labels are no array of texts"};
  return labels.get<std::vector<std::string>>();
}

std::vector<std::string> labels_or_none(const cursor& row, int column) {
  try {
    return read_labels(row, column);
  } catch (const bad_value&) {
    return {};
  }
}

std::map<std::string, std::string> read_secrets(const cursor& row, int column) {
  if (row.is_null(column))
    return {};
  return read_texts(row, column, "stored secrets are no object of texts");
}

std::string labels_text(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return nlohmann::json(labels).dump();
}

std::string unreadable_message(const bad_value& what) {
  return std::string{"what is stored of it cannot be read: "} + what.what();
}

bool next_lane(connection& db, lane_name& lane) {
  auto row = db.use(sql::select_next_lane);
  if (!row.bind(lane.project, lane.queue, lane.labels).step())
    return false;
  lane = {row.text(0), row.text(1), row.text(2)};
  return true;
}

ready_job read_ready(const cursor& row, int first) {
  return {job_id{row.integer(first)}, row.integer(first + 1), row.number(first + 2),
          row.text(first + 3),        row.text(first + 4),    labels_or_none(row, first + 5)};
}

job_outputs read_outputs(const cursor& row, int first) {
  if (row.is_null(first))
    return {};
  return read_texts(row, first, "stored outputs are no object of texts");
}

artifact_summary read_artifacts(const cursor& row, int first) {
  if (row.is_null(first))
    return {};
  return {row.integer(first + 1), row.integer(first + 2), row.integer(first + 3) != 0};
}

job_record read_job(const cursor& row) {
  job_record job;
  job.id = job_id{row.integer(0)};
  job.state = read_state(row, 1);
  job.reason = read_reason(row, 2);
  job.cause = read_reason(row, 3);
  job.message = row.text(4);
  job.attempt = row.number(5);
  job.uncounted = row.number(6);
  job.interrupts = row.number(7);
  job.worker = row.text(8);
  job.exit_code = row.optional_number(9);
  job.signal = row.optional_number(10);
  job.created_at = row.time(11);
  job.queued_at = row.optional_time(12);
  job.run_at = row.optional_time(13);
  job.started_at = row.optional_time(14);
  job.finished_at = row.optional_time(15);
  if (!row.is_null(16))
    job.duration = std::chrono::milliseconds{row.integer(16)};
  job.log = {row.integer(17), row.integer(18) != 0};
  if (!row.is_null(19))
    job.retry_of = job_id{row.integer(19)};
  job.version = row.integer(20);
  job.order_key = row.integer(21);
  job.dead_letter = row.integer(23) != 0;
  job.artifacts = read_artifacts(row, 24);
  job.spec.name = row.text(28);
  job.spec.project = row.text(29);
  job.spec.queue = row.text(30);
  try {
    read_rest(row, job);
  } catch (const bad_value& unreadable) {
    // One job must not hide the others of its list, nor itself from whoever wants to end it.
    if (job.message.empty())
      job.message = unreadable_message(unreadable);
  }
  return job;
}

std::vector<step_record> read_steps(connection& db, const job_record& job) {
  std::vector<step_record> steps(job.spec.steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].index = static_cast<std::int32_t>(i);
    steps[i].state = is_final(job.state) ? step_state::skipped : step_state::pending;
  }
  if (steps.empty() || job.attempt == 0)
    return steps;
  auto rows = db.use(sql::select_steps);
  rows.bind(job.id, job.attempt);
  while (rows.step()) {
    const auto index = static_cast<std::size_t>(rows.integer(0));
    if (index >= steps.size())
      continue;
    auto& step = steps[index];
    step.state = known(parse_step_state(rows.text(1)), rows, 1);
    step.exit_code = rows.optional_number(2);
    step.signal = rows.optional_number(3);
    step.started_at = rows.optional_time(4);
    step.finished_at = rows.optional_time(5);
  }
  return steps;
}

error missing_job(connection& db, job_id id) {
  auto row = db.use(sql::select_highest_id);
  const auto highest = row.step() ? row.integer(0) : 0;
  const auto name = "job " + std::to_string(id.value);
  if (id.value >= 1 && id.value <= highest)
    return {ec::gone, name + " was removed", {}};
  return {ec::not_found, "there is no " + name, {}};
}

} // namespace kcx::sqlite
