/// The WEBHOOK SENDER: sends what stands in the outbox. See webhook_sender_actor in interfaces.hpp.
///
/// It keeps nothing: what is to be sent stands in the database, and goes from there only when a receiver has taken it
/// or the last try failed. A crash, of this actor or of the node, sends what was under way again. No job waits for it.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace kcx {

struct webhook_sender_options {
  /// Tells the time; tests pass their own.
  std::function<timestamp()> clock = wall_clock_now;
  /// Sends one without blocking; `done` is called once, on any thread, with what the receiver said.
  std::function<void(delivery what, std::function<void(delivery_try)> done)> send;
  /// After the first failure; doubled with each further one.
  std::chrono::milliseconds backoff{10'000};
  std::chrono::milliseconds longest_backoff = std::chrono::hours{1};
  /// About eight hours.
  std::int32_t tries = 16;
  /// At the same time, in all and to one receiver.
  std::size_t parallel = 8;
  std::size_t parallel_to_one = 4;
  /// Changes of jobs come in bursts: between two looks into the outbox.
  std::chrono::milliseconds look_pause{50};
  /// While nothing is due: a safety net, since the wall clock may be set meanwhile.
  std::chrono::milliseconds idle_interval{30'000};
  std::chrono::milliseconds request_timeout{10'000};
};

class webhook_sender : public actor_base<webhook_sender_actor> {
public:
  webhook_sender(caf::actor_config& cfg, database_actor database, std::vector<reader_actor> readers,
                 webhook_sender_options options);

  behavior_type make_behavior() override;

private:
  struct flight {
    std::string receiver;
    std::int32_t tries = 0;
  };

  void listen();
  void hear(const job_changes& changes);
  void look();
  void looked(const expected<due_deliveries>& due);
  void send_out(const delivery& what);
  void tried(delivery_try result);
  void noted(std::int64_t delivery, const outcome& stored);
  void wake_in(std::chrono::milliseconds span);
  [[nodiscard]] std::chrono::milliseconds pause_after(std::int32_t tries) const;
  actor_status status() const;

  void on_stop() noexcept override;

  database_actor database_;
  std::vector<reader_actor> readers_;
  webhook_sender_options options_;
  /// What is being sent, or is sent and not noted yet.
  std::map<std::int64_t, flight> flights_;
  /// What was noted since the look that is under way began: it may not show that.
  std::set<std::int64_t> noted_meanwhile_;
  std::size_t next_reader_ = 0;
  bool asking_ = false;
  bool ask_again_ = false;
  caf::actor_clock::time_point wake_at_ = caf::actor_clock::time_point::max();
  std::uint64_t delivered_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t given_up_ = 0;
};

} // namespace kcx
