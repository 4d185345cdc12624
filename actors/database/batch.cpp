// The part of the database actor that commits, and tells what the commit did.
#include "actors/database/database.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

/// Jobs moved on per commit for the sake of jobs they need: others' writes get in between.
constexpr std::size_t settle_round = 500;

/// What a commit may append to the write-ahead log: its index grows by 32 KiB at a time, and an operation touches some
/// pages of 4 KiB.
constexpr std::int64_t room_for_commit = 256 * 1024;
constexpr std::int64_t room_for_operation = 32 * 1024;

/// What a commit counts for at least until the next checkpoint: alone in it, an operation writes each page it touches.
constexpr std::size_t least_of_commit = 16;

std::string operations(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " operation" : " operations");
}

} // namespace

// -- committing -------------------------------------------------------------------------------------------------------

void database::flush() {
  if (batch_.empty() && !store_->in_transaction() && !unsettled_)
    return;
  if (auto settled = settle(); !settled)
    return fail_batch(settled.error());
  make_room(false);
  const auto began = std::chrono::steady_clock::now();
  if (store_->in_transaction()) {
    if (auto committed = store_->commit(); !committed) {
      ++failed_commits_;
      complain("a commit of " + operations(batch_.size()) + " failed", committed.error());
      return fail_batch(committed.error());
    }
    ++commits_;
  }
  const auto took = std::chrono::steady_clock::now() - began;
  commit_time_ += took;
  longest_commit_ = std::max<std::chrono::nanoseconds>(longest_commit_, took);
  operations_ += batch_.size();
  // An operation may be an array of thousands of jobs.
  since_checkpoint_ += std::max({batch_.size(), batch_.changes().size(), least_of_commit});
  largest_batch_ = std::max(largest_batch_, batch_.size());

  const auto batch = std::exchange(batch_, {});
  // First to the dispatcher: who has an answer may count on it that it knows of the job. Workers wait for the answers.
  publish(batch);
  batch.settle_all(nullptr);
  publish_changes(batch);
  if (since_checkpoint_ >= options_.checkpoint_every) {
    since_checkpoint_ = 0;
    // Through the mailbox, so that the answers that wait there for their commit are not held up first.
    caf::anon_send(database_actor{this}, checkpoint_atom_v);
  }
}

void database::post_flush() {
  if (!std::exchange(flush_pending_, true))
    caf::anon_send(database_actor{this}, flush_atom_v);
}

void database::post_late_flush() {
  if (flush_pending_ || std::exchange(late_flush_pending_, true))
    return;
  if (options_.patience.count() == 0)
    caf::anon_send(database_actor{this}, tick_atom_v);
  else
    delayed_send(this, options_.patience, tick_atom_v);
}

outcome database::settle() {
  // Also after a failure: the next write tries again.
  unsettled_ = true;
  auto settled = store_->settle(now(), settle_round);
  if (!settled) {
    ++failed_commits_;
    complain("what follows from " + operations(batch_.size()) + " failed", settled.error());
    return std::move(settled).error();
  }
  batch_.followed(*settled);
  unsettled_ = settled->more;
  if (unsettled_)
    post_flush();
  return kcx::done{};
}

void database::complain(const std::string& what, const error& failure) {
  if (failure.code != ec::storage_unusable)
    spdlog::error("database: {}: {}", what, failure.message);
  // From then on everything fails with it: once is enough.
  else if (std::exchange(damage_, failure.message).empty())
    spdlog::critical("database: {}", failure.message);
}

void database::check_transaction(const error& failure) {
  if (failure.code == ec::storage_unusable)
    complain("a write failed", failure);
  // A full disk (and a few other causes) makes SQLite roll the whole transaction back by itself. Whatever ran in it is
  // undone, though it had succeeded: those who asked must hear so, and no later operation may join a ghost.
  if (!store_->in_transaction() && !batch_.empty()) {
    ++failed_commits_;
    complain("a transaction of " + operations(batch_.size()) + " was rolled back", failure);
    fail_batch(failure);
  }
}

void database::make_room(bool refused) {
  const auto needed = room_for_commit + room_for_operation * static_cast<std::int64_t>(batch_.size());
  if (options_.make_room(needed, refused))
    spdlog::warn("database: the disk is full to the last: a part of the reserve was given up for {}",
                 operations(batch_.size()));
}

void database::fail_batch(const error& failure) {
  store_->rollback();
  // Too late for these: what a full disk refuses, SQLite rolls back. They are asked for again.
  if (failure.code == ec::storage_full)
    make_room(true);
  const auto batch = std::exchange(batch_, {});
  batch.settle_all(&failure);
}

void database::publish(const commit_batch& batch) {
  for (const auto& change : batch.changes()) {
    if (change.state == job_state::cancelling)
      cancelling_[change.id] = change.attempt;
    else
      cancelling_.erase(change.id);
  }
  if (batch.more_ready() || !batch.paused_queues().empty())
    look_at_paused();
  auto released = settle_leases(batch);
  if (ready_listener_ && (batch.touches_ready() || !released.empty()))
    publish_ready(batch, std::move(released));
}

void database::publish_changes(const commit_batch& batch) {
  if (change_listeners_.empty() || batch.changes().empty())
    return;
  const auto changes = std::make_shared<const std::vector<job_change>>(batch.changes());
  for (const auto& listener : change_listeners_)
    caf::anon_send(listener, changed_atom_v, changes);
}

void database::publish_ready(const commit_batch& batch, std::vector<attempt_key> released) {
  ready_notice notice{++notice_number_,      batch.ready(),      batch.gone(),   batch.cancelled(),
                      batch.paused_queues(), batch.more_ready(), batch.handed(), std::move(released)};
  if (!paused_.empty())
    std::erase_if(notice.ready, [this](const ready_job& job) { return paused_.contains(job.queue); });
  if (notice.anew || !notice.ready.empty() || !notice.handed.empty())
    offers_void_until_ = notice_number_;
  if (notice.anew || !notice.ready.empty())
    offers_.clear();
  caf::anon_send(ready_listener_, ready_atom_v, std::move(notice));
}

void database::look_at_paused() {
  auto names = store_->paused_queues();
  if (!names) {
    // Each claim is checked against the file all the same.
    spdlog::warn("database: cannot read which queues are paused: {}", names.error().message);
    return;
  }
  paused_ = {names->begin(), names->end()};
}

} // namespace kcx
