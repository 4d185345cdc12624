#include "actors/runner/workspace.hpp"

#include "actors/runner/tree_removal.hpp"
#include "config/posix.hpp"

#include <cerrno>
#include <sys/stat.h>

namespace kcx {

std::filesystem::path workspace_path(const std::filesystem::path& data_dir, std::int64_t job_id, std::int32_t attempt) {
  return data_dir / "workspaces" / (std::to_string(job_id) + '-' + std::to_string(attempt));
}

std::filesystem::path output_path(const std::filesystem::path& workspace) {
  return workspace.string() + ".out";
}

outcome create_workspace(const std::filesystem::path& workspace, uid_t uid, gid_t gid) {
  auto made = ::mkdir(workspace.c_str(), 0700) == 0;
  if (!made && errno == ENOENT && (::mkdir(workspace.parent_path().c_str(), 0711) == 0 || errno == EEXIST))
    made = ::mkdir(workspace.c_str(), 0700) == 0;
  if (!made && errno == EEXIST)
    return error{ec::conflict, "the workspace " + workspace.string() + " exists already", {}};
  if (!made)
    return system_failure("cannot make the workspace " + workspace.string());
  if (uid != static_cast<uid_t>(-1) && ::chown(workspace.c_str(), uid, gid) != 0) {
    auto failure = system_failure("cannot give the workspace " + workspace.string() + " to the user of the job");
    ::rmdir(workspace.c_str());
    return failure;
  }
  return done{};
}

outcome remove_workspace(const std::filesystem::path& workspace) {
  tree_removal work{workspace};
  while (work.step()) {
  }
  return work.result();
}

outcome remove_output(const std::filesystem::path& workspace) {
  return remove_workspace(output_path(workspace));
}

} // namespace kcx
