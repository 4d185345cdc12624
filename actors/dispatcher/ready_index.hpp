/// The ready jobs in memory, in the order in which they are handed out. A plain class: no actor, no clock, one thread.
///
/// It is a hint about the database, which decides at each claim. Used by the dispatcher.
///
/// Order. Between projects: whoever holds the fewest slots comes first; among equals, whoever was served longest ago
/// (start-time fair queueing, so that it works with a single slot too); then the older job. Inside a project: by
/// order_key, then id. So a project that has nothing running waits for at most one start of every other project,
/// however many jobs those have.
///
/// Groups. Of each group the database tells the next job, and those that may run beside it, each `after` the one
/// before: such a job is handed out once that one has been.
///
/// Bound. Jobs of one project, one queue and one set of labels form a lane, as in the database. At most `lane_window`
/// of a lane and `window` in all are kept: beyond that the last job of the longest lane is dropped, so that nothing is
/// ever hidden behind another's million. What was dropped, or comes behind it, is read again from the database lane by
/// lane, as wants_refill() says. Lanes of which nothing is known, since there are more of them than places here or in a
/// snapshot, come with the next snapshot: see lanes_left_out().
#pragma once

#include "storage/job_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kcx {

/// Where a ready job stands: lower runs first.
struct ready_position {
  std::int64_t order_key = 0;
  job_id id;
  auto operator<=>(const ready_position&) const = default;
};

/// Who asks for a job.
struct job_taker {
  /// Sorted, each once.
  const std::vector<std::string>& labels;
  /// Slots it may fill.
  std::int64_t free = INT64_MAX;
  /// Sorted. None: any queue.
  const std::vector<std::string>* queues = nullptr;
  /// Weights count as no more than this. Without it, as no more than limit_weight() said.
  std::optional<std::int64_t> capacity{};
};

/// What jobs have in common that go to the same workers.
struct job_kind {
  std::string queue;
  /// Sorted, each once.
  std::vector<std::string> labels;
  auto operator<=>(const job_kind&) const = default;

  [[nodiscard]] bool fits(const job_taker& worker) const;
};

[[nodiscard]] inline bool any_fits(const std::vector<job_kind>& kinds, const job_taker& worker) {
  return std::ranges::any_of(kinds, [&](const auto& each) { return each.fits(worker); });
}

class ready_index {
public:
  /// `window` is at least 2, `lane_window` at least 1.
  explicit ready_index(std::size_t window = 50'000, std::size_t lane_window = 10'000);

  ready_index(const ready_index&) = delete;
  ready_index& operator=(const ready_index&) = delete;

  // -- what is ready -------------------------------------------------------------------------------------------------

  /// Forgets all jobs (not what projects hold) and starts with these.
  void reset(const ready_window& jobs);

  /// Adds what the database has in a lane behind `from`, as wants_refill() gave it; jobs already known are ignored.
  void refill(const ready_job& from, const ready_window& jobs);

  /// A job became ready. One that is known is ignored, and so is one behind what is known of its lane: it is read when
  /// its turn comes. One that comes after a known one waits until that is taken or removed.
  void add(const ready_job& job);

  /// A job is no longer ready. An unknown one is ignored: false.
  bool remove(job_id id);

  /// No job of the queue is ready any longer.
  void remove_queue(const std::string& queue);

  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }
  [[nodiscard]] bool contains(job_id id) const noexcept { return jobs_.contains(id.value); }

  // -- handing out ---------------------------------------------------------------------------------------------------

  /// Takes out the next job for this worker; its project is then held to have the job's weight more. Nothing if no job
  /// fits, or if the next one is heavier than what is free (a heavy job must not be overtaken for ever, so free slots
  /// are kept for it). The cost grows with the number of different queues and label sets that wait (for a worker that
  /// names its queues: with that of these, and of label sets in them), and with the logarithm of everything else.
  std::optional<ready_job> take(const job_taker& worker);
  std::optional<ready_job> take(const std::vector<std::string>& labels, std::int64_t free = INT64_MAX) {
    return take(job_taker{labels, free});
  }

  /// Weights count as no more than this: a job heavier than everything there is runs alone.
  void limit_weight(std::int64_t capacity) { capacity_ = capacity; }
  [[nodiscard]] std::int64_t limited(std::int32_t weight) const noexcept {
    return std::min<std::int64_t>(weight, capacity_);
  }

  /// The kinds of which a job became ready while there was none, since this was asked last, in that order. Whoever got
  /// nothing from take(), and was not kept from a job either, gets nothing before one of these fits it.
  [[nodiscard]] std::vector<job_kind> take_news() { return std::exchange(news_, {}); }
  [[nodiscard]] bool has_news() const noexcept { return !news_.empty(); }

  /// Kinds that take() has looked at so far.
  [[nodiscard]] std::uint64_t looked_at() const noexcept { return looked_at_; }
  /// What take() has cost so far: kinds looked at, and lanes of projects put in their new place.
  [[nodiscard]] std::uint64_t steps() const noexcept { return looked_at_ + replaced_; }

  /// The job for which the last take() gave nothing: next for that worker, and heavier than what it may fill.
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

  /// Some ready jobs are unknown here.
  [[nodiscard]] bool truncated() const noexcept { return cut_lanes_ > 0 || left_out_; }
  /// There may be lanes with ready jobs of which nothing is known: only another reset() brings them.
  [[nodiscard]] bool lanes_left_out() const noexcept { return left_out_; }
  /// Of what was known when lanes were left out, less than half is left.
  [[nodiscard]] bool runs_low() const noexcept { return left_out_ && jobs_.size() * 2 < known_beside_; }
  /// How many jobs of a lane are read at once.
  [[nodiscard]] std::size_t refill_limit() const noexcept { return std::max<std::size_t>(lane_window_ / 2, 1); }
  /// The last job up to which everything is known, of a lane that goes on behind it and has few known ones left, or
  /// none while lanes are left out.
  [[nodiscard]] std::optional<ready_job> wants_refill() const;

private:
  struct project;
  struct family;

  /// A project's first job in a family, in the order of handing out. Ordered by value only, so runs are repeatable.
  struct head {
    std::int64_t held = 0;
    std::int64_t tag = 0;
    ready_position first;
    project* owner = nullptr;
    bool operator<(const head& other) const noexcept;
  };

  /// The lanes of one queue and one set of labels, whatever their project.
  struct family {
    job_kind kind;
    std::set<head> heads;
    /// How many lanes belong to it, those without a known job included.
    std::size_t lanes = 0;
  };

  struct lane {
    /// Names it in sizes_ and hungry_, in order of making.
    std::uint64_t number = 0;
    project* owner = nullptr;
    family* where = nullptr;
    std::set<ready_position> jobs{};
    /// Where the database has more behind it: everything up to here is known.
    std::optional<ready_position> complete_to{};
  };

  struct project {
    std::string name;
    /// Slots its jobs hold now.
    std::int64_t held = 0;
    /// Virtual time at which it is due again; see virtual_time_.
    std::int64_t tag = 0;
    std::size_t waiting = 0;
    std::map<family*, lane> lanes;
  };

  struct entry {
    ready_position at;
    std::int32_t weight = 1;
    project* owner = nullptr;
    family* where = nullptr;
  };

  /// The first one in the order of handing out that fits the worker.
  [[nodiscard]] family* next_family(const job_taker& worker);
  project& project_of(const std::string& name);
  lane& lane_of(const ready_job& job);
  [[nodiscard]] lane* find_lane(const ready_job& job);
  [[nodiscard]] static head head_of(project& owner, const std::set<ready_position>& jobs);

  [[nodiscard]] bool is_known(job_id id) const { return contains(id) || follows_.contains(id.value); }
  void follow(const ready_job& job);
  /// What came after this one, which is not here any more, is ready.
  void let_follow(job_id id);
  /// Forgets all that comes after it.
  void drop_followers(job_id id);
  bool remove_follower(job_id id);
  /// A job became ready in a lane of which nothing is known, while lanes are left out.
  void discover(const ready_job& job);
  void leave_out();
  void insert(const ready_job& job);
  void erase(std::unordered_map<std::int64_t, entry>::iterator found);
  void drop_last(lane& from);
  void cut(lane& where, std::optional<ready_position> complete_to);
  /// Keeps sizes_ and hungry_ true when a lane had `before` jobs.
  void resized(lane& where, std::size_t before);
  void forget_if_empty(lane& where);
  /// Takes the project's heads out of its families, changes it, and puts them back in their new place.
  template <class Change>
  void reorder(project& owner, Change change);
  void forget_idle_projects();

  std::size_t window_;
  std::size_t lane_window_;
  std::unordered_map<std::int64_t, entry> jobs_;
  /// By the job that each comes after, and the other way round.
  std::unordered_map<std::int64_t, ready_job> followers_;
  std::unordered_map<std::int64_t, std::int64_t> follows_;
  std::map<std::string, project> projects_;
  std::map<job_kind, family> families_;
  std::vector<job_kind> news_;
  std::uint64_t looked_at_ = 0;
  std::uint64_t replaced_ = 0;
  std::size_t cut_lanes_ = 0;
  bool left_out_ = false;
  /// How many jobs were known when lanes were left out.
  std::size_t known_beside_ = 0;
  std::uint64_t last_lane_ = 0;
  std::size_t lanes_ = 0;
  /// Lanes by number of known jobs; the last one gives way when the window is full.
  std::map<std::pair<std::size_t, std::uint64_t>, lane*> sizes_;
  /// Cut lanes with few known jobs.
  std::map<std::uint64_t, lane*> hungry_;
  /// The tag of the latest start: a project that was idle joins here, with no credit for the time it had nothing to do.
  std::int64_t virtual_time_ = 0;
  std::int64_t capacity_ = INT64_MAX;
  std::optional<job_id> reserved_for_;
};

} // namespace kcx
