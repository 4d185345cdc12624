#include "actors/cli/pipeline/follow_pipeline.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/poll_interval.hpp"
#include "actors/cli/follow/signals.hpp"
#include "actors/cli/member.hpp"
#include "actors/cli/pipeline/job_log.hpp"

#include <algorithm>
#include <string>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using nlohmann::json;

/// Of the time, a tenth at the most goes into asking: a thousand jobs are asked for less often than ten.
constexpr int rest_factor = 9;

class pipeline_watch {
public:
  pipeline_watch(const node_location& where, const pipeline& what, const pipeline_options& options, screen& out)
    : what_{what}, options_{options}, out_{out}, node_{where}, began_{clock_type::now()}, patience_{options.patience},
      cancel_patience_{options.patience} {
    result_.jobs.resize(what.jobs.size());
  }

  pipeline_result run();

private:
  bool poll_all();
  bool poll(std::size_t index);
  bool wait_for_node(expected<reply> answer, std::chrono::milliseconds wanted);
  void see(std::size_t index, json job);
  void ended(std::size_t index);
  void draw();
  bool pause(std::chrono::milliseconds time);
  void cancel_all(const std::string& why);
  void cancel_rest();
  [[nodiscard]] bool over() const { return std::all_of(result_.jobs.begin(), result_.jobs.end(), is_final); }

  const pipeline& what_;
  const pipeline_options& options_;
  screen& out_;
  node_client node_;
  const clock_type::time_point began_;
  patience_left patience_;
  patience_left cancel_patience_;
  /// How long the node wants to be left alone.
  std::chrono::milliseconds wait_{0};
  bool lost_ = false;
  bool waits_ = false;
  bool told_limit_ = false;
  bool cancel_again_ = false;
  int signals_ = 0;
  bool cancelled_ = false;
  pipeline_result result_;
};

pipeline_result pipeline_watch::run() {
  poll_interval interval;
  for (;;) {
    const auto round_began = clock_type::now();
    if (!poll_all() || over())
      break;
    draw();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - round_began);
    const bool cancel_then = std::exchange(cancel_again_, false);
    if (!pause(std::max({interval.now(), took * rest_factor, std::exchange(wait_, 0ms)})))
      break;
    if (cancel_then)
      cancel_rest();
    interval.grow();
  }
  out_.status({});
  result_.took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - began_);
  return std::move(result_);
}

/// False once it is of no use to go on.
bool pipeline_watch::poll_all() {
  for (std::size_t i = 0; i < result_.jobs.size(); ++i) {
    // What waits for another job of the pipeline can be left alone until that has ended.
    if (is_final(result_.jobs[i]) || (result_.jobs[i].is_object() && !needs_ended(what_, result_.jobs, i)))
      continue;
    if (!poll(i))
      return false;
    if (waits_)
      return true; // The others would have to wait for it too.
  }
  return true;
}

bool pipeline_watch::poll(std::size_t index) {
  auto answer = node_.call("GET", job_target(options_.ids[index]), nullptr, 10s);
  if (const auto wanted = another_try(answer, asked_for::state))
    return wait_for_node(std::move(answer), *wanted);
  patience_.renew();
  waits_ = false;
  if (std::exchange(lost_, false))
    out_.note("reached the node again");
  if (!answer->ok()) {
    result_.refusal = *std::move(answer);
    return false;
  }
  see(index, std::move(answer->document));
  return true;
}

/// False once it was waited for long enough.
bool pipeline_watch::wait_for_node(expected<reply> answer, std::chrono::milliseconds wanted) {
  const bool limited = answer && answer->status == 429;
  if (limited && !std::exchange(told_limit_, true))
    out_.note(too_many_requests);
  if (!limited && !std::exchange(lost_, true))
    out_.note("lost the node, trying to reach it again");
  waits_ = true;
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

void pipeline_watch::see(std::size_t index, json job) {
  if (!job.is_object())
    return;
  auto& known = result_.jobs[index];
  const auto before = text_at(known, "state");
  const auto attempt = known.is_object() ? known.value("attempt", 0) : 0;
  known = std::move(job);
  const auto state = text_at(known, "state");
  const bool begun = state == "running" && (before != state || known.value("attempt", 0) != attempt);
  if (begun || is_final(known) || (state == "scheduled" && before == "running"))
    out_.note(progress_line(what_.jobs[index], known));
  if (is_final(known))
    ended(index);
}

void pipeline_watch::ended(std::size_t index) {
  const auto& job = result_.jobs[index];
  const auto state = text_at(job, "state");
  const bool broken = state == "failed" || state == "timed_out" || state == "interrupted";
  const bool wanted = options_.logs == shown_logs::all || (options_.logs == shown_logs::failed && broken);
  // A job that never started has no log.
  if (wanted && job.value("attempt", 0) > 0) {
    const auto tail = options_.logs == shown_logs::all ? std::nullopt : std::optional{std::uint64_t{50}};
    if (!print_job_log(node_, job, what_.jobs[index].name, tail, options_.patience, out_))
      result_.log_missing = true;
  }
  if (options_.fail_fast && broken)
    cancel_all("because " + what_.jobs[index].name + " did not succeed");
}

void pipeline_watch::draw() {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - began_);
  auto how = look_of(STDERR_FILENO);
  // A line remains free below, and one for what is written next.
  how.height = std::max<std::size_t>(how.height, 4) - 2;
  auto lines = progress_block(what_, result_.jobs, since, how);
  if (lost_)
    lines.front().text += ", node not reachable";
  out_.status(std::move(lines));
}

bool pipeline_watch::pause(std::chrono::milliseconds time) {
  if (!signal_within(time))
    return true;
  if (++signals_ > 1) {
    result_.left = true;
    return false;
  }
  cancel_all("a second Ctrl-C leaves without waiting for their end");
  return true;
}

void pipeline_watch::cancel_all(const std::string& why) {
  if (std::exchange(cancelled_, true))
    return;
  out_.note("cancelling all jobs: " + why);
  cancel_patience_.renew();
  cancel_rest();
}

void pipeline_watch::cancel_rest() {
  // From the last on, so that none starts because one that it needs was cancelled.
  for (auto i = result_.jobs.size(); i-- > 0;) {
    if (is_final(result_.jobs[i]) || text_at(result_.jobs[i], "state") == "cancelling")
      continue;
    const auto answer = node_.call("POST", job_target(options_.ids[i]) + "/cancel", nullptr, 10s);
    // 409: it ended by itself meanwhile, which the next round shows.
    if (answer && (answer->ok() || answer->status == 409)) {
      cancel_patience_.renew();
      continue;
    }
    // The node is there and wants to be left alone for a while: the rest comes then.
    if (const auto wanted = another_try(answer, asked_for::state); answer && wanted)
      if (const auto rest = cancel_patience_.pause(*wanted)) {
        cancel_again_ = true;
        wait_ = *rest;
        return;
      }
    out_.note("could not cancel " + what_.jobs[i].name + ", it goes on");
    cancelled_ = false;
    signals_ = 0;
  }
}

} // namespace

pipeline_result follow_pipeline(const node_location& where, const pipeline& what, const pipeline_options& options,
                                screen& out) {
  return pipeline_watch{where, what, options, out}.run();
}

} // namespace kcx::cli
