// What a job_run copies before and after its steps: artifacts of needed jobs, its own, and its outputs.
#include "actors/runner/job_run.hpp"
#include "actors/runner/output_file.hpp"
#include "actors/runner/workspace.hpp"
#include "config/posix.hpp"
#include "storage/artifact_path.hpp"

#include <cstdio>

namespace kcx {

namespace {

/// Of one attempt; a listing of all of them must stay handy.
constexpr std::uint64_t most_files = 10'000;

} // namespace

void job_run::copy_on() {
  if (!copy_ || copy_->step())
    return;
  const auto report = copy_->report();
  copy_.reset();
  if (phase_ == phase::fetching)
    fetched(report);
  else
    kept(report);
}

// -- before -------------------------------------------------------------------

void job_run::fetch_next() {
  phase_ = phase::fetching;
  while (fetched_ < start_.fetch.size()) {
    const auto& from = start_.fetch[fetched_++];
    if (!from.problem.empty())
      return fail_to_start({ec::not_found, from.problem, {}});
    if (from.directory.empty()) {
      output_->notice("job " + std::to_string(from.job.value) + " kept no artifacts");
      continue;
    }
    copy_order order;
    order.from = from.directory;
    order.to = start_.workspace;
    order.reserve_bytes = start_.log_reserve_bytes;
    order.fills_workspace = true;
    if (user_)
      order.owner = {user_->uid, user_->gid};
    copy_.emplace(std::move(order));
    return;
  }
  next_step();
}

void job_run::fetched(const copy_report& report) {
  if (report.failure)
    return fail_to_start({report.failure->code,
                          "the artifacts of job " + std::to_string(start_.fetch[fetched_ - 1].job.value) +
                            " cannot be put into the workspace: " + report.failure->message,
                          {}});
  fetch_next();
}

// -- after --------------------------------------------------------------------

void job_run::keep() {
  take_outputs();
  if (start_.artifacts.empty())
    return finish();
  if (!hurried_by_.empty())
    return leave_no_artifacts();
  phase_ = phase::keeping;
  copy_order order;
  order.from = start_.workspace;
  order.to = partial_artifacts_path(start_.artifacts_dir);
  order.patterns = start_.artifacts;
  order.most_bytes = start_.artifacts_limit_bytes;
  order.most_files = most_files;
  order.reserve_bytes = start_.log_reserve_bytes;
  order.sync = true;
  if (user_)
    order.reader = user_->uid;
  order.may_name = [this](const std::string& path) { return output_->shows(path); };
  copy_.emplace(std::move(order));
}

void job_run::leave_no_artifacts() {
  // A node that stops has no time for them, and one that is gone no use.
  artifacts_ = {0, 0, true};
  output_->notice("artifacts: none is kept, since " + hurried_by_);
  finish();
}

void job_run::kept(const copy_report& report) {
  const auto tell = [this](const std::string& text) { output_->notice("artifacts: " + text); };
  artifacts_ = {static_cast<std::int64_t>(report.files), static_cast<std::int64_t>(report.bytes), false};
  const auto partial = partial_artifacts_path(start_.artifacts_dir);
  // Their job is reported with them: they must not go with a power cut after that.
  const auto put_in_place = [&] {
    return std::rename(partial.c_str(), start_.artifacts_dir.c_str()) == 0 &&
           sync_directory(std::filesystem::path{start_.artifacts_dir}.parent_path());
  };
  if (report.files > 0 && !put_in_place()) {
    artifacts_ = {0, 0, true};
    tell(system_failure("none is kept, since they cannot be put in their place").message);
  }
  for (const auto& pattern : report.unmatched)
    tell("nothing in the workspace matches \"" + pattern + '"');
  if (report.left_out > 0)
    tell(std::to_string(report.left_out) + " left out, the first: " + report.first_left_out);
  if (report.failure || !report.cut.empty()) {
    artifacts_.cut = true;
    tell("not complete: " + (report.failure ? report.failure->message : report.cut));
  }
  finish();
}

void job_run::take_outputs() {
  auto taken = take_output_file(output_path(start_.workspace));
  for (const auto& complaint : taken.complaints)
    output_->notice(complaint);
  for (auto& [key, value] : taken.values) {
    // As it stood in the file: a key can be a secret too, or both of them together.
    if (output_->shows(key + '=' + value))
      outputs_.emplace(key, std::move(value));
    else
      output_->notice("the output \"" + key + "\" holds a secret and is left out");
  }
}

} // namespace kcx
