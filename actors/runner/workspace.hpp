/// Workspaces: the directory an attempt runs in, made fresh and removed without ever leaving it.
///
/// Used by the runner around a job and by the node at start for what a crash left behind. Both sides call remove_ only
/// once the job's processes are gone.
#pragma once

#include "config/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace kcx {

/// `<data>/workspaces/<id>-<attempt>`.
[[nodiscard]] std::filesystem::path workspace_path(const std::filesystem::path& data_dir, std::int64_t job_id,
                                                   std::int32_t attempt);

/// The file beside a workspace that KCX_OUTPUT names: not in it, since a checkout wants an empty directory.
[[nodiscard]] std::filesystem::path output_path(const std::filesystem::path& workspace);

/// Makes the directory with mode 0700, and its parent if missing. `uid` and `gid` (both or -1) become its owner. Fails
/// with ec::conflict if something of that name exists, ec::storage_full or ec::system_failed.
outcome create_workspace(const std::filesystem::path& workspace, uid_t uid = static_cast<uid_t>(-1),
                         gid_t gid = static_cast<gid_t>(-1));

/// Removes a directory and all below it, or what lies in its place, in one go; see tree_removal. Blocks for as long as
/// that takes.
outcome remove_workspace(const std::filesystem::path& workspace);

/// Removes what lies at output_path(workspace): the file, or the directory with all below it that the job made in its
/// place. Fails as remove_workspace() does.
outcome remove_output(const std::filesystem::path& workspace);

} // namespace kcx
