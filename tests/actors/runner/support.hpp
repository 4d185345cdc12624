/// A runner on a leash: starts the real kcx-runner, hands it jobs and waits for what it says. Not for product code.
#pragma once

#include "actors/runner/process_io.hpp"
#include "tests/support/files.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kcx::test {

/// How long a test waits for anything before it fails.
inline constexpr std::chrono::seconds patience{20};

class slot {
public:
  slot();
  /// Beside other slots: a process has one process_io.
  explicit slot(std::shared_ptr<process_io> shared);
  ~slot();
  slot(const slot&) = delete;
  slot& operator=(const slot&) = delete;

  /// A job of one shell line, with its own id, log and workspace; change what the test is about.
  [[nodiscard]] start_command job(const std::string& line);
  /// The same with steps of one shell line each.
  [[nodiscard]] start_command steps(const std::vector<std::string>& lines);

  /// Starts it and waits until its first process runs.
  void start(const start_command& job);
  /// Starts it and waits for its end.
  finished_event run(const start_command& job);

  void cancel(const start_command& job, cancel_cause cause = cancel_cause::cancelled);
  void send(const runner_command& command);

  /// Waits for the next event of a kind; throws std::runtime_error when patience ends.
  finished_event finished();
  step_event step_changed();
  /// Waits until the log of the job holds this text; throws std::runtime_error when patience ends.
  void wait_for_log(const start_command& job, const std::string& text);
  runner_exit exited();

  /// What a reader of the log sees.
  [[nodiscard]] std::string log(const start_command& job) const;

  /// The part of the log that the job itself wrote (no notices).
  [[nodiscard]] std::string output(const start_command& job) const;

  std::shared_ptr<process_io> shared_io;
  process_io& io;
  std::shared_ptr<runner_process> runner;
  temp_dir data;
  /// Marks every process of this slot.
  std::string node_id;

private:
  template <class Event>
  Event take();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<runner_event> events_;
  std::optional<runner_exit> exit_;
  std::int64_t next_job_ = 1;
};

/// Processes (zombies left out) whose environment holds this entry, the test itself left out.
[[nodiscard]] std::vector<pid_t> marked(const std::string& entry);

/// Waits until no process has the entry; false when patience ends.
[[nodiscard]] bool all_gone(const std::string& entry);

} // namespace kcx::test
