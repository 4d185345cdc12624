#include "actors/runner/job_environment.hpp"

#include "actors/runner/workspace.hpp"

namespace kcx {

namespace {

constexpr const char* base_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

} // namespace

std::string node_marker(const std::string& node_id) {
  return std::string{node_id_variable} + '=' + node_id;
}

std::map<std::string, std::string> job_environment(const job_identity& job,
                                                   const std::map<std::string, std::string>& variables,
                                                   const std::map<std::string, std::string>& secrets) {
  std::map<std::string, std::string> env{{"PATH", base_path},
                                         {"HOME", job.workspace},
                                         {"LANG", "C.UTF-8"},
                                         {"CI", "true"},
                                         {"KCX_JOB_ID", std::to_string(job.key.job.value)},
                                         {"KCX_ATTEMPT", std::to_string(job.key.attempt)},
                                         {"KCX_WORKSPACE", job.workspace},
                                         {"KCX_JOB_NAME", job.name},
                                         {"KCX_PROJECT", job.project},
                                         {"KCX_QUEUE", job.queue},
                                         {"KCX_OUTPUT", output_path(job.workspace).string()}};
  if (!job.user.empty()) {
    env["USER"] = job.user;
    env["LOGNAME"] = job.user;
  }
  for (const auto& [name, value] : variables)
    env[name] = value;
  for (const auto& [name, value] : secrets)
    env[name] = value;
  env[node_id_variable] = job.node_id;
  return env;
}

std::map<std::string, std::string> runner_environment(const std::string& node_id) {
  return {{"PATH", base_path}, {"LANG", "C.UTF-8"}, {node_id_variable, node_id}};
}

} // namespace kcx
