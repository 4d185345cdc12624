/// The environment a job gets: built from nothing, so that nothing of the node's own is ever seen by a job.
#pragma once

#include "storage/job.hpp"

#include <map>
#include <string>

namespace kcx {

/// What the base environment says.
struct job_identity {
  attempt_key key;
  std::string name;
  std::string project;
  std::string queue;
  /// The unique id of the data directory; marks the job's processes for sweep_marked().
  std::string node_id;
  std::string workspace;
  /// Account the job runs as, empty for the node's own.
  std::string user;
};

/// The name of the variable that marks every process of a node.
inline constexpr const char* node_id_variable = "KCX_NODE_ID";

/// "KCX_NODE_ID=<id>", as sweep_marked() takes it.
[[nodiscard]] std::string node_marker(const std::string& node_id);

/// The documented base environment (PATH, HOME, LANG, CI, KCX_JOB_ID, KCX_ATTEMPT, KCX_WORKSPACE, KCX_JOB_NAME,
/// KCX_PROJECT, KCX_QUEUE, KCX_OUTPUT, KCX_NODE_ID, and USER and LOGNAME where the job has a user) with `variables` and
/// then `secrets` put over it. KCX_NODE_ID cannot be changed: it is how the node finds its processes again. The runner
/// adds KCX_STEP and KCX_STEP_INDEX.
[[nodiscard]] std::map<std::string, std::string>
job_environment(const job_identity& job, const std::map<std::string, std::string>& variables,
                const std::map<std::string, std::string>& secrets = {});

/// The environment of a runner itself: PATH, LANG and KCX_NODE_ID.
[[nodiscard]] std::map<std::string, std::string> runner_environment(const std::string& node_id);

} // namespace kcx
