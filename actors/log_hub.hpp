/// The LOG HUB: tells followers that a log grew or ended. See log_hub_actor in interfaces.hpp.
///
/// It never carries bytes: followers read the log themselves, each at its own pace, so a slow one delays nobody. What
/// it knows is lost when it ends; followers then follow again.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>

namespace kcx {

struct log_hub_options {
  /// A follower is woken at most once within this time, however often its log grows; the last growth is never lost.
  std::chrono::milliseconds window{50};
};

class log_hub : public actor_base<log_hub_actor> {
public:
  explicit log_hub(caf::actor_config& cfg, log_hub_options options = {});

  behavior_type make_behavior() override;

private:
  /// Who follows the log of one attempt.
  struct topic {
    std::map<follower_id, follower_host_actor> followers;
    /// It grew since they were woken last.
    bool grown = false;
  };

  void follow(attempt_key key, follower_id follower, const follower_host_actor& host);
  void unfollow(attempt_key key, follower_id follower);
  void grew(attempt_key key);
  void hear(const job_changes& changes);
  void tick();
  void host_down(const caf::actor_addr& host);
  void wake(topic& which);
  actor_status status() const;

  void on_stop() noexcept override { topics_.clear(); }

  log_hub_options options_;
  std::map<attempt_key, topic> topics_;
  std::set<caf::actor_addr> hosts_;
  bool window_open_ = false;
  std::uint64_t wakes_ = 0;
};

} // namespace kcx
