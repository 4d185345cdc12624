/// The list of this process's actors with their figures, readable from any thread at any time.
///
/// Filled by actor_base, read by the inspector. Because it holds atomic counters and asks nobody, it shows an actor
/// that is stuck in a handler as well as one that is idle.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kcx {

/// The figures of one actor. Written by senders (received) and by the actor (the rest), read by anyone.
struct actor_figures {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::string name;
  bool own_thread = false;
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> handled{0};
  std::atomic<std::int64_t> busy_ns{0};
  std::atomic<std::int64_t> longest_ns{0};
  /// Steady-clock nanoseconds at which the handler now running began; 0 while idle.
  std::atomic<std::int64_t> in_handler_since_ns{0};

  /// Messages received and not yet handled.
  [[nodiscard]] std::uint64_t mailbox() const noexcept;
};

/// Process-wide. All members may be called from any thread.
class actor_registry {
public:
  static actor_registry& instance();

  std::shared_ptr<actor_figures> add(std::uint64_t id, std::uint64_t parent, bool own_thread);
  /// `failed`: it ended with an error, so somebody must put another in its place.
  void remove(std::uint64_t id, bool failed);

  /// The living actors, in order of birth.
  [[nodiscard]] std::vector<std::shared_ptr<const actor_figures>> snapshot() const;
  /// How many actors of this name have ended with an error so far in this process.
  [[nodiscard]] std::uint64_t failures(const std::string& name) const;
  void set_name(actor_figures& figures, std::string name);

private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<actor_figures>> living_;
  std::map<std::string, std::uint64_t> failures_;
};

/// Measures one handler call: also when the handler throws.
class handler_timer {
public:
  explicit handler_timer(actor_figures& figures) noexcept;
  ~handler_timer();
  handler_timer(const handler_timer&) = delete;
  handler_timer& operator=(const handler_timer&) = delete;

private:
  actor_figures& figures_;
  std::int64_t began_;
};

} // namespace kcx
