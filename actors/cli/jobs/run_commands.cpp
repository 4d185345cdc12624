#include "actors/cli/jobs/run_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/follow.hpp"
#include "actors/cli/follow/signals.hpp"
#include "actors/cli/jobs/submission.hpp"
#include "actors/cli/pipeline/follow_pipeline.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"

#include <algorithm>
#include <functional>
#include <iostream>
#include <random>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// -- sending ----------------------------------------------------------------------------------------------------------

std::string random_key() {
  std::random_device source;
  std::string key = "kcx-";
  constexpr std::string_view digits = "0123456789abcdef";
  for (int i = 0; i < 32; ++i)
    key += digits[source() % 16];
  return key;
}

/// False if a signal came meanwhile.
bool rest(const invocation& what, std::chrono::milliseconds time) {
  if (what.what == verb::run)
    return !signal_within(time);
  std::this_thread::sleep_for(time);
  return true;
}

/// Sends until the node has answered. One key goes with every try, so that the jobs are there once, however often the
/// connection breaks. A node that could not be reached at all is not waited for.
/// `sent` tells whether it may have come to the node.
expected<reply> send(const invocation& what, const json& document, const std::string& key, screen& out, bool& sent) {
  node_client node{what.where};
  node.use_idempotency_key(key);
  patience_left still{what.patience};
  for (;;) {
    auto answer = node.call("POST", "/v1/jobs", document);
    sent = sent || answer || node.may_have_been_sent();
    const auto wanted = another_try(answer, asked_for::submission);
    if (!sent || !wanted)
      return answer;
    const auto pause = still.pause(std::max(300ms, *wanted));
    if (!pause)
      return answer;
    out.note(answer && answer->status == 429 ? std::string{too_many_requests}
                                             : "the node did not answer whether it took the " +
                                                 std::string{document.is_array() ? "jobs" : "job"} + "; asking again");
    if (!rest(what, *pause))
      return answer;
  }
}

/// What the node answered to the submission. On failure the exit code is set.
std::optional<json> submit(const invocation& what, const submission& made, screen& out, int& code) {
  // Before the request: a Ctrl-C while it is on its way must cancel the job it makes, not leave it behind.
  if (what.what == verb::run)
    block_signals();
  const auto key = what.job.idempotency_key.empty() ? random_key() : what.job.idempotency_key;
  bool sent = false;
  auto answer = send(what, made.document, key, out, sent);
  if (answer && answer->ok())
    return std::move(answer->document);
  if (!answer) {
    auto failure = std::move(answer).error();
    if (sent)
      failure.message += std::string{what.json ? "; " : "\nkcx: "} + "with --idempotency-key " + key +
                         " it can be sent again and is there once";
    code = tell(what, failure);
    return std::nullopt;
  }
  if (!what.json && answer->document.is_object())
    answer->body = made.located(answer->document).dump();
  code = tell(what, *answer);
  return std::nullopt;
}

json jobs_of(const json& accepted) {
  return accepted.contains("items") ? accepted["items"] : json::array({accepted});
}

std::vector<std::int64_t> ids_of(const json& accepted) {
  std::vector<std::int64_t> ids;
  for (const auto& job : jobs_of(accepted))
    ids.push_back(job.value("id", std::int64_t{0}));
  return ids;
}

// -- following --------------------------------------------------------------------------------------------------------

int run_one(const invocation& what, const json& job, screen& out) {
  follow_options options;
  options.job = job.value("id", std::int64_t{0});
  options.from_first = true;
  options.log = !what.json;
  options.cancel_on_signal = true;
  options.patience = what.patience;
  out.note("job " + std::to_string(options.job) + " submitted");
  const auto end = follow_job(what.where, options, out);
  const auto code = tell_follow_end(what, options.job, end, true);
  if (!is_final(end.job))
    return code;
  out.note(job_summary(end.job));
  if (what.json) {
    std::cout << dumped(end.job);
    return flushed(code);
  }
  if (!end.log_complete)
    std::cerr << "kcx: the log above is not complete; \"kcx logs " << options.job << "\" prints all of it\n";
  return code == exit_codes::success && out.broken() ? exit_codes::failed : code;
}

std::string ids_text(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const auto id : ids)
    text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

/// The exit code, and on standard error why following ended early.
int tell_pipeline_end(const invocation& what, const pipeline& plan, const pipeline_options& options,
                      const pipeline_result& end) {
  int code = exit_code_of(plan, end.jobs);
  if (end.refusal) {
    tell(what, *end.refusal);
    // The jobs were accepted: that this is refused does not mean that nothing was done.
    code = exit_codes::unreachable;
  }
  if (end.lost)
    code = tell(what, *end.lost);
  if (end.left)
    code = 130;
  // With JSON, standard error is a document and the items have the numbers.
  if (!what.json && (end.refusal || end.lost || end.left))
    std::cerr << "kcx: what becomes of the jobs is unknown here; ask again with \"kcx wait " << ids_text(options.ids)
              << "\"\n";
  if (end.log_missing)
    std::cerr << "kcx: a log above is not complete; \"kcx logs\" prints all of it\n";
  return code;
}

int run_pipeline(const invocation& what, const pipeline& plan, const json& accepted, screen& out) {
  pipeline_options options;
  options.ids = ids_of(accepted);
  options.logs = what.json ? shown_logs::none : what.run.logs;
  options.fail_fast = what.run.fail_fast;
  options.patience = what.patience;
  if (options.ids.size() != plan.jobs.size())
    return tell(what, error{ec::internal, "the node accepted another number of jobs than were sent", {}});
  out.note(counted(static_cast<std::int64_t>(options.ids.size()), "job") +
           " submitted: " + std::to_string(options.ids.front()) +
           (options.ids.size() == 1 ? "" : " to " + std::to_string(options.ids.back())));
  const auto end = follow_pipeline(what.where, plan, options, out);
  const auto code = tell_pipeline_end(what, plan, options, end);
  if (what.json) {
    std::cout << dumped({{"items", end.jobs}});
    return flushed(code);
  }
  std::cout << '\n' << summary_table(plan, end.jobs, look_of(STDOUT_FILENO)) << '\n';
  std::cout << summary_line(plan, end.jobs, end.took) << '\n';
  return flushed(code);
}

/// Reads, submits, and goes on with what was accepted.
int with_accepted(const invocation& what,
                  const std::function<int(const submission& made, const json& accepted, screen& out)>& go_on) {
  const auto made = read_submission(what.job, std::cin);
  if (!made)
    return tell(what, made.error());
  if (what.run.dry_run) {
    std::cout << dumped(made->shown());
    return flushed(exit_codes::success);
  }
  screen out{what.quiet};
  int code = exit_codes::success;
  const auto accepted = submit(what, *made, out, code);
  return accepted ? go_on(*made, *accepted, out) : code;
}

} // namespace

int submit_jobs(const invocation& what) {
  return with_accepted(what, [&](const submission&, const json& accepted, screen&) {
    if (what.json)
      std::cout << dumped(accepted);
    else
      for (const auto id : ids_of(accepted))
        std::cout << id << '\n';
    return flushed_or_told(exit_codes::success, jobs_of(accepted));
  });
}

int run_jobs(const invocation& what) {
  return with_accepted(what, [&](const submission& made, const json& accepted, screen& out) {
    return made.plan ? run_pipeline(what, *made.plan, accepted, out) : run_one(what, accepted, out);
  });
}

} // namespace kcx::cli
