#include "actors/runner/protocol.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <stdexcept>
#include <utility>

namespace kcx {

namespace {

using nlohmann::json;

template <class Enum, std::size_t N>
using name_table = std::array<std::pair<Enum, std::string_view>, N>;

// The names on the socket. They are the protocol's own: the database's words may change without it.
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
constexpr name_table<keep_policy, 3> keep_policies{
  {{keep_policy::never, "never"}, {keep_policy::on_failure, "on_failure"}, {keep_policy::always, "always"}}};
constexpr name_table<cancel_cause, 2> causes{
  {{cancel_cause::cancelled, "cancelled"}, {cancel_cause::node_stop, "node_stop"}}};

template <class Enum, std::size_t N>
std::string_view name_of(const name_table<Enum, N>& table, Enum value) {
  for (const auto& [known, name] : table)
    if (known == value)
      return name;
  return "unknown";
}

template <class Enum, std::size_t N>
Enum value_of(const name_table<Enum, N>& table, const json& name) {
  for (const auto& [value, known] : table)
    if (known == name.get_ref<const std::string&>())
      return value;
  throw std::invalid_argument{"unknown word " + name.dump()};
}

// -- parts --------------------------------------------------------------------

template <class T>
json plain(const T& value) {
  return value;
}
json plain(const timestamp& value) {
  return value.time_since_epoch().count();
}
json plain(const milliseconds& value) {
  return value.count();
}

template <class T>
void put(json& to, const char* name, const std::optional<T>& value) {
  if (value)
    to[name] = plain(*value);
}

void take(const json& from, timestamp& value) {
  value = timestamp{milliseconds{from.get<std::int64_t>()}};
}
void take(const json& from, milliseconds& value) {
  value = milliseconds{from.get<std::int64_t>()};
}
template <class T>
void take(const json& from, T& value) {
  from.get_to(value);
}

template <class T>
void take(const json& from, const char* name, std::optional<T>& value) {
  if (const auto found = from.find(name); found != from.end())
    take(*found, value.emplace());
}

json key_of(const char* kind, const attempt_key& key) {
  return {{"kind", kind}, {"job_id", key.job.value}, {"attempt", key.attempt}};
}

attempt_key key_from(const json& from) {
  return {{from.at("job_id").get<std::int64_t>()}, from.at("attempt").get<std::int32_t>()};
}

// -- commands -----------------------------------------------------------------

json to_json(const runner_step& step) {
  json to{
    {"name", step.name}, {"argv", step.argv}, {"continue_on_error", step.continue_on_error}, {"always", step.always}};
  put(to, "time_limit_ms", step.time_limit);
  return to;
}

runner_step step_from(const json& from) {
  runner_step step;
  from.at("name").get_to(step.name);
  from.at("argv").get_to(step.argv);
  from.at("continue_on_error").get_to(step.continue_on_error);
  from.at("always").get_to(step.always);
  take(from, "time_limit_ms", step.time_limit);
  if (step.argv.empty())
    throw std::invalid_argument{"a step without a command"};
  return step;
}

json to_json(const resource_limits& limits) {
  json to = json::object();
  put(to, "memory_bytes", limits.memory_bytes);
  put(to, "cpu_s", limits.cpu_s);
  put(to, "open_files", limits.open_files);
  put(to, "processes", limits.processes);
  put(to, "file_bytes", limits.file_bytes);
  put(to, "cpu_millis", limits.cpu_millis);
  return to;
}

resource_limits limits_from(const json& from) {
  resource_limits limits;
  take(from, "memory_bytes", limits.memory_bytes);
  take(from, "cpu_s", limits.cpu_s);
  take(from, "open_files", limits.open_files);
  take(from, "processes", limits.processes);
  take(from, "file_bytes", limits.file_bytes);
  take(from, "cpu_millis", limits.cpu_millis);
  return limits;
}

json to_json(const artifact_source& from) {
  return {{"job_id", from.job.value}, {"directory", from.directory}, {"problem", from.problem}};
}

artifact_source source_from(const json& from) {
  return {{from.at("job_id").get<std::int64_t>()},
          from.at("directory").get<std::string>(),
          from.at("problem").get<std::string>()};
}

json to_json(const start_command& start) {
  auto to = key_of("start", start.key);
  to["steps"] = json::array();
  for (const auto& step : start.steps)
    to["steps"].push_back(to_json(step));
  to["env"] = start.env;
  to["workspace"] = start.workspace;
  to["keep_workspace"] = name_of(keep_policies, start.keep_workspace);
  to["fetch"] = json::array();
  for (const auto& from : start.fetch)
    to["fetch"].push_back(to_json(from));
  to["artifacts"] = start.artifacts;
  to["artifacts_dir"] = start.artifacts_dir;
  to["artifacts_limit_bytes"] = start.artifacts_limit_bytes;
  to["working_dir"] = start.working_dir;
  to["log_file"] = start.log_file;
  to["log_limit_bytes"] = start.log_limit_bytes;
  put(to, "time_limit_ms", start.time_limit);
  put(to, "no_output_limit_ms", start.no_output_limit);
  to["cancel_grace_ms"] = start.cancel_grace.count();
  to["secrets"] = start.secrets;
  to["log_reserve_bytes"] = start.log_reserve_bytes;
  to["user"] = start.user;
  to["limits"] = to_json(start.limits);
  to["cgroup"] = start.cgroup;
  to["cgroup_limits"] = to_json(start.cgroup_limits);
  to["umask"] = start.umask;
  return to;
}

start_command start_from(const json& from) {
  start_command start;
  start.key = key_from(from);
  for (const auto& step : from.at("steps"))
    start.steps.push_back(step_from(step));
  from.at("env").get_to(start.env);
  from.at("workspace").get_to(start.workspace);
  start.keep_workspace = value_of(keep_policies, from.at("keep_workspace"));
  for (const auto& each : from.at("fetch"))
    start.fetch.push_back(source_from(each));
  from.at("artifacts").get_to(start.artifacts);
  from.at("artifacts_dir").get_to(start.artifacts_dir);
  from.at("artifacts_limit_bytes").get_to(start.artifacts_limit_bytes);
  from.at("working_dir").get_to(start.working_dir);
  from.at("log_file").get_to(start.log_file);
  from.at("log_limit_bytes").get_to(start.log_limit_bytes);
  take(from, "time_limit_ms", start.time_limit);
  take(from, "no_output_limit_ms", start.no_output_limit);
  take(from.at("cancel_grace_ms"), start.cancel_grace);
  from.at("secrets").get_to(start.secrets);
  from.at("log_reserve_bytes").get_to(start.log_reserve_bytes);
  from.at("user").get_to(start.user);
  start.limits = limits_from(from.at("limits"));
  from.at("cgroup").get_to(start.cgroup);
  start.cgroup_limits = limits_from(from.at("cgroup_limits"));
  from.at("umask").get_to(start.umask);
  return start;
}

json to_json(const cancel_command& cancel) {
  auto to = key_of("cancel", cancel.key);
  to["cause"] = name_of(causes, cancel.cause);
  put(to, "grace_ms", cancel.grace);
  return to;
}

cancel_command cancel_from(const json& from) {
  cancel_command cancel{key_from(from), value_of(causes, from.at("cause")), {}};
  take(from, "grace_ms", cancel.grace);
  return cancel;
}

json to_json(const kill_command&) {
  return {{"kind", "kill"}};
}

json to_json(const quit_command&) {
  return {{"kind", "quit"}};
}

json to_json(const ping_command&) {
  return {{"kind", "ping"}};
}

runner_command command_from(const json& from) {
  const auto& kind = from.at("kind").get_ref<const std::string&>();
  if (kind == "start")
    return start_from(from);
  if (kind == "cancel")
    return cancel_from(from);
  if (kind == "kill")
    return kill_command{};
  if (kind == "quit")
    return quit_command{};
  if (kind == "ping")
    return ping_command{};
  throw std::invalid_argument{"unknown command"};
}

// -- events -------------------------------------------------------------------

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

// -- frames -------------------------------------------------------------------

template <class Message>
expected<std::string> encode_frame(const Message& message) {
  // System texts and paths may hold any byte; JSON may not.
  auto text = std::visit([](const auto& part) { return to_json(part); }, message)
                .dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > max_frame_bytes)
    return error{ec::invalid_input,
                 "command and environment of the job take " + std::to_string(text.size()) + " bytes; at most " +
                   std::to_string(max_frame_bytes) + " can be handed to a runner",
                 {}};
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string frame;
  frame.reserve(text.size() + 4);
  for (int shift = 24; shift >= 0; shift -= 8)
    frame += static_cast<char>((size >> shift) & 0xffU);
  return frame += text;
}

template <class Decode>
auto decode_with(std::string_view text, Decode decode) -> expected<decltype(decode(json{}))> {
  try {
    return decode(json::parse(text));
  } catch (const std::exception& problem) {
    return error{ec::invalid_input, std::string{"malformed message between node and runner: "} + problem.what(), {}};
  }
}

} // namespace

std::string_view to_string(run_outcome value) noexcept {
  return name_of(outcomes, value);
}

expected<std::string> encode(const runner_command& command) {
  return encode_frame(command);
}

expected<std::string> encode(const runner_event& event) {
  return encode_frame(event);
}

expected<runner_command> decode_command(std::string_view text) {
  return decode_with(text, command_from);
}

expected<runner_event> decode_event(std::string_view text) {
  return decode_with(text, event_from);
}

} // namespace kcx
