/// Runner processes as worker and worker supervisor see them: an interface, so that both can be tested without one.
/// Knows no actor and no Asio.
#pragma once

#include "actors/runner/protocol.hpp"
#include "config/error.hpp"

#include <functional>
#include <memory>

namespace kcx {

/// Hands a command to one runner; see runner_link::send().
using runner_sender = std::function<outcome(const runner_command&)>;

/// One runner process. All members may be called from any thread and never block.
class runner_link {
public:
  virtual ~runner_link() = default;

  /// Success means that the command is on its way. Fails with ec::invalid_input if it is too large to be sent; any
  /// other failure means that the runner is ending, which on_exit tells.
  virtual outcome send(const runner_command& command) = 0;
  /// Ends the runner with SIGKILL. What it led becomes an orphan; see runner_host::sweep().
  virtual void kill() noexcept = 0;
};

/// What happens to a runner; called from the process thread, except as noted.
struct runner_callbacks {
  std::function<void(runner_event)> on_event;
  /// Once: the process has ended and been reaped, or could not be started (then it may be called by launch() itself).
  /// Nothing is called after it.
  std::function<void()> on_exit;
};

class runner_host {
public:
  virtual ~runner_host() = default;

  /// Starts a runner and returns at once; it is usable when it has said ready_event.
  virtual std::shared_ptr<runner_link> launch(runner_callbacks callbacks) = 0;

  /// Ends every process that was started by a runner which is dead, or has been told to die by kill(); then calls
  /// `on_empty`, once, when none of them is left.
  virtual void sweep(std::function<void()> on_empty) = 0;
};

} // namespace kcx
