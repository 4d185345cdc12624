/// The queue as simply as it can be said: a list of jobs in memory, searched from end to end. The model test compares
/// it with a real store, operation by operation. It shares no code with the stores but the types.
#pragma once

#include "storage/job_store.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kcx::test {

struct model_job {
  job_spec spec;
  job_state state = job_state::queued;
  job_reason reason = job_reason::none;
  std::int32_t attempt = 0;
  std::int32_t uncounted = 0;
  std::int32_t interrupts = 0;
  std::string worker;
  bool leased = false;
  /// The latest attempt's start was confirmed; any attempt's was.
  bool started = false;
  bool ever_started = false;
  bool key_given = false;
  bool dead_letter = false;
  std::int64_t order_key = 0;
  std::optional<timestamp> run_at;
  std::optional<timestamp> wait_until;
  std::optional<job_id> retry_of;
  /// Needs that are not known to have ended.
  std::vector<job_need> open_needs;
  /// How its attempts ended, for repeats.
  std::map<std::int32_t, attempt_result> ended;
};

class queue_model {
public:
  static constexpr std::chrono::milliseconds step{60'000};

  std::map<std::int64_t, model_job> jobs;
  std::int64_t last_id = 0;
  /// The end of jobs that somebody may still have to hear of, removed ones included.
  std::map<std::int64_t, job_state> ends;
  std::set<std::string> paused;

  /// The same as the store's operations; an ec where they fail.
  expected<std::vector<std::int64_t>> submit(const std::vector<job_spec>& specs, timestamp now);
  expected<std::int32_t> claim(std::int64_t id, const std::string& worker, bool leased, timestamp now);
  ec confirm(attempt_key key);
  /// Where the store says when a retry begins, it is told here.
  ec finish(const attempt_result& result, timestamp now, std::optional<timestamp> retry_at);
  ec cancel(std::int64_t id);
  ec update(std::int64_t id, const job_patch& patch, timestamp now);
  expected<std::int64_t> retry(std::int64_t id, timestamp now);
  ec remove(std::int64_t id);
  void promote(timestamp now);
  /// Everything that follows from jobs that ended.
  void settle(timestamp now);
  /// What the node's own workers hold, or one of them.
  [[nodiscard]] std::vector<attempt_key> held(const std::optional<std::string>& worker) const;
  /// Ids in dispatch order.
  [[nodiscard]] std::vector<std::int64_t> ready() const;
  /// The jobs that groups have room for beside those that are ready, by id.
  [[nodiscard]] std::vector<std::int64_t> followers() const;
  [[nodiscard]] bool is_ready(std::int64_t id) const;
  [[nodiscard]] ec missing(std::int64_t id) const { return id >= 1 && id <= last_id ? ec::gone : ec::not_found; }

private:
  std::int64_t insert(const job_spec& spec, timestamp now, bool blocked);
  [[nodiscard]] std::optional<std::int64_t> holder_of(const std::string& key) const;
  [[nodiscard]] std::vector<job_need> predecessors(const job_spec& spec) const;
  void end(std::int64_t id, job_state state, job_reason reason);
  void open(model_job& job, timestamp now);
  void block(std::int64_t id, std::vector<job_need> needs, timestamp now);
  void supersede(std::int64_t id);
  /// Whether a job needs another one, by whatever way.
  [[nodiscard]] bool reaches(std::int64_t from, std::int64_t to) const;
  [[nodiscard]] static std::int64_t key_of(timestamp ready, std::int32_t priority) {
    return ready.time_since_epoch().count() - priority * step.count();
  }
};

} // namespace kcx::test
