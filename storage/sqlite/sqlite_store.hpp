/// The class behind open_sqlite_store(); not for users of the store. Its parts are in store.cpp (transactions),
/// claim.cpp (claiming, what is ready), submit.cpp (inserting), follow_up.cpp (needs), moves.cpp (finishing,
/// cancelling, promoting) and upkeep.cpp (retrying, removing, pausing).
#pragma once

#include "storage/job_store.hpp"
#include "storage/sqlite/connection.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/statements.hpp"
#include "storage/sqlite/store.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace kcx::sqlite {

/// A job's row as changes of state need it.
struct hot_row {
  job_id id;
  job_state state = job_state::queued;
  job_reason reason = job_reason::none;
  std::string message;
  std::int32_t attempt = 0;
  std::int32_t uncounted = 0;
  std::int32_t interrupts = 0;
  std::string worker;
  std::int64_t nonce = 0;
  std::optional<timestamp> claimed_at;
  std::optional<timestamp> started_at;
  ready_job ready;
  bool plain = true;
  bool grouped = false;
  std::optional<timestamp> wait_until;
};

class sqlite_store final : public job_store {
public:
  sqlite_store(std::unique_ptr<connection> db, std::string node_id, const sqlite_options& options)
    : db_{std::move(db)}, node_id_{std::move(node_id)}, options_{options} {}
  ~sqlite_store() override { rollback(); }
  sqlite_store(const sqlite_store&) = delete;
  sqlite_store& operator=(const sqlite_store&) = delete;

  std::int64_t owed_bytes() noexcept override;
  outcome commit() override;
  void rollback() noexcept override;
  [[nodiscard]] bool in_transaction() const noexcept override { return db_->in_transaction(); }

  expected<follow_up> settle(timestamp now, std::size_t limit) override;
  expected<accepted_jobs> submit(const submission& asked, timestamp now) override;
  expected<std::optional<accepted_jobs>> submitted_before(const idempotency_key& once, timestamp now) override;
  expected<job_grant> claim(const claim_request& request, timestamp now) override;
  outcome confirm_start(attempt_key key, timestamp now) override;
  outcome record_step(attempt_key key, const step_record& step) override;
  expected<transition_result> finish(const attempt_result& result, timestamp now) override;
  expected<transition_result> cancel(job_id id, const std::string& who, timestamp now) override;
  expected<transition_result> update(job_id id, const job_patch& patch, timestamp now) override;
  expected<promotion> promote_due(timestamp now, std::size_t limit) override;
  expected<std::vector<transition_result>> end_held(const std::optional<std::string>& worker, attempt_outcome how,
                                                    timestamp now, std::size_t limit,
                                                    const log_lookup& log_of) override;
  expected<std::vector<leased_attempt>> leased_attempts() override;
  expected<ready_window> ready_jobs(std::size_t limit) override;
  expected<ready_window> ready_jobs_behind(const ready_job& last, std::size_t limit) override;

  expected<job_record> retry(job_id id, const std::map<std::string, std::string>& secrets, timestamp now,
                             retry_what what) override;
  outcome discard_dead_letter(job_id id) override;
  outcome pause_queue(const std::string& queue, const std::string& who, timestamp now) override;
  outcome resume_queue(const std::string& queue) override;
  expected<std::vector<std::string>> paused_queues() override;
  expected<token_record> add_token(const new_token& token, timestamp now) override;
  outcome remove_token(std::int64_t id) override;
  outcome touch_tokens(const token_uses& uses) override;
  outcome put_webhook(const std::string& project, const webhook_spec& hook, timestamp now) override;
  outcome remove_webhook(const std::string& project) override;
  outcome note_delivery(const delivery_try& tried) override;
  outcome redeliver(std::int64_t id, timestamp now) override;
  expected<removed_job> remove(job_id id) override;
  expected<std::vector<removed_job>> remove_expired(const retention_policy& policy, timestamp now,
                                                    std::size_t limit) override;

  expected<std::int64_t> checkpoint() override;
  [[nodiscard]] const std::string& node_id() const noexcept override { return node_id_; }

private:
  enum class parts { one, several };

  /// Runs an operation inside the transaction, opening it where needed. With several writing statements a savepoint
  /// undoes those before the one that failed; a single statement undoes itself.
  template <class Operation>
  auto write(parts statements, Operation&& operation) -> std::invoke_result_t<Operation>;
  outcome begin();
  /// Whether the next operation waits long for another process that holds the file.
  void be_patient(bool patient) noexcept;
  /// Undoes the operation that failed, or everything if even that fails.
  void undo() noexcept;
  /// Notes damage, so that nothing is written from then on, and passes the error on.
  error noted(error failure);
  error failed() noexcept { return noted(current_error(db_->file(), system_error_of(*db_))); }

  /// What a new job meets of the same unique key: nothing, or the job that is to be given instead.
  expected<std::optional<job_record>> meet_key(const job_spec& spec, const std::string& at, timestamp now,
                                               accepted_jobs& accepted);
  /// Cancels holders of keys, so that others can have them.
  void replace(const std::vector<job_id>& holders, timestamp now, accepted_jobs& accepted);
  /// Does so for all jobs of a submission at once, as far as the holders stood before it.
  void replace_holders(const std::vector<job_spec>& specs, timestamp now, accepted_jobs& accepted);
  expected<std::optional<accepted_jobs>> answer_again(const idempotency_key& once, timestamp now);
  void keep_answer(const idempotency_key& once, timestamp now, accepted_jobs& accepted);
  std::optional<timestamp> forget_answers(timestamp now);
  outcome room_in_group(const std::string& group, job_id job, std::int32_t limit);
  void supersede(const job_record& job, timestamp now, accepted_jobs& accepted);
  void find_heads(follow_up& done);
  /// As in follow_up, of one group.
  void add_followers(const std::string& group, const ready_job& head, std::vector<ready_job>& into);
  void refresh(accepted_jobs& accepted);
  static void repeat_jobs(accepted_jobs& accepted);
  job_record stored_job(job_id id);
  /// Held jobs of the key: until they are gone, another one must wait.
  std::vector<job_need> predecessors(const job_spec& spec);
  outcome link_needs(const submission& asked, accepted_jobs& accepted, std::int64_t highest_before, timestamp now);
  /// What the needs of a submission are resolved with.
  struct needs_context {
    const std::vector<job_record>& jobs;
    std::unordered_map<std::string_view, std::size_t> by_ref;
    std::int64_t highest_before;
    bool several;
  };
  /// Puts ids in the place of refs; answers which ids are none.
  std::vector<field_error> resolve_needs(const needs_context& in, std::size_t which, std::vector<job_need>& needs);
  /// Stores those of the needs that are open, and moves the blocked job on if none is.
  transition_result block_on(job_id job, const std::vector<job_need>& needs, timestamp now);
  bool is_blocked(job_id job);
  transition_result unblock(job_id job, timestamp now);
  transition_result skip(job_id job, job_id need, job_state state, timestamp now);
  void settle_needs(follow_up& done, timestamp now, std::size_t limit);
  void erase_secrets(job_id job);
  /// Cuts a write-ahead log that was copied as a whole to no bytes, unless it was not long ago.
  void empty_log();
  /// Has the next write begin the log anew. Readers that are always busy keep it from that otherwise.
  void restart_log();
  /// A checkpoint that waits so long for readers; whether it did all of its work.
  bool checkpoint_within(int mode, std::chrono::milliseconds patience);
  enum class readiness { open, blocked };
  job_record insert_one(const job_spec& spec, timestamp now, std::optional<job_id> retry_of = {},
                        readiness is = readiness::open);
  /// Puts the latest retry of each needed job in its place; returns those that are still to end.
  std::vector<job_need> renew_needs(std::vector<job_need>& needs);
  void insert_webhook(const std::optional<std::string>& project, std::optional<job_id> job, const webhook_spec& hook,
                      timestamp now);
  std::optional<job_id> holder_of_key(const std::string& key);
  /// What the needed jobs, which have ended, leave to the one that is claimed.
  std::vector<need_grant> left_by(const std::vector<job_need>& needs);
  /// A job of which something that its worker must know cannot be read.
  struct unreadable_job {
    attempt_key key;
    bool queued = false;
    std::string why;
  };
  expected<job_grant> claim_one(const claim_request& request, timestamp now, std::optional<unreadable_job>& unreadable);
  /// From a row of select_for_claim. Throws bad_value.
  void read_grant(const cursor& row, job_grant& grant);
  expected<job_grant> give_up(const claim_request& request, const unreadable_job& job, timestamp now);
  expected<job_id> job_of_nonce(const claim_request& request);
  /// Names of lanes with queued jobs, none of a paused queue, at most `limit`: those behind shown_to_ first.
  std::vector<lane_name> lanes(std::size_t limit);
  void read_lane(const lane_name& lane, std::int64_t after_key, job_id after, std::size_t limit, ready_window& window);

  expected<hot_row> load(job_id id);
  expected<transition_result> cancel_one(job_id id, const std::string& who, timestamp now);
  /// The same of several jobs that follow from a submission. Inside a savepoint SQLite takes time for each statement in
  /// proportion to what was changed there before (it walks the savepoint's journal, which is a list in memory), so it
  /// takes a few statements, however many the jobs are. Those that have ended are passed over.
  void cancel_several(const std::vector<job_id>& jobs, const std::string& who, timestamp now, accepted_jobs& accepted);
  expected<transition_result> finish_held(const hot_row& row, const attempt_result& result, timestamp now);
  expected<transition_result> finished_before(const hot_row& row, const attempt_result& result);
  void store_finish(const hot_row& row, const attempt_result& result, const verdict& end, const std::string& message,
                    timestamp now, std::optional<timestamp> run_at, std::int64_t key, bool dead_letter);
  void store_attempt(const hot_row& row, const attempt_result& result, const verdict& end, timestamp now);
  void store_steps(const attempt_result& result, timestamp now);
  /// Fails with conflict if it cannot be read.
  expected<job_spec> load_spec(job_id id);
  /// Moves a job whose run_at was changed to where it belongs now.
  job_state reschedule(const hot_row& row, bool later, timestamp now);
  void promote_scheduled(promotion& moved, timestamp now, std::size_t limit);
  void expire_waiting(promotion& moved, timestamp now, std::size_t limit);
  void find_expired(std::vector<removed_job>& found, job_state state, const retention_rule& rule, timestamp now,
                    std::size_t limit);
  /// The newest job of the state that is too many by a count; 0 if none is.
  std::int64_t newest_beyond(job_state state, std::int64_t count);
  bool put_step(attempt_key key, const step_record& step);

  std::unique_ptr<connection> db_;
  std::string node_id_;
  sqlite_options options_;
  bool patient_ = true;
  /// Set for good once damage was met.
  std::optional<error> unusable_;
  /// Where the last window of ready jobs left lanes out: the last lane that it showed.
  lane_name shown_to_;
  /// The write-ahead log may hold secrets of jobs that have ended: at first, those of an earlier life.
  bool secrets_in_log_ = true;
  std::optional<std::chrono::steady_clock::time_point> emptied_at_;
  std::optional<std::chrono::steady_clock::time_point> waited_at_;
  /// What newest_beyond() found last, with the count, until all of them are removed: finding it passes over everything
  /// that is kept. Forgotten after a rollback, and when somebody removes a job.
  std::map<job_state, std::pair<std::int64_t, std::int64_t>> beyond_;
};

template <class Operation>
auto sqlite_store::write(parts statements, Operation&& operation) -> std::invoke_result_t<Operation> {
  if (auto open = begin(); !open)
    return open.error();
  const auto saved = statements == parts::several;
  try {
    if (saved)
      db_->use(sql::save).run();
    auto result = operation();
    if (saved) {
      if (!result)
        db_->use(sql::undo).run();
      db_->use(sql::release).run();
    }
    return result;
  } catch (...) {
    auto failure = failed();
    if (saved)
      undo();
    return failure;
  }
}

} // namespace kcx::sqlite
