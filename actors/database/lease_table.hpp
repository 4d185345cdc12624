/// The leases of workers elsewhere, in the memory of the database actor. A plain class: no actor, no clock, one thread.
///
/// Times are those of the boot-time clock (boot_time_now()), which no setting of the wall clock moves and which goes on
/// while the machine sleeps. Nothing here is stored but what a claim writes: after a restart every lease begins anew.
#pragma once

#include "storage/job_store.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kcx {

class lease_table {
public:
  using time = std::chrono::nanoseconds;

  struct lease {
    leased_attempt held;
    time began{0};
    time ends{0};
    /// From a time before this process: `began` says nothing about how long the job has run.
    bool inherited = false;
  };

  /// The lease begins now. Replaces an earlier one of the job.
  void add(leased_attempt held, time now, bool inherited = false);

  /// The attempt that held the job by a lease, if one did.
  std::optional<attempt_key> remove(job_id job);

  /// The lease of this attempt and nonce; null if it does not hold (any more). Good until the next change.
  [[nodiscard]] lease* find(attempt_key key, std::uint64_t nonce);
  [[nodiscard]] const lease* find(attempt_key key) const;

  /// The lease begins anew.
  void renew(lease& which, time now);

  /// At most `limit` of those that have run out, the longest ended first. The cost does not depend on how many have
  /// not.
  [[nodiscard]] std::vector<attempt_key> expired(time now, std::size_t limit) const;

  /// When the next one runs out.
  [[nodiscard]] std::optional<time> next_end() const;

  [[nodiscard]] std::size_t size() const noexcept { return leases_.size(); }
  [[nodiscard]] std::vector<leased_attempt> all() const;

private:
  std::unordered_map<std::int64_t, lease> leases_;
  std::set<std::pair<time, std::int64_t>> ends_;
};

} // namespace kcx
