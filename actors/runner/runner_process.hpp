/// The node's end of one runner: its process, its socket, and what it says.
///
/// Made by process_io::launch() only, and served by its thread.
#pragma once

#include "actors/runner/protocol.hpp"
#include "config/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace kcx {

/// How a runner process ended.
struct runner_exit {
  /// Set if it exited by itself; 0 is normal.
  std::optional<std::int32_t> exit_code;
  /// Set if a signal killed it: then processes of its job may be left, see process_io::sweep_orphans().
  std::optional<std::int32_t> signal;
};

/// Who hears from a runner. Both functions are called on the thread of process_io, never at the same time, and must not
/// block: an actor posts itself a message in them.
struct runner_listener {
  /// Each event, in order.
  std::function<void(runner_event)> on_event;
  /// Once, after the last event: the process has ended and is reaped.
  std::function<void(runner_exit)> on_exit;
};

/// Most bytes of commands that may wait for a runner to take them.
inline constexpr std::size_t max_unsent_bytes = 64U << 20;

class runner_process : public std::enable_shared_from_this<runner_process> {
public:
  ~runner_process();
  runner_process(const runner_process&) = delete;
  runner_process& operator=(const runner_process&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Sends a command. From any thread, does not block; commands arrive in the order of the calls of one thread. Success
  /// means queued: a runner that dies before reading it is told of by on_exit. Fails with ec::invalid_input if the
  /// command is too large, ec::storage_busy if too much waits already, ec::system_failed if the runner is gone.
  outcome send(const runner_command& command);

  /// Asks the runner to end its job's tree and exit (SIGTERM). From any thread; harmless if it is gone.
  void terminate() noexcept;

  /// Kills the runner alone (SIGKILL), for one that does not answer. Sweep orphans after its on_exit.
  void destroy() noexcept;

private:
  friend class process_io;
  using socket = boost::asio::local::stream_protocol::socket;

  runner_process(boost::asio::io_context& io, pid_t pid, int pidfd, socket channel, runner_listener listener,
                 std::function<void(pid_t)> forget);

  void begin();
  void read();
  void consume(std::size_t size);
  /// Writes as much as the socket takes at once; nothing if it is broken. Under the lock.
  std::size_t write_at_once(std::string_view frame);
  void write();
  void await_exit();
  void exited();
  /// It has exited, and no read is under way any more.
  void finish();
  void signal(int number) noexcept;
  /// The node wants nothing more of it: the runner sees the end of the stream and leaves.
  void hang_up();

  boost::asio::io_context& io_;
  const pid_t pid_;
  boost::asio::posix::stream_descriptor pidfd_;
  socket channel_;
  runner_listener listener_;
  std::function<void(pid_t)> forget_;
  std::array<char, 64 * 1024> buffer_{};
  frame_splitter frames_;
  bool reading_ = false;
  bool broken_ = false;
  std::optional<runner_exit> exit_;

  /// Guards what follows, and the socket against being closed while another thread writes.
  std::mutex outbox_;
  std::deque<std::string> unsent_;
  std::size_t unsent_bytes_ = 0;
  bool gone_ = false;
};

} // namespace kcx
