#include "actors/cli/follow/follow.hpp"

#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/log_follower.hpp"
#include "actors/cli/follow/poll_interval.hpp"
#include "actors/cli/follow/signals.hpp"
#include "actors/cli/member.hpp"
#include "actors/cli/view/text.hpp"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

namespace kcx::cli {

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using nlohmann::json;

/// How long a final job's log may stand still before it is given up.
constexpr auto log_silence = 10s;

/// One following of one job by the calling thread.
class watch {
public:
  watch(const node_location& where, const follow_options& options, screen& out)
    : where_{where}, options_{options}, out_{out}, node_{where}, patience_{options.patience}, cancel_patience_{
                                                                                                options.patience} {}

  follow_result run();

private:
  bool poll_job(std::chrono::milliseconds wait);
  bool wait_for_node(expected<reply> answer, std::chrono::milliseconds wanted);
  void see(json job);
  void tell_steps(const json& steps);
  void show_status();
  /// Waits for `time`, or for less if a signal comes. False once the user left.
  bool pause(std::chrono::milliseconds time);
  void cancel();
  void finish_log();
  [[nodiscard]] bool over() const;

  const node_location& where_;
  const follow_options& options_;
  screen& out_;
  node_client node_;
  std::optional<log_follower> log_;
  std::map<std::int64_t, std::string> told_;
  std::int64_t told_attempt_ = 0;
  patience_left patience_;
  patience_left cancel_patience_;
  /// How long the node wants to be left alone.
  std::chrono::milliseconds wait_{0};
  bool lost_ = false;
  bool told_limit_ = false;
  bool cancel_again_ = false;
  int signals_ = 0;
  follow_result result_;
};

bool watch::over() const {
  if (is_final(result_.job))
    return true;
  return options_.attempt && result_.job.is_object() && result_.job.value("attempt", 0) > *options_.attempt;
}

follow_result watch::run() {
  poll_interval interval;
  for (;;) {
    // Seen before the job is asked for: if that is refused as well, it says more.
    const bool log_refused = options_.log_only && log_ && log_->refusal();
    const auto asked = clock_type::now();
    const auto wait = result_.job.is_object() ? interval.now() : 0ms;
    const bool going_on = poll_job(wait);
    if (!going_on || over() || log_refused)
      break;
    show_status();
    const bool cancel_then = std::exchange(cancel_again_, false);
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - asked);
    // What the node waited need not be waited again; without an answer nothing was waited.
    const auto rest = (lost_ ? interval.now() : wait) - passed;
    if (!pause(std::max(rest, std::exchange(wait_, 0ms))))
      break;
    if (cancel_then)
      cancel();
    interval.grow();
  }
  finish_log();
  out_.status({});
  return std::move(result_);
}

/// Asks for the job, and waits for its end so long at the most: a node that stops once its jobs have ended answers who
/// waits, but nobody who comes later. False once it is of no use to go on.
bool watch::poll_job(std::chrono::milliseconds wait) {
  const auto query = wait > 0ms ? "?wait=" + std::to_string(wait.count()) + "ms" : std::string{};
  auto answer = node_.call("GET", "/v1/jobs/" + std::to_string(options_.job) + query, nullptr, 10s);
  if (const auto wanted = another_try(answer, asked_for::state))
    return wait_for_node(std::move(answer), *wanted);
  patience_.renew();
  if (std::exchange(lost_, false))
    out_.note("reached the node again");
  if (!answer->ok()) {
    result_.refusal = *std::move(answer);
    return false;
  }
  see(std::move(answer->document));
  return true;
}

/// False once it was waited for long enough.
bool watch::wait_for_node(expected<reply> answer, std::chrono::milliseconds wanted) {
  const bool limited = answer && answer->status == 429;
  if (limited && !std::exchange(told_limit_, true))
    out_.note(too_many_requests);
  if (!limited && !std::exchange(lost_, true))
    out_.note("lost the node, trying to reach it again");
  if (const auto rest = patience_.pause(wanted)) {
    wait_ = *rest;
    return true;
  }
  if (answer)
    result_.refusal = *std::move(answer);
  else
    result_.lost = std::move(answer).error();
  return false;
}

void watch::see(json job) {
  if (!job.is_object())
    return;
  result_.job = std::move(job);
  auto attempt = result_.job.value("attempt", 0);
  if (options_.log && !log_)
    log_.emplace(where_, options_, options_.attempt.value_or(options_.from_first ? 1 : std::max(attempt, 1)), out_);
  auto state = text_at(result_.job, "state");
  if (log_)
    log_->observe(attempt, state == "running" || state == "cancelling", is_final(result_.job));
  if (auto steps = result_.job.find("steps"); options_.progress && steps != result_.job.end() && steps->is_array())
    tell_steps(*steps);
}

void watch::tell_steps(const json& steps) {
  if (auto attempt = result_.job.value("attempt", std::int64_t{0}); attempt != std::exchange(told_attempt_, attempt))
    told_.clear();
  for (const auto& step : steps) {
    auto state = text_at(step, "state");
    auto& told = told_[step.value("index", std::int64_t{0})];
    if (told == state || (told.empty() && state == "pending"))
      continue;
    told = state;
    out_.note(step_text(step, steps.size()));
  }
}

void watch::show_status() {
  auto line = job_summary(result_.job.is_object() ? result_.job : json{{"id", options_.job}, {"state", "unknown"}});
  if (lost_)
    line += ", node not reachable";
  if (auto steps = result_.job.find("steps");
      result_.job.is_object() && steps != result_.job.end() && steps->is_array())
    for (const auto& step : *steps)
      if (text_at(step, "state") == "running")
        line += ", " + step_text(step, steps->size());
  out_.status({{line, colour::grey}});
}

bool watch::pause(std::chrono::milliseconds time) {
  if (!options_.cancel_on_signal) {
    std::this_thread::sleep_for(time);
    return true;
  }
  if (!signal_within(time))
    return true;
  if (++signals_ > 1 || over()) {
    result_.left = true;
    return false;
  }
  out_.note("cancelling job " + std::to_string(options_.job) + "; a second Ctrl-C leaves without waiting for its end");
  cancel();
  return true;
}

void watch::cancel() {
  auto name = "job " + std::to_string(options_.job);
  auto answer = node_.call("POST", "/v1/jobs/" + std::to_string(options_.job) + "/cancel", nullptr, 10s);
  // 409: it ended by itself meanwhile, which the next poll shows.
  if (answer && (answer->ok() || answer->status == 409))
    return;
  // The node is there and wants to be left alone for a while: then it is asked again. A second Ctrl-C still leaves.
  if (const auto wanted = another_try(answer, asked_for::state); answer && wanted)
    if (const auto rest = cancel_patience_.pause(*wanted)) {
      cancel_again_ = true;
      wait_ = *rest;
      return;
    }
  cancel_patience_.renew();
  signals_ = 0;
  auto why = answer ? problem_text(answer->status, answer->body) : answer.error().message + '\n';
  out_.note("could not cancel " + name + ", it goes on: " + why.substr(0, why.find_last_not_of('\n') + 1));
}

void watch::finish_log() {
  if (!log_)
    return;
  auto written = log_->written();
  auto quiet_since = clock_type::now();
  // Longer where the node wants to be left alone: the follower itself ends that by the patience it has.
  const auto stands_still = [&] { return !log_->waits() && clock_type::now() - quiet_since >= log_silence; };
  bool finished = log_->wait_finished(0ms);
  const bool wanted = over() && !result_.left;
  while (wanted && !finished && !result_.left && !stands_still()) {
    finished = log_->wait_finished(50ms);
    if (auto now = log_->written(); log_->waits() || now != std::exchange(written, now))
      quiet_since = clock_type::now();
    if (!finished && options_.cancel_on_signal)
      pause(0ms);
  }
  result_.log_complete = finished && log_->complete();
  result_.log_refusal = log_->refusal();
  result_.log_begun = log_->written() > 0;
  if (!finished)
    log_->abandon();
}

} // namespace

follow_result follow_job(const node_location& where, const follow_options& options, screen& out) {
  return watch{where, options, out}.run();
}

} // namespace kcx::cli
