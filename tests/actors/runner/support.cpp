#include "tests/actors/runner/support.hpp"

#include "actors/runner/job_environment.hpp"
#include "actors/runner/process_tree.hpp"
#include "actors/runner/workspace.hpp"
#include "storage/log_reader.hpp"

#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace kcx::test {

slot::slot() : slot{std::make_shared<process_io>()} {}

slot::slot(std::shared_ptr<process_io> shared)
  : shared_io{std::move(shared)}, io{*shared_io}, node_id{"test-" + std::to_string(::getpid())} {
  runner_options options;
  options.path = KCX_RUNNER_PROGRAM;
  options.env = runner_environment(node_id);
  options.orphan_grace = milliseconds{300};
  auto launched = io.launch(options, {[this](runner_event event) {
                                        const std::lock_guard lock{mutex_};
                                        events_.push_back(std::move(event));
                                        changed_.notify_all();
                                      },
                                      [this](runner_exit how) {
                                        const std::lock_guard lock{mutex_};
                                        exit_ = how;
                                        changed_.notify_all();
                                      }});
  if (!launched)
    throw std::runtime_error{launched.error().message};
  runner = *launched;
  take<ready_event>();
}

slot::~slot() {
  io.stop(milliseconds{5'000});
}

start_command slot::job(const std::string& line) {
  return steps({line});
}

start_command slot::steps(const std::vector<std::string>& lines) {
  start_command job;
  job.key = {{next_job_++}, 1};
  for (const auto& line : lines)
    job.steps.push_back({"step " + std::to_string(job.steps.size()), {"/bin/sh", "-c", line}, false, false, {}});
  job.workspace = workspace_path(data.path(), job.key.job.value, 1);
  job.log_file = log_path(data.path(), job.key.job.value, 1);
  job.env = job_environment({job.key, "a job", "default", "default", node_id, job.workspace, ""}, {});
  job.cancel_grace = milliseconds{500};
  return job;
}

void slot::send(const runner_command& command) {
  if (const auto sent = runner->send(command); !sent)
    throw std::runtime_error{sent.error().message};
}

void slot::start(const start_command& job) {
  send(job);
  take<started_event>();
}

finished_event slot::run(const start_command& job) {
  send(job);
  return finished();
}

void slot::cancel(const start_command& job, cancel_cause cause) {
  send(cancel_command{job.key, cause, {}});
}

step_event slot::step_changed() {
  return take<step_event>();
}

finished_event slot::finished() {
  return take<finished_event>();
}

template <class Event>
Event slot::take() {
  std::unique_lock lock{mutex_};
  std::optional<Event> found;
  const auto look = [&] {
    while (!found && !events_.empty()) {
      if (auto* event = std::get_if<Event>(&events_.front()))
        found = std::move(*event);
      events_.pop_front();
    }
    return found.has_value();
  };
  if (!changed_.wait_for(lock, patience, look))
    throw std::runtime_error{"an event did not come"};
  return *found;
}

void slot::wait_for_log(const start_command& job, const std::string& text) {
  const auto until = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock{mutex_};
  // Every growth is an event; the events stay queued for others.
  while (log(job).find(text) == std::string::npos)
    if (changed_.wait_until(lock, until) == std::cv_status::timeout)
      throw std::runtime_error{"the log does not get \"" + text + "\""};
}

runner_exit slot::exited() {
  std::unique_lock lock{mutex_};
  if (!changed_.wait_for(lock, patience, [&] { return exit_.has_value(); }))
    throw std::runtime_error{"the runner does not exit"};
  return *exit_;
}

std::string slot::log(const start_command& job) const {
  const auto reader = log_reader::open(job.log_file);
  if (!reader)
    return {};
  std::string text;
  for (std::uint64_t at = 0;;) {
    const auto chunk = reader->read(at, 1 << 20);
    if (!chunk || chunk->bytes.empty())
      return text;
    text += chunk->bytes;
    at = chunk->next;
  }
}

std::string slot::output(const start_command& job) const {
  const auto reader = log_reader::open(job.log_file);
  if (!reader)
    return {};
  std::string text;
  const auto records = reader->records(0, 1'000'000);
  if (records)
    for (const auto& item : *records)
      if (item.record.stream != log_stream::notice)
        if (const auto chunk = reader->read(item.record.offset, item.record.length))
          text += chunk->bytes;
  return text;
}

std::vector<pid_t> marked(const std::string& entry) {
  std::vector<pid_t> found;
  for (const auto& process : list_processes())
    if (process.pid != ::getpid() && is_alive(process) && has_environment_entry(process.pid, entry))
      found.push_back(process.pid);
  return found;
}

bool all_gone(const std::string& entry) {
  // The end of a process that is nobody's child here raises no event: it has to be looked for.
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!marked(entry).empty()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

} // namespace kcx::test
