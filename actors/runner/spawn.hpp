/// Starts one process of a job: the few things between vfork and exec. Used by the runner only.
#pragma once

#include "actors/runner/protocol.hpp"
#include "config/error.hpp"

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace kcx {

/// An account of this machine with all its groups.
struct account {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

/// Looks an account up by name. Fails with ec::system_failed if there is none.
[[nodiscard]] expected<account> find_account(const std::string& name);

/// What a new process is given. Everything else of the runner stays behind: it gets no descriptor above 2, default
/// signal dispositions, an empty signal mask and a session of its own, and it dies with the runner.
struct spawn_request {
  const std::vector<std::string>& argv;
  /// Complete; PATH in it decides where a program without a slash is found.
  const std::map<std::string, std::string>& env;
  const std::string& workspace;
  /// Empty, absolute, or below the workspace.
  const std::string& working_dir;
  int in = -1;
  int out = -1;
  int err = -1;
  const account* user = nullptr;
  const resource_limits& limits;
  /// job_cgroup::entrance(), or -1.
  int cgroup = -1;
  mode_t umask = 022;
};

/// Starts the process and returns once it executes its program. Fails with ec::system_failed, naming the stage and the
/// system's cause; then no process is left. A script without "#!" is given to /bin/sh, as execvp does.
[[nodiscard]] expected<pid_t> spawn(const spawn_request& request);

} // namespace kcx
