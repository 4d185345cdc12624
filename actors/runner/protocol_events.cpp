// What a runner says to the node, as JSON.
#include "actors/runner/protocol_json.hpp"

#include <utility>

namespace kcx::protocol {

namespace {

constexpr name_table<run_outcome, 7> outcomes{{{run_outcome::exited, "exited"},
                                               {run_outcome::signalled, "signalled"},
                                               {run_outcome::spawn_failed, "spawn_failed"},
                                               {run_outcome::time_limit, "time_limit"},
                                               {run_outcome::no_output, "no_output"},
                                               {run_outcome::cancelled, "cancelled"},
                                               {run_outcome::killed, "killed"}}};
constexpr name_table<step_state, 8> step_states{{{step_state::pending, "pending"},
                                                 {step_state::running, "running"},
                                                 {step_state::succeeded, "succeeded"},
                                                 {step_state::failed, "failed"},
                                                 {step_state::timed_out, "timed_out"},
                                                 {step_state::cancelled, "cancelled"},
                                                 {step_state::interrupted, "interrupted"},
                                                 {step_state::skipped, "skipped"}}};

json to_json(const ready_event& event) {
  return {{"kind", "ready"}, {"pid", event.pid}};
}

json to_json(const started_event& event) {
  auto to = key_of("started", event.key);
  to["at_ms"] = plain(event.at);
  to["pid"] = event.pid;
  return to;
}

started_event started_from(const json& from) {
  started_event event{key_from(from), {}, from.at("pid").get<std::int32_t>()};
  take(from.at("at_ms"), event.at);
  return event;
}

json to_json(const step_event& event) {
  auto to = key_of("step_changed", event.key);
  to["index"] = event.index;
  to["state"] = name_of(step_states, event.state);
  put(to, "exit_code", event.exit_code);
  put(to, "signal", event.signal);
  to["at_ms"] = plain(event.at);
  return to;
}

step_event step_event_from(const json& from) {
  step_event event;
  event.key = key_from(from);
  from.at("index").get_to(event.index);
  event.state = value_of(step_states, from.at("state"));
  take(from, "exit_code", event.exit_code);
  take(from, "signal", event.signal);
  take(from.at("at_ms"), event.at);
  return event;
}

json to_json(const log_event& event) {
  auto to = key_of("log_grew", event.key);
  to["bytes"] = event.bytes;
  return to;
}

json to_json(const step_result& step) {
  json to{{"state", name_of(step_states, step.state)}};
  put(to, "exit_code", step.exit_code);
  put(to, "signal", step.signal);
  put(to, "started_at_ms", step.started_at);
  put(to, "finished_at_ms", step.finished_at);
  return to;
}

step_result step_result_from(const json& from) {
  step_result step;
  step.state = value_of(step_states, from.at("state"));
  take(from, "exit_code", step.exit_code);
  take(from, "signal", step.signal);
  take(from, "started_at_ms", step.started_at);
  take(from, "finished_at_ms", step.finished_at);
  return step;
}

json to_json(const log_sizes& log) {
  return {{"bytes", log.bytes}, {"stored", log.stored}, {"records", log.records}, {"lost", log.lost}, {"cut", log.cut}};
}

log_sizes log_sizes_from(const json& from) {
  log_sizes log;
  from.at("bytes").get_to(log.bytes);
  from.at("stored").get_to(log.stored);
  from.at("records").get_to(log.records);
  from.at("lost").get_to(log.lost);
  from.at("cut").get_to(log.cut);
  return log;
}

json to_json(const artifact_summary& kept) {
  return {{"files", kept.files}, {"bytes", kept.bytes}, {"cut", kept.cut}};
}

artifact_summary artifacts_from(const json& from) {
  return {from.at("files").get<std::int64_t>(), from.at("bytes").get<std::int64_t>(), from.at("cut").get<bool>()};
}

json to_json(const finished_event& event) {
  auto to = key_of("finished", event.key);
  to["outcome"] = name_of(outcomes, event.outcome);
  to["cause"] = name_of(causes, event.cause);
  put(to, "exit_code", event.exit_code);
  put(to, "signal", event.signal);
  to["message"] = event.message;
  to["log"] = to_json(event.log);
  to["artifacts"] = to_json(event.artifacts);
  to["outputs"] = event.outputs;
  to["steps"] = json::array();
  for (const auto& step : event.steps)
    to["steps"].push_back(to_json(step));
  put(to, "started_at_ms", event.started_at);
  to["finished_at_ms"] = plain(event.finished_at);
  to["duration_ms"] = plain(event.duration);
  to["workspace_kept"] = event.workspace_kept;
  to["workspace_error"] = event.workspace_error;
  return to;
}

finished_event finished_from(const json& from) {
  finished_event event;
  event.key = key_from(from);
  event.outcome = value_of(outcomes, from.at("outcome"));
  event.cause = value_of(causes, from.at("cause"));
  take(from, "exit_code", event.exit_code);
  take(from, "signal", event.signal);
  from.at("message").get_to(event.message);
  event.log = log_sizes_from(from.at("log"));
  event.artifacts = artifacts_from(from.at("artifacts"));
  from.at("outputs").get_to(event.outputs);
  for (const auto& step : from.at("steps"))
    event.steps.push_back(step_result_from(step));
  take(from, "started_at_ms", event.started_at);
  take(from.at("finished_at_ms"), event.finished_at);
  take(from.at("duration_ms"), event.duration);
  from.at("workspace_kept").get_to(event.workspace_kept);
  from.at("workspace_error").get_to(event.workspace_error);
  return event;
}

json to_json(const pong_event&) {
  return {{"kind", "pong"}};
}

} // namespace

json to_json(const runner_event& event) {
  return std::visit([](const auto& part) { return to_json(part); }, event);
}

runner_event event_from(const json& from) {
  const auto& kind = from.at("kind").get_ref<const std::string&>();
  if (kind == "ready")
    return ready_event{from.at("pid").get<std::int32_t>()};
  if (kind == "started")
    return started_from(from);
  if (kind == "step_changed")
    return step_event_from(from);
  if (kind == "log_grew")
    return log_event{key_from(from), from.at("bytes").get<std::uint64_t>()};
  if (kind == "finished")
    return finished_from(from);
  if (kind == "pong")
    return pong_event{};
  throw std::invalid_argument{"unknown event"};
}

} // namespace kcx::protocol

namespace kcx {

std::string_view to_string(run_outcome value) noexcept {
  return protocol::name_of(protocol::outcomes, value);
}

} // namespace kcx
