/// The ready jobs in memory, in the order in which they are handed out. A plain class: no actor, no clock, one thread.
///
/// It is a hint about the database, which decides at each claim. Used by the dispatcher.
///
/// Order. Between projects: whoever holds the fewest slots comes first; among equals, whoever was served longest ago
/// (start-time fair queueing, so that it works with a single slot too); then the older job. Inside a project: by
/// order_key, then id. So a project that has nothing running waits for at most one start of every other project,
/// however many jobs those have.
///
/// Bound. At most `window` jobs are kept. Beyond it, the last job of the project with the most jobs is dropped, so that
/// no project is hidden behind another's million; what was dropped is read again from the database, from
/// resume_point() on, once needs_refill() says so.
#pragma once

#include "storage/job.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace kcx {

/// Where a ready job stands: lower runs first.
struct ready_position {
  std::int64_t order_key = 0;
  job_id id;
  auto operator<=>(const ready_position&) const = default;
};

class ready_index {
public:
  /// `window` is at least 2.
  explicit ready_index(std::size_t window = 50'000);

  ready_index(const ready_index&) = delete;
  ready_index& operator=(const ready_index&) = delete;

  // -- what is ready -------------------------------------------------------------------------------------------------

  /// Forgets all jobs (not what projects hold) and starts with these. `more`: others follow behind the last of them.
  void reset(std::span<const ready_job> jobs, bool more);

  /// Adds what the database has behind resume_point(); jobs already known are ignored. `more` as in reset().
  void refill(std::span<const ready_job> jobs, bool more);

  /// A job became ready; one already known is ignored.
  void add(const ready_job& job);

  /// A job is no longer ready. An unknown one is ignored: false.
  bool remove(job_id id);

  /// No job of the queue is ready any longer.
  void remove_queue(const std::string& queue);

  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }
  [[nodiscard]] bool contains(job_id id) const noexcept { return jobs_.contains(id.value); }

  // -- handing out ---------------------------------------------------------------------------------------------------

  /// Takes out the next job for a worker that has these labels (sorted, each once); its project is then held to have
  /// the job's weight more. Nothing if no job fits, or if the next one is heavier than `free` (a heavy job must not be
  /// overtaken for ever, so free slots are kept for it). The cost grows with the number of different label sets that
  /// wait, and with the logarithm of everything else.
  std::optional<ready_job> take(const std::vector<std::string>& labels, std::int64_t free = INT64_MAX);

  /// Weights count as no more than this: a job heavier than everything there is runs alone.
  void limit_weight(std::int64_t capacity) { capacity_ = capacity; }
  [[nodiscard]] std::int64_t limited(std::int32_t weight) const noexcept {
    return std::min<std::int64_t>(weight, capacity_);
  }

  /// The job that take() kept free slots for last time, if it did.
  [[nodiscard]] std::optional<job_id> reserved_for() const noexcept { return reserved_for_; }

  /// As add() got it, for a known job.
  [[nodiscard]] std::optional<ready_job> find(job_id id) const;

  /// How many jobs take() would give up to and with this one, if no job ended and none came, to workers of which at
  /// least one `fits` the labels. Nothing beyond `most`, or if it is unknown or fits nobody.
  [[nodiscard]] std::optional<std::int64_t>
  position(job_id id, std::int64_t most, const std::function<bool(const std::vector<std::string>&)>& fits) const;

  /// A job of this project, found running rather than taken here, holds `weight` slots.
  void hold(const std::string& project, std::int32_t weight);

  /// A job taken or held has ended, or its claim failed.
  void release(const std::string& project, std::int32_t weight);

  // -- what lies beyond the window -----------------------------------------------------------------------------------

  /// Some ready jobs behind resume_point() may be unknown here.
  [[nodiscard]] bool truncated() const noexcept { return complete_to_.has_value(); }
  /// Truncated, and less than half full.
  [[nodiscard]] bool needs_refill() const noexcept { return truncated() && jobs_.size() < window_ / 2; }
  /// How many jobs a refill may bring without pushing others out.
  [[nodiscard]] std::size_t refill_limit() const noexcept { return window_ - window_ / 2; }
  /// Every ready job up to here is known. Call only when truncated.
  [[nodiscard]] ready_position resume_point() const { return complete_to_.value(); }

private:
  struct project;
  struct lane;

  /// A project's first job in a lane, in the order of handing out. Ordered by value only, so runs are repeatable.
  struct head {
    std::int64_t held = 0;
    std::int64_t tag = 0;
    ready_position first;
    project* owner = nullptr;
    bool operator<(const head& other) const noexcept;
  };

  /// What jobs of one queue and one set of labels have in common.
  struct lane {
    std::string queue;
    std::vector<std::string> labels;
    std::set<head> heads;
  };

  struct project {
    std::string name;
    /// Slots its jobs hold now.
    std::int64_t held = 0;
    /// Virtual time at which it is due again; see virtual_time_.
    std::int64_t tag = 0;
    std::size_t waiting = 0;
    std::map<lane*, std::set<ready_position>> lanes;
  };

  struct entry {
    ready_position at;
    std::int32_t weight = 1;
    project* owner = nullptr;
    lane* where = nullptr;
  };

  using lane_key = std::pair<std::string, std::vector<std::string>>;

  project& project_of(const std::string& name);
  lane& lane_of(const ready_job& job);
  [[nodiscard]] static head head_of(project& owner, const std::set<ready_position>& jobs);

  void insert(const ready_job& job);
  void erase(std::unordered_map<std::int64_t, entry>::iterator found);
  void evict_one();
  /// Takes the project's heads out of its lanes, changes it, and puts them back in their new place.
  template <class Change>
  void reorder(project& owner, Change change);
  void count_waiting(project& owner, std::size_t waiting);
  void forget_idle_projects();

  std::size_t window_;
  std::unordered_map<std::int64_t, entry> jobs_;
  std::map<std::string, project> projects_;
  std::map<lane_key, lane> lanes_;
  /// Projects by number of waiting jobs; the last one gives way when the window is full.
  std::set<std::pair<std::size_t, std::string>> sizes_;
  /// The tag of the latest start: a project that was idle joins here, with no credit for the time it had nothing to do.
  std::int64_t virtual_time_ = 0;
  std::optional<ready_position> complete_to_;
  std::int64_t capacity_ = INT64_MAX;
  std::optional<job_id> reserved_for_;
};

} // namespace kcx
