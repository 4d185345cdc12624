#include "actors/cli/jobs/job_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/follow.hpp"
#include "actors/cli/jobs/queue_commands.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"
#include "actors/http/message/message.hpp"

#include <algorithm>
#include <iostream>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using clock_type = std::chrono::steady_clock;

// -- logs -------------------------------------------------------------------------------------------------------------

/// `attempt` 0: the latest.
std::string log_target(const invocation& what, std::int32_t attempt) {
  auto target = job_target(what.ids.front()) + "/log?";
  if (attempt > 0)
    target += "attempt=" + std::to_string(attempt) + '&';
  if (what.log.tail)
    target += "tail=" + std::to_string(*what.log.tail) + '&';
  if (what.log.timestamps)
    target += "timestamps=1&";
  target.pop_back();
  return target;
}

int print_log(const invocation& what) {
  node_client node{what.where};
  const auto id = what.ids.front();
  auto attempt = what.log.attempt;
  int code = exit_codes::success;
  // JSON tells whose log it is; so that a retry in between changes nothing, it is asked for then.
  if (what.json && !attempt) {
    const auto job = get_or_tell(what, node, "GET", job_target(id), code);
    if (!job)
      return code;
    attempt = job->value("attempt", 0);
  }
  screen out{true};
  std::string text;
  bool written = true;
  auto answer = node.stream(
    log_target(what, attempt.value_or(0)),
    [&](std::string_view piece) {
      if (what.json)
        text += piece;
      else
        written = out.write(piece);
      return written;
    },
    60s);
  if (!answer)
    return tell(what, answer.error());
  if (!answer->ok())
    return tell(what, *answer);
  if (!written)
    return exit_codes::failed;
  if (what.json)
    std::cout << dumped({{"id", id}, {"attempt", *attempt}, {"text", text}});
  return flushed(exit_codes::success);
}

// -- status, wait, cancel ---------------------------------------------------------------------------------------------

/// Prints the jobs as asked for: one as it is, several as items. Nothing where there is none but errors.
void print_jobs(const invocation& what, const json& jobs) {
  if (jobs.empty())
    return;
  if (what.json) {
    std::cout << dumped(what.ids.size() == 1 && jobs.size() == 1 ? jobs.front() : json{{"items", jobs}});
    return;
  }
  const auto how = look_of(STDOUT_FILENO);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    std::cout << (i == 0 ? "" : "\n") << job_text(jobs[i], how);
}

/// How long from now until `deadline`, at most `most`.
std::chrono::milliseconds left(const std::optional<clock_type::time_point>& deadline, std::chrono::milliseconds most) {
  if (!deadline)
    return most;
  auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - clock_type::now());
  return std::clamp(rest, 0ms, most);
}

/// Waits for one job. The final job, or the exit code.
std::optional<json> wait_for(const invocation& what, node_client& node, std::int64_t id,
                             const std::optional<clock_type::time_point>& deadline, int& code) {
  patience_left still{what.patience};
  bool told = false;
  bool seen = false;
  const auto refused = [&](reply& refusal) {
    return seen ? tell_lost(what, id, std::move(refusal)) : tell(what, refusal);
  };
  for (;;) {
    auto patience = left(deadline, 30s);
    auto answer =
      node.call("GET", job_target(id) + "?wait=" + std::to_string(patience.count()) + "ms", nullptr, patience + 15s);
    if (answer && answer->ok() && is_final(answer->document))
      return std::move(answer->document);
    const auto wanted = another_try(answer, asked_for::state);
    if (answer && !answer->ok() && !wanted) {
      code = refused(*answer);
      return std::nullopt;
    }
    if (deadline && clock_type::now() >= *deadline) {
      code = tell(
        what, error{ec::timeout, "job " + std::to_string(id) + " is not final after the time given by --timeout", {}});
      return std::nullopt;
    }
    if (!wanted) {
      seen = true;
      still.renew();
      continue;
    }
    const auto rest = still.pause(std::max(500ms, *wanted));
    if (!rest) {
      code = answer ? refused(*answer) : tell_lost(what, id, answer.error());
      return std::nullopt;
    }
    if (!what.quiet && !std::exchange(told, true))
      std::cerr << "kcx: "
                << (answer && answer->status == 429
                      ? std::string{too_many_requests}
                      : "no answer from the node, asking again for " +
                          duration_text(std::chrono::duration<double>(what.patience).count()))
                << '\n';
    std::this_thread::sleep_for(left(deadline, *rest));
  }
}

// -- several ----------------------------------------------------------------------------------------------------------

/// One line a job, or the documents.
void tell_jobs(const invocation& what, const json& jobs) {
  if (what.json)
    return print_jobs(what, jobs);
  for (const auto& job : jobs)
    std::cout << job_summary(job) << '\n';
}

} // namespace

int print_logs(const invocation& what) {
  if (!what.log.follow)
    return print_log(what);
  screen out{what.quiet};
  follow_options options;
  options.job = what.ids.front();
  options.attempt = what.log.attempt;
  options.tail = what.log.tail;
  options.timestamps = what.log.timestamps;
  options.json = what.json;
  options.progress = false;
  options.log_only = true;
  options.patience = what.patience;
  auto end = follow_job(what.where, options, out);
  if (end.lost || end.refusal)
    return tell_follow_end(what, options.job, end, false);
  if (end.log_refusal) {
    const auto code = tell(what, *end.log_refusal);
    if (!end.log_begun)
      return code;
  }
  if (!end.log_complete && !out.broken() && !(what.json && end.log_refusal))
    std::cerr << "kcx: the log above is not complete\n";
  return end.log_complete ? exit_codes::success : exit_codes::failed;
}

int show_status(const invocation& what) {
  node_client node{what.where};
  auto jobs = json::array();
  int code = exit_codes::success;
  for (auto id : what.ids)
    if (auto job = get_or_tell(what, node, "GET", job_target(id), code))
      jobs.push_back(*std::move(job));
  print_jobs(what, jobs);
  return flushed(code);
}

int wait_for_jobs(const invocation& what) {
  node_client node{what.where};
  auto deadline = what.timeout ? std::optional{clock_type::now() + *what.timeout} : std::nullopt;
  auto jobs = json::array();
  int code = exit_codes::success;
  for (auto id : what.ids) {
    int own = exit_codes::success;
    if (auto job = wait_for(what, node, id, deadline, own)) {
      own = exit_code_of(*job);
      jobs.push_back(*std::move(job));
    }
    code = code == exit_codes::success ? own : code;
  }
  tell_jobs(what, jobs);
  return flushed(code);
}

int cancel_jobs(const invocation& what) {
  if (what.ids.empty())
    return cancel_matching(what);
  node_client node{what.where};
  auto jobs = json::array();
  int code = exit_codes::success;
  for (auto id : what.ids)
    if (auto job = get_or_tell(what, node, "POST", job_target(id) + "/cancel", code))
      jobs.push_back(*std::move(job));
  tell_jobs(what, jobs);
  return flushed(code);
}

} // namespace kcx::cli
