#include "actors/cli/commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/completion.hpp"
#include "actors/cli/describe.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow.hpp"
#include "actors/cli/queue_commands.hpp"
#include "actors/cli/screen.hpp"
#include "actors/http/message.hpp"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using clock_type = std::chrono::steady_clock;

// -- run, submit
// ---------------------------------------------------------------------------------------------------------

/// From here on SIGINT and SIGTERM wait until somebody asks for them, in every thread started later.
void block_signals() {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGINT);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

/// Sends the job or jobs. On failure the exit code is set.
std::optional<json> submit_document(const invocation& what, bool allow_array, int& code) {
  auto document = to_document(what.job, allow_array, std::cin);
  if (!document) {
    code = tell(document.error());
    return std::nullopt;
  }
  // Before the request: a Ctrl-C while it is on its way must cancel the job it makes, not leave it behind.
  if (what.what == verb::run)
    block_signals();
  node_client node{what.where};
  node.use_idempotency_key(what.job.idempotency_key);
  return get_or_tell(what, node, "POST", "/v1/jobs", code, *document);
}

int submit(const invocation& what) {
  int code = exit_codes::success;
  auto accepted = submit_document(what, true, code);
  if (!accepted)
    return code;
  if (what.json) {
    std::cout << dumped(*accepted);
    return flushed(code);
  }
  const auto items = accepted->contains("items") ? (*accepted)["items"] : json::array({*accepted});
  for (const auto& job : items)
    std::cout << job.value("id", json{}) << '\n';
  return flushed(code);
}

int tell_lost(std::int64_t id, const error& lost) {
  std::cerr << "kcx: " << lost.message << "\nkcx: what became of job " << id
            << " is unknown; it goes on if the node does. Ask again with \"kcx wait " << id << "\" or \"kcx status "
            << id << "\"\n";
  return exit_codes::unreachable;
}

int tell_follow_end(const invocation& what, std::int64_t id, const follow_result& end) {
  if (end.lost)
    return tell_lost(id, *end.lost);
  if (end.refusal)
    return tell(what, *end.refusal);
  if (end.left) {
    std::cerr << "kcx: left job " << id << " while it was being cancelled; \"kcx status " << id
              << "\" tells its state\n";
    return 130;
  }
  return exit_code_of(end.job);
}

int run(const invocation& what) {
  int code = exit_codes::success;
  auto job = submit_document(what, false, code);
  if (!job)
    return code;
  screen out{what.quiet};
  follow_options options;
  options.job = job->value("id", std::int64_t{0});
  options.from_first = true;
  options.log = !what.json;
  options.cancel_on_signal = true;
  options.patience = what.patience;
  out.note("job " + std::to_string(options.job) + " submitted");
  auto end = follow_job(what.where, options, out);
  code = tell_follow_end(what, options.job, end);
  if (!is_final(end.job))
    return code;
  out.note(job_summary(end.job));
  if (what.json) {
    std::cout << dumped(end.job);
    return flushed(code);
  }
  if (!end.log_complete)
    std::cerr << "kcx: the log above is not complete; \"kcx logs " << options.job << "\" prints all of it\n";
  return code;
}

// -- logs
// ----------------------------------------------------------------------------------------------------------------

std::string log_target(const invocation& what) {
  auto target = job_target(what.ids.front()) + "/log?";
  if (what.log.attempt)
    target += "attempt=" + std::to_string(*what.log.attempt) + '&';
  if (what.log.tail)
    target += "tail=" + std::to_string(*what.log.tail) + '&';
  if (what.log.timestamps)
    target += "timestamps=1&";
  target.pop_back();
  return target;
}

int print_log(const invocation& what) {
  node_client node{what.where};
  screen out{true};
  std::string text;
  bool written = true;
  auto answer = node.stream(
    log_target(what),
    [&](std::string_view piece) {
      if (what.json)
        text += piece;
      else
        written = out.write(piece);
      return written;
    },
    60s);
  if (!answer)
    return tell(answer.error());
  if (!answer->ok())
    return tell(what, *answer);
  if (what.json)
    std::cout << dumped({{"id", what.ids.front()}, {"text", text}});
  return flushed(written ? exit_codes::success : exit_codes::failed);
}

int logs(const invocation& what) {
  if (!what.log.follow)
    return print_log(what);
  if (what.json)
    return tell(error{ec::invalid_setting, "logs --follow has no --json: it prints the log as it comes", {}});
  screen out{what.quiet};
  follow_options options;
  options.job = what.ids.front();
  options.attempt = what.log.attempt;
  options.tail = what.log.tail;
  options.timestamps = what.log.timestamps;
  options.progress = false;
  options.patience = what.patience;
  auto end = follow_job(what.where, options, out);
  if (end.lost || end.refusal)
    return tell_follow_end(what, options.job, end);
  if (end.log_complete)
    return exit_codes::success;
  std::cerr << "kcx: the log above is not complete\n";
  return exit_codes::failed;
}

// -- status, wait, cancel
// ------------------------------------------------------------------------------------------------

/// Prints the jobs as asked for: one as it is, several as items.
void print_jobs(const invocation& what, const json& jobs) {
  if (what.json) {
    std::cout << dumped(what.ids.size() == 1 && jobs.size() == 1 ? jobs.front() : json{{"items", jobs}});
    return;
  }
  const auto how = look_of(STDOUT_FILENO);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    std::cout << (i == 0 ? "" : "\n") << job_text(jobs[i], how);
}

int status(const invocation& what) {
  node_client node{what.where};
  auto jobs = json::array();
  int code = exit_codes::success;
  for (auto id : what.ids)
    if (auto job = get_or_tell(what, node, "GET", job_target(id), code))
      jobs.push_back(*std::move(job));
  print_jobs(what, jobs);
  return flushed(code);
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
  auto lost_since = std::optional<clock_type::time_point>{};
  for (;;) {
    auto patience = left(deadline, 30s);
    auto answer =
      node.call("GET", job_target(id) + "?wait=" + std::to_string(patience.count()) + "ms", nullptr, patience + 15s);
    if (answer && answer->ok() && is_final(answer->document))
      return std::move(answer->document);
    const bool unknown = !answer || answer->status >= 500;
    if (answer && !answer->ok() && !unknown) {
      code = tell(what, *answer);
      return std::nullopt;
    }
    if (deadline && clock_type::now() >= *deadline) {
      std::cerr << "kcx: job " << id << " is not final after the time given by --timeout\n";
      code = exit_codes::unreachable;
      return std::nullopt;
    }
    if (!unknown) {
      lost_since.reset();
      continue;
    }
    lost_since = lost_since.value_or(clock_type::now());
    if (clock_type::now() - *lost_since >= what.patience) {
      code = answer ? tell(what, *answer) : tell_lost(id, answer.error());
      return std::nullopt;
    }
    std::this_thread::sleep_for(500ms);
  }
}

int wait(const invocation& what) {
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
  if (what.json)
    print_jobs(what, jobs);
  else
    for (const auto& job : jobs)
      std::cout << job_summary(job) << '\n';
  return flushed(code);
}

int cancel(const invocation& what) {
  if (what.ids.empty())
    return cancel_matching(what);
  node_client node{what.where};
  auto jobs = json::array();
  int code = exit_codes::success;
  for (auto id : what.ids)
    if (auto job = get_or_tell(what, node, "POST", job_target(id) + "/cancel", code))
      jobs.push_back(*std::move(job));
  if (what.json)
    print_jobs(what, jobs);
  else
    for (const auto& job : jobs)
      std::cout << job_summary(job) << '\n';
  return flushed(code);
}

// -- list
// ----------------------------------------------------------------------------------------------------------------

std::string list_target(const list_flags& flags, std::int64_t limit, const std::string& cursor) {
  auto target = "/v1/jobs?limit=" + std::to_string(limit);
  std::string states;
  for (const auto& state : flags.states)
    states += (states.empty() ? "" : ",") + state;
  const std::pair<const char*, const std::string*> parameters[] = {
    {"state", &states},      {"project", &flags.project}, {"queue", &flags.queue}, {"name", &flags.name},
    {"label", &flags.label}, {"group", &flags.group},     {"cursor", &cursor}};
  for (const auto& [name, value] : parameters)
    if (!value->empty())
      target += '&' + std::string{name} + '=' + http::percent_encoded(*value);
  return target;
}

int list(const invocation& what) {
  constexpr std::int64_t page_size = 200;
  node_client node{what.where};
  int code = exit_codes::success;
  auto items = json::array();
  json cursor;
  do {
    auto wanted = std::min(page_size, what.list.limit - static_cast<std::int64_t>(items.size()));
    auto page = get_or_tell(what, node, "GET",
                            list_target(what.list, wanted, cursor.is_string() ? cursor.get<std::string>() : ""), code);
    if (!page)
      return code;
    auto got = page->value("items", json::array());
    items.insert(items.end(), got.begin(), got.end());
    cursor = page->value("next_cursor", json{});
  } while (cursor.is_string() && static_cast<std::int64_t>(items.size()) < what.list.limit);
  if (what.json) {
    std::cout << dumped({{"items", items}, {"next_cursor", cursor}});
    return flushed(code);
  }
  std::cout << jobs_text(items, look_of(STDOUT_FILENO));
  if (cursor.is_string() && !what.quiet)
    std::cerr << "there are more; --limit shows more than " << what.list.limit << '\n';
  return flushed(code);
}

// -- node
// ----------------------------------------------------------------------------------------------------------------

int node_status(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  auto about = get_or_tell(what, node, "GET", "/v1/node", code);
  if (!about)
    return code;
  if (auto stats = get_or_tell(what, node, "GET", "/v1/stats", code))
    (*about)["stats"] = *std::move(stats);
  if (auto workers = get_or_tell(what, node, "GET", "/v1/workers", code))
    (*about)["workers"] = workers->value("items", json::array());
  std::cout << (what.json ? dumped(*about) : node_text(*about, look_of(STDOUT_FILENO)));
  return flushed(code);
}

int node_drain(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  auto answer = get_or_tell(what, node, "POST", "/v1/node/drain", code);
  if (!answer)
    return code;
  std::cout << (what.json ? dumped(*answer)
                          : "the node drains: it takes no new jobs and stops when the running ones ended\n");
  return flushed(code);
}

} // namespace

int carry_out(const invocation& what) {
  switch (what.what) {
  case verb::run: return run(what);
  case verb::submit: return submit(what);
  case verb::status: return status(what);
  case verb::logs: return logs(what);
  case verb::wait: return wait(what);
  case verb::cancel: return cancel(what);
  case verb::list: return list(what);
  case verb::node_status: return node_status(what);
  case verb::node_drain: return node_drain(what);
  case verb::retry: return retry_jobs(what);
  case verb::remove: return remove_jobs(what);
  case verb::why: return explain(what);
  case verb::change: return change(what);
  case verb::dead_letters_list: return list_dead_letters(what);
  case verb::dead_letters_requeue:
  case verb::dead_letters_discard: return requeue_or_discard(what);
  case verb::queues: return list_queues(what);
  case verb::pause:
  case verb::resume: return pause_or_resume(what);
  case verb::cordon:
  case verb::uncordon: return cordon_or_uncordon(what);
  case verb::node_slots: return change_slots(what);
  case verb::completion:
    std::cout << completion_script(what.shell, command_summaries());
    return flushed(exit_codes::success);
  }
  return exit_codes::usage;
}

} // namespace kcx::cli
