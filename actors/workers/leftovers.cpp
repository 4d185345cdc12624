#include "actors/workers/leftovers.hpp"

#include "actors/runner/cgroup.hpp"
#include "actors/runner/workspace.hpp"
#include "storage/artifact_path.hpp"
#include "storage/log_archive.hpp"
#include "storage/log_format.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace kcx {

namespace {

/// "12-3", perhaps with an extension behind it.
std::optional<attempt_key> parse_name(std::string_view text) {
  attempt_key key;
  const auto* end = text.data() + text.size();
  const auto [dash, bad_id] = std::from_chars(text.data(), end, key.job.value);
  if (bad_id != std::errc{} || dash == end || *dash != '-')
    return std::nullopt;
  const auto [rest, bad_attempt] = std::from_chars(dash + 1, end, key.attempt);
  if (bad_attempt != std::errc{} || (rest != end && *rest != '.') || key.job.value < 1 || key.attempt < 1)
    return std::nullopt;
  return key;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator each{folder, failed}, end; !failed && each != end; each.increment(failed))
    names.push_back(each->path().filename().string());
  return names;
}

/// A workspace, or a directory of artifacts.
void remove_directory(const char* what, attempt_key key, const std::filesystem::path& directory) {
  if (auto gone = remove_workspace(directory); !gone)
    spdlog::warn("{} of job {} not removed: {}", what, key.job.value, gone.error().message);
}

void remove_attempt_output(attempt_key key, const std::filesystem::path& workspace) {
  if (auto gone = remove_output(workspace); !gone)
    spdlog::warn("outputs of job {} not removed: {}", key.job.value, gone.error().message);
}

void remove_attempt_workspace(const std::filesystem::path& data_dir, attempt_key key) {
  remove_directory("a workspace", key, workspace_path(data_dir, key.job.value, key.attempt));
}

void remove_attempt_artifacts(const std::filesystem::path& data_dir, attempt_key key) {
  remove_directory("artifacts", key, artifacts_path(data_dir, key.job.value, key.attempt));
}

bool is_gone(job_reader& source, job_id job) {
  const auto log = source.log_of(job, 0);
  return !log && log.error().code == ec::gone;
}

bool has_ended(job_reader& source, attempt_key key) {
  const auto log = source.log_of(key.job, key.attempt);
  return log && log->second.bytes >= 0;
}

/// Nobody asked that the workspace of this ended attempt be kept, or nobody is left to look at it.
bool is_stale(job_reader& source, attempt_key key) {
  const auto job = source.job(key.job);
  if (!job)
    return job.error().code == ec::gone;
  // Only the latest attempt of a job can have succeeded.
  const bool succeeded = job->state == job_state::succeeded && job->attempt == key.attempt;
  return job->spec.keep_workspace == keep_policy::never ||
         (job->spec.keep_workspace == keep_policy::on_failure && succeeded);
}

/// Walks over what is left, one piece of work after the other.
class sweep : public std::enable_shared_from_this<sweep> {
public:
  sweep(std::filesystem::path data_dir, found_leftovers found, std::function<void(std::function<void()>)> post,
        std::function<expected<std::unique_ptr<job_reader>>()> open, std::function<void(attempt_key)> log_found)
    : data_dir_{std::move(data_dir)}, found_{std::move(found)}, folders_{names_in(data_dir_ / "logs")},
      post_{std::move(post)}, open_{std::move(open)}, log_found_{std::move(log_found)} {}

  void next() {
    post_([self = shared_from_this()] { self->piece(); });
  }

private:
  static constexpr std::size_t directories_per_piece = 20;

  void piece() {
    if (found_.workspaces.empty() && found_.artifacts.empty() && folders_.empty())
      return;
    const auto source = open_();
    if (!source) {
      spdlog::warn("what an earlier node left behind was not looked at: {}", source.error().message);
      return;
    }
    if (!found_.workspaces.empty())
      sweep_workspaces(**source);
    else if (!found_.artifacts.empty())
      sweep_artifacts(**source);
    else
      sweep_logs(**source);
    next();
  }

  void sweep_workspaces(job_reader& source) {
    for (std::size_t i = 0; i < directories_per_piece && !found_.workspaces.empty(); ++i) {
      const auto key = found_.workspaces.back();
      found_.workspaces.pop_back();
      if (is_stale(source, key))
        remove_attempt_workspace(data_dir_, key);
    }
  }

  void sweep_artifacts(job_reader& source) {
    for (std::size_t i = 0; i < directories_per_piece && !found_.artifacts.empty(); ++i) {
      const auto key = found_.artifacts.back();
      found_.artifacts.pop_back();
      if (is_gone(source, key.job))
        remove_attempt_artifacts(data_dir_, key);
    }
  }

  void sweep_logs(job_reader& source) {
    const auto folder = data_dir_ / "logs" / folders_.back();
    folders_.pop_back();
    std::set<attempt_key> found;
    for (const auto& name : names_in(folder)) {
      if (const auto key = parse_name(name))
        found.insert(*key);
    }
    job_id asked;
    bool gone = false;
    for (const auto key : found) {
      if (key.job != asked) {
        gone = is_gone(source, key.job);
        asked = key.job;
      }
      const auto log = log_path(data_dir_, key.job.value, key.attempt);
      if (gone)
        remove_log(log);
      else if (wants_archive(log) && has_ended(source, key))
        log_found_(key);
    }
  }

  std::filesystem::path data_dir_;
  found_leftovers found_;
  std::vector<std::string> folders_;
  std::function<void(std::function<void()>)> post_;
  std::function<expected<std::unique_ptr<job_reader>>()> open_;
  std::function<void(attempt_key)> log_found_;
};

} // namespace

void remove_unfinished(const unfinished_run& left) {
  if (!left.cgroup.empty())
    remove_cgroup(left.cgroup);
  if (!left.keeps_workspace)
    remove_directory("a workspace", left.key, left.workspace);
  remove_attempt_output(left.key, left.workspace);
  remove_directory("artifacts", left.key, partial_artifacts_path(left.artifacts));
}

void remove_job_files(const std::filesystem::path& data_dir, const std::vector<removed_job>& jobs) {
  for (const auto& job : jobs) {
    for (std::int32_t attempt = 1; attempt <= job.attempts; ++attempt) {
      // What is not removed now is found when the node starts again.
      if (!remove_log(log_path(data_dir, job.id.value, attempt)))
        spdlog::warn("the log of attempt {} of removed job {} is still there", attempt, job.id.value);
      remove_attempt_workspace(data_dir, {job.id, attempt});
      remove_attempt_output({job.id, attempt}, workspace_path(data_dir, job.id.value, attempt));
      remove_attempt_artifacts(data_dir, {job.id, attempt});
    }
  }
}

found_leftovers find_leftovers(const std::filesystem::path& data_dir) {
  found_leftovers found;
  for (const auto& name : names_in(data_dir / "workspaces")) {
    const auto key = parse_name(name);
    if (!key)
      continue;
    const auto workspace = workspace_path(data_dir, key->job.value, key->attempt);
    if (name == workspace.filename())
      found.workspaces.push_back(*key);
    else if (name == output_path(workspace).filename())
      remove_attempt_output(*key, workspace);
  }
  for (const auto& name : names_in(data_dir / "artifacts")) {
    const auto key = parse_name(name);
    if (!key)
      continue;
    const auto artifacts = artifacts_path(data_dir, key->job.value, key->attempt);
    if (name == artifacts.filename())
      found.artifacts.push_back(*key);
    else if (name == partial_artifacts_path(artifacts).filename())
      remove_directory("artifacts", *key, partial_artifacts_path(artifacts));
  }
  return found;
}

job_id highest_job_on_disk(const std::filesystem::path& data_dir) {
  job_id highest;
  const auto look = [&](const std::vector<std::string>& names) {
    for (const auto& name : names)
      if (const auto key = parse_name(name))
        highest = std::max(highest, key->job);
  };
  look(names_in(data_dir / "workspaces"));
  look(names_in(data_dir / "artifacts"));
  // A folder of logs is a thousand ids, so only that of the highest ones matters. It may have lost all of its logs.
  std::vector<std::int64_t> folders;
  for (const auto& name : names_in(data_dir / "logs")) {
    std::int64_t number = 0;
    const auto* end = name.data() + name.size();
    if (const auto [rest, bad] = std::from_chars(name.data(), end, number); bad == std::errc{} && rest == end)
      folders.push_back(number);
  }
  std::ranges::sort(folders, std::greater{});
  for (const auto folder : folders) {
    const auto names = names_in(data_dir / "logs" / std::to_string(folder));
    look(names);
    if (!names.empty())
      break;
  }
  return highest;
}

void sweep_leftovers(const std::filesystem::path& data_dir, found_leftovers found,
                     std::function<void(std::function<void()>)> post,
                     std::function<expected<std::unique_ptr<job_reader>>()> open,
                     std::function<void(attempt_key)> log_found) {
  std::make_shared<sweep>(data_dir, std::move(found), std::move(post), std::move(open), std::move(log_found))->next();
}

} // namespace kcx
