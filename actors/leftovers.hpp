/// What jobs leave on disk besides their rows: logs and workspaces. Removed here once nobody needs them.
///
/// Plain functions for file threads: they wait for the disk. Only names that the node itself gives are touched, and
/// removing what is not there is no error, so everything may be repeated after a crash.
#pragma once

#include "storage/job_reader.hpp"
#include "storage/job_store.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kcx {

/// Removes the logs and kept workspaces of all attempts of removed jobs.
void remove_job_files(const std::filesystem::path& data_dir, const std::vector<removed_job>& jobs);

/// The attempts that have a workspace now. Call it before the first job is started: theirs are never looked at then.
[[nodiscard]] std::vector<attempt_key> list_workspaces(const std::filesystem::path& data_dir);

/// The highest id of which there is a log or a workspace; 0 if there is none.
[[nodiscard]] job_id highest_job_on_disk(const std::filesystem::path& data_dir);

/// Removes, of what an earlier node left: workspaces (of the list) that no `keep_workspace` asks for, and logs whose
/// job was removed while a crash kept them from going with it. Small pieces of work that each run on `post`, so that
/// others have their turn. `open` gives a connection of its own to each piece.
void sweep_leftovers(const std::filesystem::path& data_dir, std::vector<attempt_key> workspaces,
                     std::function<void(std::function<void()>)> post,
                     std::function<expected<std::unique_ptr<job_reader>>()> open);

} // namespace kcx
