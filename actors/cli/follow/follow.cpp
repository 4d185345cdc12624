#include "actors/cli/follow/follow.hpp"

#include "actors/cli/exit_code.hpp"
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
    : where_{where}, options_{options}, out_{out}, node_{where} {}

  follow_result run();

private:
  bool poll_job();
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
  std::optional<clock_type::time_point> lost_since_;
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
    const bool going_on = poll_job();
    if (!going_on || over())
      break;
    show_status();
    if (!pause(interval.now()))
      break;
    interval.grow();
  }
  finish_log();
  out_.status({});
  return std::move(result_);
}

/// False once it is of no use to go on.
bool watch::poll_job() {
  auto answer = node_.call("GET", "/v1/jobs/" + std::to_string(options_.job), nullptr, 10s);
  // 5xx other than 501: the node is there but cannot say now.
  const bool unknown = !answer || answer->status >= 500;
  if (unknown) {
    if (!lost_since_) {
      lost_since_ = clock_type::now();
      out_.note("lost the node, trying to reach it again");
    }
    if (clock_type::now() - *lost_since_ < options_.patience)
      return true;
    if (answer)
      result_.refusal = *std::move(answer);
    else
      result_.lost = std::move(answer).error();
    return false;
  }
  if (std::exchange(lost_since_, std::nullopt))
    out_.note("reached the node again");
  if (!answer->ok()) {
    result_.refusal = *std::move(answer);
    return false;
  }
  see(std::move(answer->document));
  return true;
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
  if (lost_since_)
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
  cancel();
  return true;
}

void watch::cancel() {
  auto name = "job " + std::to_string(options_.job);
  out_.note("cancelling " + name + "; a second Ctrl-C leaves without waiting for its end");
  auto answer = node_.call("POST", "/v1/jobs/" + std::to_string(options_.job) + "/cancel", nullptr, 10s);
  // 409: it ended by itself meanwhile, which the next poll shows.
  if (answer && (answer->ok() || answer->status == 409))
    return;
  signals_ = 0;
  auto why = answer ? problem_text(answer->status, answer->body) : answer.error().message + '\n';
  out_.note("could not cancel " + name + ", it goes on: " + why.substr(0, why.find_last_not_of('\n') + 1));
}

void watch::finish_log() {
  if (!log_)
    return;
  auto written = log_->written();
  auto quiet_since = clock_type::now();
  bool finished = log_->wait_finished(0ms);
  const bool wanted = over() && !result_.left;
  while (wanted && !finished && !result_.left && clock_type::now() - quiet_since < log_silence) {
    finished = log_->wait_finished(50ms);
    if (auto now = log_->written(); now != std::exchange(written, now))
      quiet_since = clock_type::now();
    if (!finished && options_.cancel_on_signal)
      pause(0ms);
  }
  result_.log_complete = finished && log_->complete();
  if (!finished)
    log_->abandon();
}

} // namespace

follow_result follow_job(const node_location& where, const follow_options& options, screen& out) {
  return watch{where, options, out}.run();
}

} // namespace kcx::cli
