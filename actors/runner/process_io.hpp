/// Starts runners and hears from them: one permanent thread that every child process of the node comes from.
///
/// One thread, because the death signal that ties a runner to the node fires when the *thread* that started it ends,
/// and permanent for the same reason: destroy this object last. Knows no actor.
#pragma once

#include "actors/runner/runner_process.hpp"
#include "config/error.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

namespace kcx {

struct runner_options {
  /// The kcx-runner program.
  std::string path;
  /// Its complete environment, see runner_environment().
  std::map<std::string, std::string> env;
  /// Grace period for a running job if the node dies.
  milliseconds orphan_grace{2'000};
};

class process_io {
public:
  /// Starts the thread, and makes this process a child subreaper: what a killed runner leaves behind becomes a child of
  /// the node. Nothing else in the process may wait for children. At most one per process.
  process_io();

  /// stop() with 5 s.
  ~process_io();
  process_io(const process_io&) = delete;
  process_io& operator=(const process_io&) = delete;

  /// Starts a runner. From any thread, except while stop() runs; waits for the start, about a millisecond. Fails with
  /// ec::system_failed and the system's words; then the listener is never called.
  [[nodiscard]] expected<std::shared_ptr<runner_process>> launch(const runner_options& options,
                                                                 runner_listener listener);

  /// Kills every child of this process that is no runner of ours, with all below it: the leavings of runners that were
  /// killed. Repeats until none is left, then calls `on_done` on the thread of process_io, or drops it if stop() comes
  /// first. From any thread. Processes of living runners are not touched. Where others are made so fast that no look
  /// can prove it (see hunt()), a second in which nobody was met has to do.
  void sweep_orphans(std::function<void()> on_done);

  /// Hangs up on every runner, waits up to `patience` for them to end their trees and exit, kills what is left with all
  /// orphans, and joins the thread. No listener is called after it. Calling it again does nothing.
  void stop(milliseconds patience);

private:
  [[nodiscard]] expected<std::shared_ptr<runner_process>> launch_here(const runner_options& options,
                                                                      runner_listener listener);
  [[nodiscard]] std::vector<pid_t> runner_pids() const;
  void sweep_round();
  void reap_strays();

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer sweep_timer_;
  boost::asio::steady_timer reap_timer_;
  std::vector<std::function<void()>> sweep_waiters_;
  bool sweeping_ = false;
  /// Rounds in a row that neither met anybody nor proved that nobody is there.
  int unsure_rounds_ = 0;
  std::map<pid_t, std::weak_ptr<runner_process>> runners_;
  bool stopping_ = false;
  std::function<void()> on_last_exit_;
  std::thread thread_;
};

} // namespace kcx
