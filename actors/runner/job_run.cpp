#include "actors/runner/job_run.hpp"

#include "actors/runner/output_file.hpp"
#include "actors/runner/workspace.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/wait.h>
#include <utility>

namespace kcx {

namespace {

/// An `always` step without a limit of its own must not keep a job for ever that is to end.
constexpr milliseconds always_limit{60'000};

} // namespace

job_run::job_run(start_command start, event_sink emit, std::function<steady_time()> clock)
  : start_{std::move(start)}, emit_{std::move(emit)}, clock_{std::move(clock)} {
  steps_.resize(start_.steps.size());
}

// -- start ---------------------------------------------------------------------

void job_run::begin() {
  auto output = job_output::create(start_.log_file, {start_.log_limit_bytes, start_.log_reserve_bytes}, start_.secrets);
  if (!output)
    return fail_to_start(output.error());
  output_ = std::move(*output);
  null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!start_.user.empty()) {
    auto found = find_account(start_.user);
    if (!found)
      return fail_to_start(found.error());
    if (::geteuid() != 0 && found->uid != ::geteuid())
      return fail_to_start(
        {ec::system_failed, "the node does not run as root, so it cannot run a job as \"" + start_.user + '"', {}});
    // Its own account needs no change, and without being root there is none.
    if (::geteuid() == 0)
      user_ = std::move(*found);
  }
  const auto made =
    user_ ? create_workspace(start_.workspace, user_->uid, user_->gid) : create_workspace(start_.workspace);
  if (!made)
    return fail_to_start(made.error());
  has_workspace_ = true;
  if (const auto limited = make_cgroup(); !limited)
    return fail_to_start(limited.error());
  constexpr auto own = static_cast<uid_t>(-1);
  if (const auto file = create_output_file(output_path(start_.workspace), user_ ? user_->uid : own,
                                           user_ ? user_->gid : static_cast<gid_t>(-1));
      !file)
    return fail_to_start(file.error());
  fetch_next();
}

outcome job_run::make_cgroup() {
  if (start_.limits.cpu_millis)
    output_->notice("limits.cpus is not enforced: this node may not use the cpu controller of cgroup v2");
  if (start_.cgroup.empty())
    return done{};
  auto made = job_cgroup::create(start_.cgroup, start_.cgroup_limits);
  if (!made)
    return std::move(made).error();
  cgroup_.emplace(*std::move(made));
  return done{};
}

void job_run::fail_to_start(const error& failure) {
  message_ = output_ ? output_->mask(failure.message) : failure.message;
  spawn_failed_ = failed_ = true;
  if (output_)
    output_->notice(failure.message);
  for (std::size_t i = 0; i < steps_.size(); ++i)
    set_step(i, step_state::skipped);
  finish();
}

// -- steps ---------------------------------------------------------------------

bool job_run::decided() const noexcept {
  return failed_ || cause_ != end_cause::none;
}

bool job_run::winding_up() const noexcept {
  const auto next = start_.steps.begin() + static_cast<std::ptrdiff_t>(current_);
  return decided() || std::all_of(next, start_.steps.end(), [](const runner_step& step) { return step.always; });
}

bool job_run::should_run(const runner_step& step) const noexcept {
  return hurried_by_.empty() && (step.always || !decided());
}

void job_run::set_step(std::size_t index, step_state state) {
  auto& step = steps_[index];
  const auto now = timestamp{milliseconds{wall_ms()}};
  step.state = state;
  if (state == step_state::running)
    step.started_at = now;
  else if (step.started_at)
    step.finished_at = now;
  emit_(step_event{start_.key, static_cast<std::int32_t>(index), state, step.exit_code, step.signal, now});
}

void job_run::next_step() {
  kill_at_.reset();
  step_cause_ = end_cause::none;
  main_ = 0;
  while (true) {
    if (!std::exchange(first_, false))
      ++current_;
    if (current_ >= start_.steps.size())
      return settle();
    if (!should_run(start_.steps[current_]))
      set_step(current_, step_state::skipped);
    else if (start_step())
      return;
  }
}

bool job_run::start_step() {
  const auto& step = start_.steps[current_];
  auto env = start_.env;
  env["KCX_STEP"] = step.name;
  env["KCX_STEP_INDEX"] = std::to_string(current_);
  output_->begin_step(static_cast<std::uint16_t>(current_));
  const auto pid =
    spawn({step.argv, env, start_.workspace, start_.working_dir, null_.value(), output_->out(), output_->err(),
           user_ ? &*user_ : nullptr, start_.limits, cgroup_ ? cgroup_->entrance() : -1, start_.umask});
  const auto now = clock_();
  if (!pid) {
    output_->notice(pid.error().message);
    if (!step.continue_on_error && !decided()) {
      message_ = output_->mask(pid.error().message);
      spawn_failed_ = failed_ = true;
    }
    set_step(current_, step_state::failed);
    return false;
  }
  main_ = *pid;
  tree_empty_ = false;
  phase_ = phase::running;
  if (!started_) {
    started_ = now;
    started_at_ = timestamp{milliseconds{wall_ms()}};
    if (start_.time_limit)
      job_deadline_ = now + *start_.time_limit;
    emit_(started_event{start_.key, *started_at_, static_cast<std::int32_t>(main_)});
  }
  silent_since_ = now;
  step_limit_ = step.time_limit;
  if (step.always && !step_limit_ && winding_up())
    step_limit_ = always_limit;
  step_deadline_ = step_limit_ ? std::optional{now + *step_limit_} : std::nullopt;
  set_step(current_, step_state::running);
  return true;
}

void job_run::step_ended(int status) {
  output_->take();
  const auto& spec = start_.steps[current_];
  auto& step = steps_[current_];
  if (WIFEXITED(status))
    step.exit_code = WEXITSTATUS(status);
  else
    step.signal = WTERMSIG(status);
  const bool failed = step_cause_ != end_cause::none || status != 0;
  // The code of the step that decided: the first that failed and may not, or that was ended together with the job.
  const bool decides = step_cause_ != end_cause::none ? cause_ == step_cause_ : !spec.continue_on_error && failed;
  if (decides && !failed_ && !spawn_failed_) {
    exit_code_ = step.exit_code;
    signal_ = step.signal;
    failed_ = true;
  }
  switch (step_cause_) {
  case end_cause::none: set_step(current_, failed ? step_state::failed : step_state::succeeded); break;
  case end_cause::time_limit:
  case end_cause::no_output: set_step(current_, step_state::timed_out); break;
  case end_cause::cancelled: set_step(current_, step_state::cancelled); break;
  case end_cause::node_stop:
  case end_cause::killed: set_step(current_, step_state::interrupted); break;
  }
  main_ = 0;
  if (kill_at_ && !tree_empty_)
    phase_ = phase::ending;
  else
    next_step();
}

// -- commands ------------------------------------------------------------------

void job_run::cancel(const cancel_command& command) {
  if (command.key != start_.key || phase_ == phase::over)
    return;
  if (command.grace) {
    start_.cancel_grace = *command.grace;
    if (kill_at_)
      kill_at_ = std::min(*kill_at_, clock_() + *command.grace);
  }
  const bool stop = command.cause == cancel_cause::node_stop;
  if (stop)
    hurry("the node stops");
  if (phase_ == phase::removing || phase_ == phase::over)
    return;
  if (phase_ != phase::running && phase_ != phase::fetching && current_ + 1 >= start_.steps.size())
    return;
  const bool cleaning = phase_ == phase::running && start_.steps[current_].always;
  if (cause_ == end_cause::none && cleaning && !stop) {
    output_->notice("cancelled, ending the job after this step");
    wind_up(end_cause::cancelled);
  } else if (cause_ == end_cause::none || (stop && cleaning)) {
    end_step(stop ? end_cause::node_stop : end_cause::cancelled,
             stop ? "the node stops, ending the job" : "cancelled, ending the job");
  }
}

void job_run::wind_up(end_cause cause) {
  cause_ = cause;
  if (step_limit_)
    return;
  step_limit_ = always_limit;
  step_deadline_ = clock_() + always_limit;
}

void job_run::kill() {
  abandon(milliseconds{0}, "the node gave it up");
}

void job_run::abandon(milliseconds grace, const std::string& why) {
  if (phase_ == phase::over)
    return;
  start_.cancel_grace = std::min(grace, start_.cancel_grace);
  if (kill_at_)
    kill_at_ = std::min(*kill_at_, clock_() + start_.cancel_grace);
  hurry(why);
  if (phase_ < phase::settling)
    end_step(end_cause::killed, "ended, since " + why);
  else if (phase_ == phase::settling && !kill_at_)
    begin_ladder(start_.cancel_grace);
  tick();
}

void job_run::hurry(const std::string& why) {
  if (hurried_by_.empty())
    hurried_by_ = why;
  if (phase_ == phase::removing) {
    hurry_removal();
  } else if (phase_ == phase::keeping) {
    // The job has ended by itself; only what it leaves is not complete.
    copy_.reset();
    leave_no_artifacts();
  }
}

// -- the runner's loop ---------------------------------------------------------

void job_run::wants(std::vector<pollfd>& polled) const {
  if (output_ && phase_ != phase::over)
    output_->wants(polled);
}

std::optional<steady_time> job_run::deadline() const {
  if (phase_ == phase::over || !output_)
    return {};
  std::optional<steady_time> first;
  const auto consider = [&](const std::optional<steady_time>& at) {
    if (at && (!first || *at < *first))
      first = at;
  };
  if (copy_ || removal_)
    return clock_();
  consider(output_->flush_at());
  if (output_->size() > log_told_)
    consider(log_told_at_ + log_event_every);
  consider(kill_at_);
  if (phase_ == phase::settling && !kill_at_)
    consider(settle_until_);
  if (phase_ == phase::running && !kill_at_) {
    consider(step_deadline_);
    if (bound_by_job())
      consider(job_deadline_);
    if (start_.no_output_limit)
      consider(std::max(silent_since_, output_->last_output()) + *start_.no_output_limit);
  }
  return first;
}

void job_run::take_output() {
  if (output_ && phase_ != phase::over)
    output_->take();
}

void job_run::reap() {
  std::optional<int> main_status;
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0)
    if (pid == main_)
      main_status = status;
  tree_empty_ = pid < 0 && errno == ECHILD;
  if (main_status)
    step_ended(*main_status);
  else if (phase_ == phase::ending && tree_empty_)
    next_step();
  check_settled(clock_());
}

void job_run::tick() {
  const auto now = clock_();
  if (phase_ == phase::over)
    return;
  check_limits(now);
  climb(now);
  check_settled(now);
  copy_on();
  remove_on();
  if (phase_ == phase::over)
    return;
  if (output_->flush_at() && now >= *output_->flush_at())
    output_->flush();
  report_log(now, false);
}

} // namespace kcx
