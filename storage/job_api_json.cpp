#include "storage/job_json.hpp"
#include "storage/job_values.hpp"

#include <algorithm>

namespace kcx {

namespace {

using nlohmann::json;

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json reason_or_null(job_reason reason) {
  return reason == job_reason::none ? json(nullptr) : json(to_string(reason));
}

template <class Number>
json number_or_null(const std::optional<Number>& number) {
  return number ? json(*number) : json(nullptr);
}

json signal_or_null(const std::optional<std::int32_t>& number) {
  return number ? json(signal_name(*number)) : json(nullptr);
}

/// What is known of a step, or what follows from the job if nothing was reported of it.
step_record record_of(const job_record& job, std::size_t index) {
  for (const auto& step : job.steps)
    if (step.index == static_cast<std::int32_t>(index))
      return step;
  step_record missing;
  missing.index = static_cast<std::int32_t>(index);
  missing.state = is_final(job.state) ? step_state::skipped : step_state::pending;
  return missing;
}

json steps_json(const job_record& job) {
  auto steps = show_steps(job.spec.steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto record = record_of(job, i);
    auto& step = steps[i];
    step["index"] = i;
    step["state"] = to_string(record.state);
    step["exit_code"] = number_or_null(record.exit_code);
    step["signal"] = signal_or_null(record.signal);
    step["started_at"] = time_or_null(record.started_at);
    step["finished_at"] = time_or_null(record.finished_at);
  }
  return steps;
}

json history_json(const job_record& job) {
  auto lines = json::array();
  for (const auto& line : job.history)
    lines.push_back({{"at", to_rfc3339(line.at)},
                     {"state", to_string(line.state)},
                     {"reason", reason_or_null(line.reason)},
                     {"cause", reason_or_null(line.cause)},
                     {"attempt", line.attempt},
                     {"worker", text_or_null(line.worker)}});
  return lines;
}

json duration_json(const job_record& job, timestamp now) {
  auto duration = job.duration;
  if (!duration && is_held(job.state) && job.started_at)
    duration = std::max(std::chrono::milliseconds{0}, now - *job.started_at);
  return duration ? json(static_cast<double>(duration->count()) / 1000.0) : json(nullptr);
}

} // namespace

json time_or_null(const std::optional<timestamp>& at) {
  return at ? json(to_rfc3339(*at)) : json(nullptr);
}

json to_event_json(const job_event& event) {
  return {{"id", event.number},
          {"job", event.job.value},
          {"name", event.name},
          {"project", event.project},
          {"queue", event.queue},
          {"at", to_rfc3339(event.what.at)},
          {"state", to_string(event.what.state)},
          {"reason", reason_or_null(event.what.reason)},
          {"cause", reason_or_null(event.what.cause)},
          {"attempt", event.what.attempt},
          {"worker", text_or_null(event.what.worker)}};
}

json to_api_json(const job_record& job, timestamp now) {
  auto shown = json::object();
  add_spec_json(shown, job.spec);
  shown["id"] = job.id.value;
  shown["state"] = to_string(job.state);
  shown["reason"] = reason_or_null(job.reason);
  shown["cause"] = reason_or_null(job.cause);
  shown["message"] = text_or_null(job.message);
  shown["steps"] = steps_json(job);
  shown["attempt"] = job.attempt;
  shown["interrupts"] = job.interrupts;
  shown["worker"] = text_or_null(job.worker);
  shown["exit_code"] = number_or_null(job.exit_code);
  shown["signal"] = signal_or_null(job.signal);
  shown["created_at"] = to_rfc3339(job.created_at);
  shown["queued_at"] = time_or_null(job.queued_at);
  shown["run_at"] = time_or_null(job.run_at);
  shown["started_at"] = time_or_null(job.started_at);
  shown["finished_at"] = time_or_null(job.finished_at);
  shown["duration_s"] = duration_json(job, now);
  shown["log"] = {{"bytes", job.log.bytes}, {"cut", job.log.cut}};
  shown["artifacts_kept"] = {
    {"files", job.artifacts.files}, {"bytes", job.artifacts.bytes}, {"cut", job.artifacts.cut}};
  shown["outputs"] = job.outputs;
  shown["dead_letter"] = job.dead_letter;
  shown["retry_of"] = job.retry_of ? json(job.retry_of->value) : json(nullptr);
  if (!job.history.empty())
    shown["history"] = history_json(job);
  return shown;
}

} // namespace kcx
