/// What one commit of the database actor owes: answers to those who asked, and notices to those who listen.
///
/// A plain class that knows no actor; nothing in it is sent before the commit succeeded.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/job_store.hpp"

#include <functional>
#include <string>
#include <vector>

namespace kcx {

class commit_batch {
public:
  /// Answers one asker: with the result of its operation if the pointer is null, else with the error.
  using settle = std::function<void(const error*)>;

  void add(settle answer) { answers_.push_back(std::move(answer)); }

  // -- what the operations did, in order
  // -------------------------------------------------------------------------------

  void inserted(const accepted_jobs& accepted, timestamp now);
  void claimed(const job_grant& grant, const claim_request& request, timestamp now);
  /// That claim was made with an offer.
  void handed(const job_grant& grant) { handed_.push_back(grant); }
  void moved(const transition_result& result);
  void updated(const transition_result& result);
  void promoted(const promotion& result);
  void paused(const std::string& queue);
  void resumed();
  void followed(const follow_up& result);

  [[nodiscard]] std::size_t size() const noexcept { return answers_.size(); }
  /// Nothing is owed to anybody.
  [[nodiscard]] bool empty() const noexcept { return answers_.empty() && changes_.empty(); }

  /// Answers everybody, with the error if there is one, in the order of asking.
  void settle_all(const error* failure) const;

  [[nodiscard]] const std::vector<ready_job>& ready() const noexcept { return ready_; }
  [[nodiscard]] const std::vector<job_id>& gone() const noexcept { return gone_; }
  [[nodiscard]] const std::vector<attempt_key>& cancelled() const noexcept { return cancelled_; }
  [[nodiscard]] const std::vector<job_grant>& handed() const noexcept { return handed_; }
  /// Claims that are held by leases.
  [[nodiscard]] const std::vector<leased_attempt>& leased() const noexcept { return leased_; }
  [[nodiscard]] const std::vector<std::string>& paused_queues() const noexcept { return paused_; }
  /// Of an unknown number of jobs.
  [[nodiscard]] bool more_ready() const noexcept { return resumed_; }
  /// Jobs became ready otherwise than by being submitted.
  [[nodiscard]] bool ready_again() const noexcept { return ready_again_ || resumed_; }
  /// Something that concerns the listener for ready jobs.
  [[nodiscard]] bool touches_ready() const noexcept {
    return resumed_ || !(ready_.empty() && gone_.empty() && cancelled_.empty() && paused_.empty() && handed_.empty());
  }
  [[nodiscard]] const std::vector<job_change>& changes() const noexcept { return changes_; }

private:
  std::vector<settle> answers_;
  std::vector<ready_job> ready_;
  std::vector<job_id> gone_;
  std::vector<attempt_key> cancelled_;
  std::vector<job_change> changes_;
  std::vector<std::string> paused_;
  std::vector<job_grant> handed_;
  std::vector<leased_attempt> leased_;
  bool resumed_ = false;
  bool ready_again_ = false;

  /// It is no longer ready: known to listeners as such, or never told to them.
  void gone(job_id job);
};

} // namespace kcx
