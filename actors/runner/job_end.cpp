// How a job_run ends: limits, the kill ladder, the last output, and the report.
#include "actors/runner/job_run.hpp"
#include "actors/runner/process_tree.hpp"
#include "actors/runner/workspace.hpp"
#include "storage/artifact_path.hpp"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace kcx {

namespace {

/// How long output may still arrive after the last step, while somebody holds a pipe.
constexpr milliseconds settle_time{500};
/// The same once nobody does: a process that exits closes its pipes a moment before it is gone.
constexpr milliseconds exit_time{50};
/// Between two rounds of KILL, at first and at most.
constexpr milliseconds first_kill{5};
constexpr milliseconds last_kill{200};
/// How long a node that stops waits for the removal of a workspace.
constexpr milliseconds hurried_removal{2'000};

std::string in_seconds(milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", static_cast<double>(time.count()) / 1000);
  return text;
}

} // namespace

void job_run::end_step(end_cause cause, const std::string& notice) {
  // A clean-up step that takes too long, or for which a node that stops does not wait, changes nothing about a job that
  // has failed. Only a cancel does: whoever asked was told that it will be cancelled.
  const bool too_late = failed_ && cause != end_cause::cancelled;
  if (cause_ == end_cause::none && !too_late)
    cause_ = cause;
  if (phase_ == phase::fetching) {
    output_->notice(notice);
    copy_.reset();
    return next_step();
  }
  if (phase_ != phase::running || kill_at_)
    return;
  step_cause_ = cause;
  output_->notice(notice);
  begin_ladder(start_.cancel_grace);
}

void job_run::begin_ladder(milliseconds grace) {
  next_kill_ = first_kill;
  if (grace.count() > 0)
    terminate_descendants();
  kill_at_ = clock_() + grace;
}

void job_run::climb(steady_time now) {
  if (!kill_at_ || now < *kill_at_ || tree_empty_)
    return;
  kill_descendants();
  // Again and again until waitpid() knows of no child: whoever forked in between is met by a later round.
  kill_at_ = now + next_kill_;
  next_kill_ = std::min(next_kill_ * 2, last_kill);
}

void job_run::check_limits(steady_time now) {
  if (phase_ != phase::running || kill_at_)
    return;
  const auto& step = start_.steps[current_];
  if (step_deadline_ && now >= *step_deadline_) {
    const auto text = "step \"" + step.name + "\" reached its time limit of " + in_seconds(*step_limit_);
    if (!step.continue_on_error)
      return end_step(end_cause::time_limit, text + ", ending it");
    step_cause_ = end_cause::time_limit;
    output_->notice(text + ", ending it");
    return begin_ladder(start_.cancel_grace);
  }
  check_job_limit(now);
  if (kill_at_)
    return;
  if (start_.no_output_limit && now >= std::max(silent_since_, output_->last_output()) + *start_.no_output_limit)
    end_step(end_cause::no_output, "no output for " + in_seconds(*start_.no_output_limit) + ", ending the job");
}

bool job_run::bound_by_job() const noexcept {
  return job_deadline_ && (!start_.steps[current_].always || !winding_up());
}

void job_run::check_job_limit(steady_time now) {
  if (!bound_by_job() || now < *job_deadline_)
    return;
  const auto text = "the time limit of " + in_seconds(*start_.time_limit) + " is reached, ending the job";
  if (!start_.steps[current_].always)
    return end_step(end_cause::time_limit, text);
  output_->notice(text + " after this step");
  wind_up(end_cause::time_limit);
}

void job_run::settle() {
  phase_ = phase::settling;
  output_->close_write_ends();
  settle_until_ = clock_() + settle_time;
  check_settled(clock_());
}

void job_run::check_settled(steady_time now) {
  if (phase_ != phase::settling)
    return;
  if (tree_empty_) {
    output_->end();
    look_at_memory();
    return keep();
  }
  if (output_->ended())
    settle_until_ = std::min(settle_until_, now + exit_time);
  if (!kill_at_ && now >= settle_until_) {
    output_->notice("processes were left behind, ending them");
    begin_ladder(start_.cancel_grace);
  }
}

run_outcome job_run::outcome_now() const noexcept {
  switch (cause_) {
  case end_cause::none: break;
  case end_cause::time_limit: return run_outcome::time_limit;
  case end_cause::no_output: return run_outcome::no_output;
  case end_cause::cancelled:
  case end_cause::node_stop: return run_outcome::cancelled;
  case end_cause::killed: return run_outcome::killed;
  }
  if (spawn_failed_)
    return run_outcome::spawn_failed;
  return signal_ ? run_outcome::signalled : run_outcome::exited;
}

void job_run::finish() {
  phase_ = phase::removing;
  cgroup_.reset();
  if (has_workspace_)
    plan_removal();
  if (!hurried_by_.empty())
    hurry_removal();
  remove_on();
}

void job_run::plan_removal() {
  // Unless it went when it was read, for which the job can see to.
  to_remove_.emplace_back(output_path(start_.workspace));
  if (artifacts_.files == 0 && !start_.artifacts.empty())
    to_remove_.emplace_back(partial_artifacts_path(start_.artifacts_dir));
  const bool good = outcome_now() == run_outcome::exited && exit_code_.value_or(0) == 0;
  workspace_kept_ =
    start_.keep_workspace == keep_policy::always || (start_.keep_workspace == keep_policy::on_failure && !good);
  if (!workspace_kept_)
    to_remove_.emplace_back(start_.workspace);
}

void job_run::hurry_removal() {
  if (!remove_until_)
    remove_until_ = clock_() + hurried_removal;
}

void job_run::remove_on() {
  if (phase_ != phase::removing)
    return;
  while (!to_remove_.empty()) {
    if (!removal_)
      removal_.emplace(to_remove_.front());
    if (removal_->step()) {
      if (!remove_until_ || clock_() < *remove_until_)
        return;
      workspace_error_ = "what is left of them goes when the node starts again";
      to_remove_.clear();
    } else {
      // The error may quote the name of a file.
      if (const auto removed = removal_->result(); !removed && workspace_error_.empty())
        workspace_error_ = output_ ? output_->mask(removed.error().message) : removed.error().message;
      to_remove_.pop_front();
    }
    removal_.reset();
  }
  report();
}

void job_run::report() {
  phase_ = phase::over;
  finished_event event;
  event.key = start_.key;
  event.outcome = outcome_now();
  event.cause = cause_ == end_cause::node_stop ? cancel_cause::node_stop : cancel_cause::cancelled;
  event.exit_code = exit_code_;
  event.signal = signal_;
  if (event.outcome == run_outcome::exited && !event.exit_code)
    event.exit_code = 0;
  event.message = message_;
  event.artifacts = artifacts_;
  event.outputs = outputs_;
  event.workspace_kept = workspace_kept_;
  event.workspace_error = workspace_error_;
  // After the workspace is gone: if that had filled the disk, the log can tell now what it could not take.
  if (output_) {
    event.log = output_->close();
    report_log(clock_(), true);
  }
  event.steps = steps_;
  event.started_at = started_at_;
  if (started_)
    event.duration = std::chrono::duration_cast<milliseconds>(clock_() - *started_);
  event.finished_at = timestamp{milliseconds{wall_ms()}};
  emit_(event);
}

void job_run::look_at_memory() {
  if (cgroup_ && cgroup_->ran_out_of_memory())
    output_->notice("limits.memory_bytes was reached: the system ended a process of the job");
}

void job_run::report_log(steady_time now, bool last) {
  if (output_->size() <= log_told_ || (!last && now < log_told_at_ + log_event_every))
    return;
  if (!last)
    output_->flush();
  log_told_ = output_->size();
  log_told_at_ = now;
  emit_(log_event{start_.key, log_told_});
}

} // namespace kcx
