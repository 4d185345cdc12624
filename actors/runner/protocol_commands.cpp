// What the node says to a runner, as JSON.
#include "actors/runner/protocol_json.hpp"

#include <utility>

namespace kcx::protocol {

namespace {

constexpr name_table<keep_policy, 3> keep_policies{
  {{keep_policy::never, "never"}, {keep_policy::on_failure, "on_failure"}, {keep_policy::always, "always"}}};

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

} // namespace

json to_json(const runner_command& command) {
  return std::visit([](const auto& part) { return to_json(part); }, command);
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

} // namespace kcx::protocol
