/// The ROOT SUPERVISOR: parent of every actor of the node. See root_supervisor_actor in interfaces.hpp.
///
/// Children start in the order of `child`, each with the handles of those before it, and stop in reverse order. A child
/// that goes down is started anew by itself (one for one), and whoever depends on it gets the new handle (rewire). Too
/// many restarts within a window mean that restarting does not help: the supervisor ends with an error that says so,
/// and the node with it.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// The children, in the order they start.
enum class child : std::uint8_t {
  database,
  readers,
  log_hub,
  dispatcher,
  worker_supervisor,
  scheduler,
  webhook_sender,
  http_bridge,
  inspector,
};
inline constexpr std::size_t child_count = 9;
[[nodiscard]] std::string_view to_string(child which) noexcept;

/// The handles of the living children. A factory sees those that started before its own.
struct node_actors {
  root_supervisor_actor root;
  database_actor database;
  std::vector<reader_actor> readers;
  log_hub_actor log_hub;
  dispatcher_actor dispatcher;
  worker_supervisor_actor worker_supervisor;
  scheduler_actor scheduler;
  webhook_sender_actor webhook_sender;
  http_bridge_actor http_bridge;
  inspector_actor inspector;
};

/// How each child is made. `parent` must be used to spawn it, so that the actor tree is right. Only the first two may
/// fail: they open files.
struct child_factories {
  std::function<expected<database_actor>(caf::local_actor& parent)> database;
  std::function<expected<reader_actor>(caf::local_actor& parent)> reader;
  std::size_t readers = 2;
  std::function<log_hub_actor(caf::local_actor& parent)> log_hub;
  std::function<dispatcher_actor(caf::local_actor& parent, const node_actors& others)> dispatcher;
  std::function<worker_supervisor_actor(caf::local_actor& parent, const node_actors& others)> worker_supervisor;
  std::function<scheduler_actor(caf::local_actor& parent, const node_actors& others)> scheduler;
  std::function<webhook_sender_actor(caf::local_actor& parent, const node_actors& others)> webhook_sender;
  std::function<http_bridge_actor(caf::local_actor& parent, const node_actors& others)> http_bridge;
  std::function<inspector_actor(caf::local_actor& parent, const node_actors& others)> inspector;
};

struct root_options {
  child_factories factories;
  /// More than `restart_limit` restarts within `restart_window` end the node.
  std::size_t restart_limit = 5;
  std::chrono::milliseconds restart_window{60'000};
  /// How long a child that could not be started (the disk is full, say) is left alone before the next try.
  std::chrono::milliseconds retry_delay{500};
  bool fault_injection = false;
  /// Called when all children run for the first time, and after each restart with the handles as they are then.
  std::function<void(const node_actors&)> wired;
  /// Called when a drain begins, whoever asked for it: its bound is the caller's business.
  std::function<void()> draining;
  /// Called in a stop when no job runs any more, before the remaining actors end: closes the listeners.
  std::function<void()> close_listeners;
  /// For the restart window; tests pass their own.
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Spawn detached: opening files blocks. Ends with an error if a child cannot be kept alive, normally after a stop.
class root_supervisor : public actor_base<root_supervisor_actor> {
public:
  root_supervisor(caf::actor_config& cfg, root_options options);

  behavior_type make_behavior() override;

private:
  enum class phase : std::uint8_t { running, stopping_workers, stopping_children };

  // -- handlers
  // ----------------------------------------------------------------------------------------------------------
  caf::typed_response_promise<outcome> stop(stop_mode mode);
  outcome inject_fault(const std::string& name, std::uint32_t index);
  void start_again(std::uint32_t which);
  void child_down(const caf::down_msg& down);
  actor_status status() const;

  // -- starting
  // ----------------------------------------------------------------------------------------------------------
  void start_all();
  /// Starts one child (for readers: the missing ones) or schedules another try.
  bool start(child which);
  /// Starts one of the children that open files.
  template <class Handle>
  bool take(expected<Handle> made, Handle& place, child which);
  /// Gives the new handle of a restarted child to those who depend on it.
  void rewire(child which);
  /// Tells those who take or hand out jobs, or say whether the node does.
  void tell_draining();
  /// Has the database tell its changes to this child, or to all that listen if the child is the database.
  void subscribe(child which);
  template <class Handle>
  void adopt(Handle& place, Handle made, child which);
  /// Notes a restart; false if there were too many, and then the supervisor ends.
  bool allow_restart(child which, const caf::error& reason);

  // -- stopping
  // ----------------------------------------------------------------------------------------------------------
  void workers_stopped();
  /// Ends the last living child in the order of stopping; when none is left, answers the stop and quits.
  void stop_next();

  void on_stop() noexcept override;

  root_options options_;
  node_actors actors_;
  std::map<caf::actor_addr, child> living_;
  std::array<std::uint64_t, child_count> restarts_{};
  std::deque<std::chrono::steady_clock::time_point> recent_restarts_;
  phase phase_ = phase::running;
  std::vector<caf::typed_response_promise<outcome>> stop_promises_;
};

} // namespace kcx
