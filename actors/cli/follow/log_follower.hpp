/// Copies the log of a job to the screen in a thread of its own, attempt after attempt. The owner polls the job and
/// tells what it sees; the follower reconnects by offset, so that no byte is missing and none comes twice.
#pragma once

#include "actors/cli/follow/follow.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace kcx::cli {

class log_follower {
public:
  /// Starts the thread, which begins with attempt `first`. `out` must live until the thread ended or was abandoned.
  log_follower(const node_location& where, const follow_options& options, std::int32_t first, screen& out);
  /// Waits for the thread; call abandon() first unless finished().
  ~log_follower();
  log_follower(const log_follower&) = delete;
  log_follower& operator=(const log_follower&) = delete;

  /// What the job looks like now.
  void observe(std::int32_t attempt, bool held, bool final);

  /// Waits at most `limit` for the end of the thread's work.
  bool wait_finished(std::chrono::milliseconds limit);
  /// Bytes written so far.
  [[nodiscard]] std::uint64_t written();
  /// The node wants to be left alone before it is asked for more.
  [[nodiscard]] bool waits();
  /// Everything there was has been written. Meaningful once finished.
  [[nodiscard]] bool complete();
  /// What the node said if it refused the log; the thread has nothing more to do then.
  [[nodiscard]] std::optional<reply> refusal();

  /// Lets go of the thread, which may be blocked in a read that nothing ends. It writes nothing more.
  void abandon();

private:
  struct shared_state;
  static void run(const std::shared_ptr<shared_state>& state, node_location where, std::int32_t first);

  std::shared_ptr<shared_state> state_;
  std::thread thread_;
};

} // namespace kcx::cli
