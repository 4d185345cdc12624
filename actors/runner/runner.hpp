/// The runner process: the leader of one worker slot. It runs job after job and owns every process of theirs.
///
/// One thread, one poll. It is a child subreaper, so that no process of a job can leave its tree, and it ends that tree
/// and itself when the node goes away, however that happens. Started by process_io only.
#pragma once

#include "actors/runner/event_outbox.hpp"
#include "actors/runner/job_run.hpp"
#include "actors/runner/protocol.hpp"
#include "config/posix.hpp"

#include <memory>
#include <vector>

namespace kcx {

struct runner_settings {
  /// The socket to the node.
  int fd = 3;
  /// Process id of the node: a runner whose parent is another has lost its node already.
  pid_t node = 0;
  /// Grace period for a running job when the node is gone.
  milliseconds orphan_grace{2'000};
};

class runner {
public:
  explicit runner(const runner_settings& settings);

  /// Serves the node until it says quit, closes the socket or dies. Returns the exit code of the process: 0, or 1 if
  /// the system refuses what a runner needs (said on standard error).
  int run();

private:
  bool prepare();
  void wait();
  void read_signals();
  void read_commands();
  void obey(const runner_command& command);
  void start(start_command command);
  void emit(const runner_event& event);
  /// Whether there is more to send than the socket takes.
  bool write_events();
  /// `why` is for the log of the job.
  void leave(const char* why);
  /// Why a signal of this sender ends the job, for its log.
  [[nodiscard]] const char* cause_of(pid_t sender) const;
  [[nodiscard]] bool lost_node() const;
  [[nodiscard]] int timeout() const;

  runner_settings settings_;
  unique_fd socket_;
  unique_fd signals_;
  frame_splitter commands_;
  event_outbox outbox_;
  std::unique_ptr<job_run> job_;
  bool leaving_ = false;
  bool hung_up_ = false;
  std::vector<pollfd> polled_;
};

} // namespace kcx
