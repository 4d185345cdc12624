/// The DATABASE actor: owns the only connection that writes. See database_actor in interfaces.hpp.
///
/// Group commit by mailbox: each write runs inside the open transaction, its answer is kept, and the first write of a
/// batch sends the actor a flush. Whatever stands in the mailbox before that flush is committed with it, in one fsync;
/// answers and notices go out only after. With one client this costs nothing, with many it shares the fsync.
///
/// Nobody waits for what only describes a running attempt (its start, its steps), and its log tells as much after a
/// crash: these writes join the next commit instead of making one, and wait for it no longer than
/// database_options::patience.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/database/commit_batch.hpp"
#include "actors/database/lease_table.hpp"
#include "actors/interfaces.hpp"
#include "storage/job_store.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

struct database_options {
  /// Tells the time; tests pass their own.
  std::function<timestamp()> clock = wall_clock_now;
  /// Measures leases; see lease_table.
  std::function<std::chrono::nanoseconds()> boot_clock = boot_time_now;
  /// What a vanished worker left of a log.
  log_lookup log_of;
  /// Hides the values of secrets in a text; the worker that wrote it may know them.
  std::function<std::string(const std::vector<std::string>& secrets, std::string_view text)> mask =
    [](const std::vector<std::string>&, std::string_view text) { return std::string{text}; };
  /// Asked before a submission or a claim is stored; its error is the answer.
  std::function<outcome(std::int64_t owed)> admit = [](std::int64_t) { return outcome{kcx::done{}}; };
  /// Told before a commit how many bytes it may need, and once more with `refused` when it met a full disk. Whether it
  /// made room: out of a reserve, which is for what is always admitted.
  std::function<bool(std::int64_t needed, bool refused)> make_room = [](std::int64_t, bool) { return false; };
  /// How long the start of an attempt and its steps wait for a commit that others need, at the most.
  std::chrono::milliseconds patience{20};
  /// Operations per commit at the most.
  std::size_t batch_limit = 512;
  /// Operations, or changes of jobs if these are more, between two checkpoints of the write-ahead log; a commit counts
  /// for 16 at least. So the log stays within some MiB: one that is written over is synced at half the cost of one that
  /// grows.
  std::size_t checkpoint_every = 1'024;
};

/// Blocks on the disk: spawn detached. Closes the store when it ends, whatever ended it; every promise that is open
/// then is answered outcome_unknown.
class database : public actor_base<database_actor> {
public:
  database(caf::actor_config& cfg, std::unique_ptr<job_store> store, database_options options);

  behavior_type make_behavior() override;

private:
  // -- handlers
  // ----------------------------------------------------------------------------------------------------------
  /// Whether there is room for new work. Says it once when that changes.
  outcome admit();
  expected<accepted_jobs> enqueue(const submission& asked);
  /// The first answer to what comes again; else the refusal.
  expected<accepted_jobs> refused(const submission& asked, const error& why);
  expected<submission_results> enqueue_each(const submissions& asked);
  expected<job_grant> claim(const claim_request& request);
  /// A job that ended instead (job_grant::ended) is told of here, and not_ready.
  expected<job_grant> claim_stored(const claim_request& request, timestamp at);
  expected<transition_result> complete(const attempt_result& result);
  outcome abandon(const std::string& worker);
  expected<transition_result> cancel(job_id job, const std::string& who);
  expected<transition_result> update(job_id job, const job_patch& patch);
  expected<job_record> retry(const retry_request& wanted);
  expected<std::vector<bulk_result>> bulk(const bulk_request& wanted);
  bulk_result bulk_one(const bulk_request& wanted, job_id job);
  outcome pause(const std::string& queue, const std::string& who);
  outcome resume(const std::string& queue);
  expected<std::optional<timestamp>> promote();
  expected<std::int64_t> checkpoint();
  expected<ready_snapshot> subscribe(const ready_listener_actor& listener);
  expected<ready_snapshot> refill(const ready_job& last);
  void flush();
  void post_flush();
  /// Flushes in a while, if nothing does before.
  void post_late_flush();
  /// What follows from the operations of the batch joins it.
  outcome settle();
  actor_status status() const;

  // -- leases and offers (leases.cpp) ---------------------------------------------------------------------------------
  void load_leases();
  expected<exchange_result> exchange(const work_exchange& wanted);
  expected<transition_result> finish_leased(attempt_result result);
  void hide_secrets(attempt_result& result);
  caf::typed_response_promise<expected<std::vector<renewal>>> renew(const std::vector<lease_token>& tokens);
  expected<std::vector<renewal>> confirm(std::vector<renewal> answers, const std::vector<lease_token>& tokens);
  expected<job_grant> grant_of(const lease_token& token);
  void sweep(bool renewals_are_in);
  void expire(const std::vector<attempt_key>& gone);
  void plan_sweep();
  void offer(const work_offers& given);
  /// Claims new jobs for workers whose offers they fit.
  outcome hand_over(const accepted_jobs& accepted, timestamp at);
  [[nodiscard]] std::vector<work_offer>::iterator offer_for(const job_record& job);
  /// Leases and offers as the commit left them; answers which attempts are no longer leased.
  std::vector<attempt_key> settle_leases(const commit_batch& batch);

  // -- batch
  // -------------------------------------------------------------------------------------------------------------

  /// Runs `op` in the open transaction and promises its result for after the commit. So it does with an error that may
  /// rest on what is not committed yet; any other is answered at once.
  template <class Reply, class Op>
  caf::typed_response_promise<Reply> write(Op op);
  /// The same, but joins a commit that others need.
  template <class Reply, class Op>
  caf::typed_response_promise<Reply> write_patiently(Op op);
  template <class Reply, class Op>
  caf::typed_response_promise<Reply> run(Op op);
  /// Logs what went wrong; damage of the file but once.
  void complain(const std::string& what, const error& failure);
  /// Deals with a transaction that the engine rolled back under a failed operation.
  void check_transaction(const error& failure);
  void fail_batch(const error& failure);
  /// Makes room for the commit of the batch at hand on a full disk.
  void make_room(bool refused);
  void publish(const commit_batch& batch);
  void publish_changes(const commit_batch& batch);
  void publish_ready(const commit_batch& batch, std::vector<attempt_key> released);
  /// Reads anew which queues are paused.
  void look_at_paused();
  /// Now, but never before an earlier answer of this function: a clock step back must not reorder the queue.
  timestamp now();

  void on_stop() noexcept override;

  std::unique_ptr<job_store> store_;
  database_options options_;
  commit_batch batch_;
  bool flush_pending_ = false;
  bool late_flush_pending_ = false;
  /// Something may follow from earlier transactions: from those of an earlier life, to begin with.
  bool unsettled_ = true;
  timestamp latest_{};
  std::uint64_t notice_number_ = 0;
  ready_listener_actor ready_listener_;
  /// Held jobs that are to end, with their attempt: told again to a new listener, whose predecessor may have lost it.
  std::map<job_id, std::int32_t> cancelling_;
  /// As committed: their jobs are told to nobody as ready.
  std::set<std::string> paused_;
  std::vector<change_listener_actor> change_listeners_;

  lease_table leases_;
  /// When the next sweep is due, by the boot-time clock.
  std::optional<std::chrono::nanoseconds> sweep_at_;
  /// The second half of a sweep stands in the mailbox.
  bool sweep_posted_ = false;
  std::vector<work_offer> offers_;
  std::int64_t offered_slots_ = 0;
  /// The last notice that told of ready or handed jobs: offers made before it was heard are void.
  std::uint64_t offers_void_until_ = 0;

  // Figures for status().
  std::uint64_t commits_ = 0;
  std::uint64_t failed_commits_ = 0;
  /// Since when nothing can be written any more: why.
  std::string damage_;
  bool disk_full_ = false;
  std::uint64_t operations_ = 0;
  std::uint64_t handed_over_ = 0;
  std::uint64_t expired_leases_ = 0;
  std::uint64_t since_checkpoint_ = 0;
  std::size_t largest_batch_ = 0;
  std::chrono::nanoseconds commit_time_{0};
  std::chrono::nanoseconds longest_commit_{0};
  std::int64_t wal_bytes_ = 0;
};

template <class Reply, class Op>
caf::typed_response_promise<Reply> database::write(Op op) {
  post_flush();
  return run<Reply>(std::move(op));
}

template <class Reply, class Op>
caf::typed_response_promise<Reply> database::write_patiently(Op op) {
  post_late_flush();
  return run<Reply>(std::move(op));
}

template <class Reply, class Op>
caf::typed_response_promise<Reply> database::run(Op op) {
  auto promise = make_response_promise<Reply>();
  auto result = std::make_shared<Reply>(op());
  if (!*result) {
    check_transaction(result->error());
    if (batch_.empty()) {
      promise.deliver(std::move(*result));
      return promise;
    }
  }
  batch_.add([promise, result](const error* failure) mutable {
    promise.deliver(failure == nullptr ? std::move(*result) : Reply{*failure});
  });
  if (batch_.size() >= options_.batch_limit)
    flush();
  return promise;
}

} // namespace kcx
