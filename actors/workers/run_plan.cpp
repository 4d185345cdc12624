#include "actors/workers/run_plan.hpp"

#include "actors/runner/job_environment.hpp"
#include "actors/runner/workspace.hpp"
#include "storage/artifact_path.hpp"
#include "storage/job_outputs.hpp"
#include "storage/log_format.hpp"

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

std::vector<runner_step> steps_of(const job_spec& spec) {
  std::vector<runner_step> steps;
  if (spec.command)
    steps.push_back({spec.name, spec.command->argv(), false, false, std::nullopt});
  for (const auto& each : spec.steps)
    steps.push_back({each.name, each.command.argv(), each.continue_on_error, each.always, each.time_limit});
  return steps;
}

attempt_outcome outcome_of(const finished_event& event) noexcept {
  switch (event.outcome) {
  case run_outcome::exited: return attempt_outcome::exited;
  case run_outcome::signalled: return attempt_outcome::signalled;
  case run_outcome::spawn_failed: return attempt_outcome::spawn_failed;
  case run_outcome::time_limit: return attempt_outcome::time_limit;
  case run_outcome::no_output: return attempt_outcome::no_output;
  case run_outcome::cancelled:
    return event.cause == cancel_cause::node_stop ? attempt_outcome::node_stopped : attempt_outcome::cancelled;
  // Only a worker that is about to be replaced, or a runner that loses its node, has a job killed.
  case run_outcome::killed: break;
  }
  return attempt_outcome::worker_crashed;
}

std::vector<artifact_source> sources_of(const std::vector<need_grant>& needs, const std::filesystem::path& data_dir) {
  std::vector<artifact_source> sources;
  for (const auto& need : needs) {
    if (!need.wants_artifacts)
      continue;
    const auto [job, attempt] = need.key;
    const auto words = "the artifacts of job " + std::to_string(job.value) + ", which this job needs, ";
    auto& source = sources.emplace_back(artifact_source{job, {}, {}});
    if (need.removed)
      source.problem = words + "are gone: it was removed";
    else if (need.artifacts.cut)
      source.problem = words + "are not complete: its log tells what was left out";
    else if (need.artifacts.files > 0)
      source.directory = artifacts_path(data_dir, job.value, attempt);
  }
  return sources;
}

/// What a cgroup can limit goes there.
void use_cgroup(start_command& command, const cgroup_access& access) {
  if (access.jobs.empty())
    return;
  const auto move = [](bool possible, std::optional<std::uint64_t>& from, std::optional<std::uint64_t>& to) {
    if (possible)
      to = std::exchange(from, std::nullopt);
  };
  auto& whole = command.cgroup_limits;
  move(access.memory, command.limits.memory_bytes, whole.memory_bytes);
  move(access.pids, command.limits.processes, whole.processes);
  move(access.cpu, command.limits.cpu_millis, whole.cpu_millis);
  if (whole != resource_limits{})
    command.cgroup = access.jobs / (std::to_string(command.key.job.value) + '-' + std::to_string(command.key.attempt));
}

} // namespace

start_command plan_run(const job_grant& grant, const run_settings& settings) {
  const auto& spec = grant.spec;
  const auto [job, attempt] = grant.key;
  start_command command;
  command.key = grant.key;
  command.steps = steps_of(spec);
  command.workspace = workspace_path(settings.data_dir, job.value, attempt);
  command.keep_workspace = spec.keep_workspace;
  command.working_dir = spec.working_dir;
  command.user = spec.user.empty() ? settings.job_user : spec.user;
  command.limits = spec.limits;
  use_cgroup(command, settings.cgroups);
  command.env =
    job_environment({grant.key, spec.name, spec.project, spec.queue, settings.node_id, command.workspace, command.user},
                    spec.env, spec.secrets);
  command.env.merge(need_variables(grant.needs)); // no other name begins so
  command.fetch = sources_of(grant.needs, settings.data_dir);
  command.artifacts = spec.artifacts;
  command.artifacts_dir = artifacts_path(settings.data_dir, job.value, attempt);
  command.artifacts_limit_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(settings.artifacts_limit, 0));
  command.log_file = log_path(settings.data_dir, job.value, attempt);
  command.log_limit_bytes =
    static_cast<std::uint64_t>(std::max<std::int64_t>(spec.log_limit_bytes.value_or(settings.log_limit), 0));
  command.log_reserve_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(settings.disk_reserve, 0));
  command.time_limit = spec.time_limit;
  command.no_output_limit = spec.no_output_limit;
  command.cancel_grace = spec.cancel_grace;
  for (const auto& [name, value] : spec.secrets)
    command.secrets.push_back(value);
  return command;
}

bool shows_steps(const job_spec& spec) noexcept {
  return !spec.steps.empty();
}

cancel_command plan_cancel(const job_grant& grant, cancel_cause cause, const run_settings& settings) {
  cancel_command command{grant.key, cause, std::nullopt};
  if (cause == cancel_cause::node_stop)
    command.grace = std::min(grant.spec.cancel_grace, settings.stop_grace);
  return command;
}

step_record to_record(const step_event& event, std::optional<timestamp> began) {
  step_record record{event.index, event.state, event.exit_code, event.signal, began, std::nullopt};
  if (event.state == step_state::running)
    record.started_at = event.at;
  else if (event.state != step_state::pending && event.state != step_state::skipped)
    record.finished_at = event.at;
  return record;
}

attempt_result to_result(const finished_event& event, const job_spec& spec) {
  attempt_result result;
  result.key = event.key;
  result.outcome = outcome_of(event);
  result.exit_code = event.exit_code;
  result.signal = event.signal;
  result.message = event.message;
  result.started_at = event.started_at;
  result.duration = event.duration;
  result.log = {static_cast<std::int64_t>(event.log.bytes), event.log.cut};
  result.artifacts = event.artifacts;
  result.outputs = event.outputs;
  if (!shows_steps(spec))
    return result;
  for (std::int32_t index = 0; const auto& each : event.steps) {
    result.steps.push_back({index, each.state, each.exit_code, each.signal, each.started_at, each.finished_at});
    ++index;
  }
  return result;
}

} // namespace kcx
