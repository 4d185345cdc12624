/// The SCHEDULER: everything that happens at a time. See scheduler_actor in interfaces.hpp.
///
/// It keeps nothing: what is due stands in the database. A lost wake-up costs at most the longest interval.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

namespace kcx {

struct scheduler_options {
  /// Tells the time; tests pass their own.
  std::function<timestamp()> clock = wall_clock_now;
  /// While a job waits for its time: the longest sleep, since the wall clock may be set meanwhile.
  std::chrono::milliseconds watch_interval{1'000};
  /// While none does: a safety net only.
  std::chrono::milliseconds idle_interval{10'000};
  /// Between two checkpoints of the write-ahead log; the database makes more of its own under load.
  std::chrono::milliseconds checkpoint_interval{30'000};
  std::chrono::milliseconds request_timeout{10'000};
  /// The answer alone tells whose files must go: whoever does not wait for it leaves them to the next start.
  std::chrono::milliseconds removal_timeout = std::chrono::hours{1};

  /// Which final jobs are kept. A state without a rule is kept for ever.
  retention_policy retention;
  /// Told of attempts that nobody holds any more, perhaps more than once. Must not block.
  std::function<void(attempt_key)> attempt_ended = [](attempt_key) {};
  /// Told of the jobs that retention removed: what they left on disk must go. Must not block.
  std::function<void(std::vector<removed_job>)> remove_files = [](const std::vector<removed_job>&) {};
  /// Between two looks for jobs to remove.
  std::chrono::milliseconds retention_interval{60'000};
  /// Between two rounds while there are some: others' writes come first.
  std::chrono::milliseconds retention_pause{20};
};

class scheduler : public actor_base<scheduler_actor> {
public:
  scheduler(caf::actor_config& cfg, database_actor database, scheduler_options options = {});

  behavior_type make_behavior() override;

private:
  void hear(const job_changes& changes);
  void promote();
  void promoted(const expected<std::optional<timestamp>>& answer);
  /// Makes sure that tick() runs once this time has passed.
  void wake_in(std::chrono::milliseconds span);
  void tick();
  void checkpoint();
  void retain(const retention_policy& policy);
  [[nodiscard]] std::chrono::milliseconds retention_interval() const;
  void remove_expired();
  void removed(const expected<std::vector<removed_job>>& answer);
  actor_status status() const;

  void on_stop() noexcept override { database_ = nullptr; }

  database_actor database_;
  scheduler_options options_;
  bool asking_ = false;
  /// Something changed while the question was open.
  bool ask_again_ = false;
  caf::actor_clock::time_point wake_at_ = caf::actor_clock::time_point::max();
  std::optional<timestamp> next_due_;
  std::int64_t wal_bytes_ = 0;
  std::uint64_t promotions_ = 0;
  std::uint64_t removed_ = 0;
};

} // namespace kcx
