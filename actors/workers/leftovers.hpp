/// What jobs leave on disk besides their rows: logs, artifacts and workspaces. Removed here once nobody needs them.
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

/// What an attempt leaves on disk whose runner died.
struct unfinished_run {
  attempt_key key;
  std::string workspace;
  /// By its `keep_workspace`.
  bool keeps_workspace = false;
  /// Where its artifacts would have been put.
  std::string artifacts;
  /// Empty: it has none.
  std::string cgroup;
};

/// Removes its workspace, unless that is kept, its cgroup, and what the job cannot have any more: outputs and
/// unfinished artifacts.
void remove_unfinished(const unfinished_run& left);

/// Removes the logs, artifacts, kept workspaces and whatever else a crash left of all attempts of removed jobs.
void remove_job_files(const std::filesystem::path& data_dir, const std::vector<removed_job>& jobs);

/// What lies there when a node starts.
struct found_leftovers {
  /// The attempts that have a workspace, and that have artifacts.
  std::vector<attempt_key> workspaces;
  std::vector<attempt_key> artifacts;
};

/// Looks round before the first job is started: what later jobs make is never looked at then. Removes at once what no
/// attempt can use any more: files of outputs, and artifacts that were never complete.
[[nodiscard]] found_leftovers find_leftovers(const std::filesystem::path& data_dir);

/// The highest id of which there is a log, a workspace or artifacts; 0 if there is none.
[[nodiscard]] job_id highest_job_on_disk(const std::filesystem::path& data_dir);

/// Removes, of what an earlier node left: workspaces that no `keep_workspace` asks for, and logs and artifacts
/// whose job was removed while a crash kept them from going with it. Small pieces of work that each run on `post`, so
/// that others have their turn. `open` gives a connection of its own to each piece. `log_found` is told of
/// logs of ended attempts that are not compressed.
void sweep_leftovers(const std::filesystem::path& data_dir, found_leftovers found,
                     std::function<void(std::function<void()>)> post,
                     std::function<expected<std::unique_ptr<job_reader>>()> open,
                     std::function<void(attempt_key)> log_found);

} // namespace kcx
