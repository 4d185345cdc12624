#include "actors/leftovers.hpp"

#include "actors/runner/workspace.hpp"
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

void remove_one_workspace(const std::filesystem::path& data_dir, attempt_key key) {
  if (auto gone = remove_workspace(workspace_path(data_dir, key.job.value, key.attempt)); !gone)
    spdlog::warn("a workspace of job {} was not removed: {}", key.job.value, gone.error().message);
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
  sweep(std::filesystem::path data_dir, std::vector<attempt_key> workspaces,
        std::function<void(std::function<void()>)> post, std::function<expected<std::unique_ptr<job_reader>>()> open)
    : data_dir_{std::move(data_dir)}, workspaces_{std::move(workspaces)}, folders_{names_in(data_dir_ / "logs")},
      post_{std::move(post)}, open_{std::move(open)} {}

  void next() {
    post_([self = shared_from_this()] { self->piece(); });
  }

private:
  static constexpr std::size_t workspaces_per_piece = 20;

  void piece() {
    if (workspaces_.empty() && folders_.empty())
      return;
    const auto source = open_();
    if (!source) {
      spdlog::warn("what an earlier node left behind was not looked at: {}", source.error().message);
      return;
    }
    if (workspaces_.empty())
      sweep_logs(**source);
    else
      sweep_workspaces(**source);
    next();
  }

  void sweep_workspaces(job_reader& source) {
    for (std::size_t i = 0; i < workspaces_per_piece && !workspaces_.empty(); ++i) {
      const auto key = workspaces_.back();
      workspaces_.pop_back();
      if (is_stale(source, key))
        remove_one_workspace(data_dir_, key);
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
        const auto log = source.log_of(key.job, 0);
        gone = !log && log.error().code == ec::gone;
        asked = key.job;
      }
      if (gone)
        remove_log(log_path(data_dir_, key.job.value, key.attempt));
    }
  }

  std::filesystem::path data_dir_;
  std::vector<attempt_key> workspaces_;
  std::vector<std::string> folders_;
  std::function<void(std::function<void()>)> post_;
  std::function<expected<std::unique_ptr<job_reader>>()> open_;
};

} // namespace

void remove_job_files(const std::filesystem::path& data_dir, const std::vector<removed_job>& jobs) {
  for (const auto& job : jobs) {
    for (std::int32_t attempt = 1; attempt <= job.attempts; ++attempt) {
      // What is not removed now is found when the node starts again.
      if (!remove_log(log_path(data_dir, job.id.value, attempt)))
        spdlog::warn("the log of attempt {} of removed job {} is still there", attempt, job.id.value);
      remove_one_workspace(data_dir, {job.id, attempt});
    }
  }
}

std::vector<attempt_key> list_workspaces(const std::filesystem::path& data_dir) {
  std::vector<attempt_key> keys;
  for (const auto& name : names_in(data_dir / "workspaces")) {
    if (const auto key = parse_name(name); key && name.find('.') == std::string::npos)
      keys.push_back(*key);
  }
  return keys;
}

job_id highest_job_on_disk(const std::filesystem::path& data_dir) {
  job_id highest;
  const auto look = [&](const std::vector<std::string>& names) {
    for (const auto& name : names)
      if (const auto key = parse_name(name))
        highest = std::max(highest, key->job);
  };
  look(names_in(data_dir / "workspaces"));
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

void sweep_leftovers(const std::filesystem::path& data_dir, std::vector<attempt_key> workspaces,
                     std::function<void(std::function<void()>)> post,
                     std::function<expected<std::unique_ptr<job_reader>>()> open) {
  std::make_shared<sweep>(data_dir, std::move(workspaces), std::move(post), std::move(open))->next();
}

} // namespace kcx
