/// The write side of the queue, as the database actor uses it. An interface: SQLite is the one implementation
/// (sqlite/store.hpp); nothing above storage may know which one it is.
///
/// Thread: one at a time, always the same one (the database actor's). Nothing here reads a clock: `now` is passed in.
///
/// Transactions. Writes are collected: the first operation after a commit opens a transaction (BEGIN IMMEDIATE),
/// further ones join it, commit() makes all of them durable at once. An operation that fails undoes itself only; the
/// rest of the transaction stands, unless in_transaction() is false afterwards: then the engine has rolled everything
/// back (a full disk does that) and every operation since the last commit is lost and must be reported as failed. A
/// crash at any moment loses exactly what was not committed.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/token.hpp"
#include "storage/webhook.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kcx {

/// What happened to the jobs an operation touched; the database actor turns it into notices after the commit.
struct job_change {
  job_id id;
  job_state state = job_state::queued;
  job_reason reason = job_reason::none;
  std::int32_t attempt = 0;
  std::string worker;
  timestamp at;
  /// Something will be due for it at a time: the scheduler must look.
  bool timed = false;
};

/// A final or re-queued job after finish(), cancel() or end_held().
struct transition_result {
  job_change change;
  /// Set when the job became ready (again).
  std::optional<ready_job> ready;
  /// The same finish had been stored before; this is the stored truth and nothing was written.
  bool repeated = false;
};

/// Asks for one particular job on behalf of one worker.
struct claim_request {
  /// 0 only asks for the grant that this worker and nonce may hold already (the asker lost the answer and its memory).
  job_id job;
  std::string worker;
  /// Chosen by the asker, never 0, unique per question: asking again with the same nonce while the attempt it created
  /// is still held returns the same grant, so a lost reply claims nothing twice.
  std::uint64_t nonce = 0;
  /// The worker is somewhere else and keeps the job by renewing a lease of this length, over restarts of the node.
  /// Without one it is the node's own and goes with it.
  std::optional<std::chrono::milliseconds> lease{};
  /// The nonce was lent for a hand-off: if that happened, its grant is the answer, whatever `job` says.
  bool lent = false;
  /// The worker's, sorted: a job that asks for others by now is not_ready.
  std::vector<std::string> labels{};
};

/// What a job that has ended leaves to one that needs it.
struct need_grant {
  /// With its last attempt; 0 if it never ran.
  attempt_key key;
  /// It is not known any more, and its artifacts are gone.
  bool removed = false;
  /// As it was called in its submission; may be empty.
  std::string ref;
  job_outputs outputs;
  artifact_summary artifacts;
  /// They are asked for.
  bool wants_artifacts = false;
};

/// A committed claim: everything a worker needs to run the job.
struct job_grant {
  attempt_key key;
  job_spec spec; ///< With secrets.
  /// In the order of the needs.
  std::vector<need_grant> needs;
  /// The same question had been granted before; nothing was written.
  bool repeated = false;
  /// Of the claim.
  std::uint64_t nonce = 0;
  /// What is stored of the job cannot be read: it has ended instead, and there is no grant.
  std::optional<transition_result> ended{};
};

/// An attempt that a worker somewhere else holds by a lease.
struct leased_attempt {
  attempt_key key;
  std::uint64_t nonce = 0;
  std::string worker;
  std::string project;
  std::int32_t weight = 1;
  std::chrono::milliseconds lease{0};
  timestamp claimed_at;
  /// It was renewed, or told of in another way, at least once.
  bool confirmed = false;
  /// It was told to end.
  bool cancelling = false;
};

/// Ready jobs as a window shows them: the first ones of each lane. A lane is what jobs of one project, one queue and
/// one set of labels have in common; what is ready in one of them can never be hidden by another.
struct ready_window {
  /// Lane by lane, each in dispatch order (order_key, id).
  std::vector<ready_job> jobs;
  /// The last job shown of each lane that has more behind it.
  std::vector<ready_job> more;
  /// There are lanes of which nothing is shown: the next window begins with them.
  bool lanes_left_out = false;
  /// As in follow_up.
  std::vector<ready_job> followers{};
};

/// Which due time comes next, for the scheduler.
struct promotion {
  std::vector<ready_job> ready;
  /// Of the jobs in `ready`, and of those that waited longer than they may (timed_out, no longer ready).
  std::vector<job_change> changes;
  std::optional<timestamp> next_due;
};

struct accepted_jobs;

/// What the sender of a submission was told, as it may be told again.
struct stored_answer {
  std::int32_t status = 0;
  std::string location; ///< Empty: none.
  std::string body;
};

/// Makes it safe to send a submission again: the answer is stored in the transaction of its jobs, for `answers_kept`.
struct idempotency_key {
  /// Keys of different owners do not meet.
  std::string owner;
  std::string key;
  /// Of what was sent: under one key it must always be the same.
  std::string digest;
  /// Makes the answer that is stored. Runs on the store's thread.
  std::function<stored_answer(const accepted_jobs&)> answer;
};

inline constexpr std::chrono::hours answers_kept{24};

/// What one request asks to be stored: all of it or nothing.
struct submission {
  std::vector<job_spec> specs;
  /// They came as an array: pointers in errors begin with the index of the job.
  bool several = false;
  std::optional<idempotency_key> once = std::nullopt;
};

/// What became of a submission.
struct accepted_jobs {
  /// One per spec, in order, as of this moment.
  std::vector<job_record> jobs;
  /// Which of them stood before: given back for the sake of their unique key. A job may be there twice.
  std::vector<job_id> existing;
  /// What happened to other jobs: those it replaced or superseded.
  std::vector<transition_result> others;
  /// With an idempotency key: the answer as it is stored.
  std::optional<stored_answer> answer = std::nullopt;
  /// The submission had come before: `answer` is that of the first time, and nothing was written.
  bool repeated = false;

  [[nodiscard]] bool is_new(job_id job) const noexcept {
    return std::find(existing.begin(), existing.end(), job) == existing.end();
  }
};

/// What followed from the operations of a transaction.
struct follow_up {
  /// Jobs that ran into the end of one they need: queued or scheduled, or skipped.
  std::vector<transition_result> moved;
  /// The jobs that are next in groups in which something changed, where there is room. Only these become ready: no
  /// other operation tells of ready jobs of a group.
  std::vector<ready_job> heads;
  /// There is more, for the next transaction.
  bool more = false;
  /// Jobs of the groups of `heads` for which there is room as well, each `after` the one before it, in the order of
  /// their groups. At most `most_followers` of one group.
  std::vector<ready_job> followers{};
};

inline constexpr std::size_t most_followers = 99;

/// How long final jobs of one state are kept. Without a member, no bound of that kind.
struct retention_rule {
  std::optional<std::chrono::milliseconds> age{}; ///< Since they ended.
  std::optional<std::int64_t> count{};            ///< The newest ones by id.
};
/// A state without a rule is kept for ever.
using retention_policy = std::map<job_state, retention_rule>;

struct removed_job {
  job_id id;
  std::int32_t attempts = 0; ///< Logs of attempts 1 to this may exist.
};

/// Which jobs may be submitted again.
enum class retry_what : std::uint8_t { any_final, dead_letter };

/// Finds how large the log of an attempt is whose holder can no longer say. Nothing if it has no log: then it was never
/// started, since the log is created before the program runs.
using log_lookup = std::function<std::optional<log_summary>(attempt_key)>;

class job_store {
public:
  virtual ~job_store() = default;

  // -- transaction ---------------------------------------------------------------------------------------------------

  /// By how many bytes the files will still grow for what was stored already. 0 if that is not known.
  [[nodiscard]] virtual std::int64_t owed_bytes() noexcept = 0;

  /// Makes everything since the last commit durable (fsync). Fails with storage_full, storage_busy or storage_failed;
  /// then everything since the last commit is rolled back.
  [[nodiscard]] virtual outcome commit() = 0;
  /// Drops everything since the last commit. Never fails: closing the file would do the same.
  virtual void rollback() noexcept = 0;
  [[nodiscard]] virtual bool in_transaction() const noexcept = 0;

  /// Carries out, inside the open transaction or a new one, what follows from jobs that ended: their dependents are
  /// unblocked or skipped, and so on, at most `limit` of them per call. Finds out what is next in the groups. What is
  /// left is remembered in the database, so that it goes on after a crash. Call it before each commit, and once after
  /// opening. Writes nothing if nothing follows.
  [[nodiscard]] virtual expected<follow_up> settle(timestamp now, std::size_t limit) = 0;

  // -- jobs ----------------------------------------------------------------------------------------------------------

  /// Stores all of the jobs or none, in order, with ascending ids. Each becomes queued, or scheduled if its run_at lies
  /// after `now`, or blocked if it needs jobs that have not ended, or skipped if one of them ended otherwise than
  /// asked. A need that is removed, unknown, or part of a cycle is refused (invalid_input, with its pointer).
  ///
  /// A job whose unique key an unfinished job has is refused (conflict, with its pointer), answered by that job, or
  /// takes its place: the older one is cancelled, and gives its key away at once. While processes of an older one are
  /// still being ended, the job that has the key now is blocked.
  ///
  /// A job that supersedes cancels the older unfinished ones of its group first.
  ///
  /// With an idempotency key that its owner used before, nothing is stored and the first answer given; fails with
  /// idempotency_conflict if something else was sent then.
  [[nodiscard]] virtual expected<accepted_jobs> submit(const submission& asked, timestamp now) = 0;
  /// That first answer, if there is one; fails as submit() does. Writes nothing.
  [[nodiscard]] virtual expected<std::optional<accepted_jobs>> submitted_before(const idempotency_key& once,
                                                                                timestamp now) = 0;

  /// submit() of an array; answers its jobs.
  [[nodiscard]] expected<std::vector<job_record>> insert(std::span<const job_spec> specs, timestamp now) {
    auto accepted = submit({{specs.begin(), specs.end()}, true}, now);
    if (!accepted)
      return std::move(accepted).error();
    return std::move(accepted->jobs);
  }

  /// Marks a queued job running and begins its next attempt. Fails with not_ready if it is no longer queued, if it asks
  /// for labels that the worker has not, if as many of its group are held as it allows, or if an earlier one of its
  /// group is queued. A job that cannot be read ends as failed (job_grant::ended), so that it holds up no other.
  [[nodiscard]] virtual expected<job_grant> claim(const claim_request& request, timestamp now) = 0;

  /// Confirms a claim: the job's process is about to run. Fails with stale_attempt.
  [[nodiscard]] virtual outcome confirm_start(attempt_key key, timestamp now) = 0;

  /// Stores the state of one step of the running attempt. Fails with stale_attempt.
  [[nodiscard]] virtual outcome record_step(attempt_key key, const step_record& step) = 0;

  /// Ends an attempt and moves its job on as judge() says. The same result again returns the stored state with
  /// `repeated`; fails with stale_attempt if the attempt is not the one that is held, not_found if there is no such
  /// job.
  [[nodiscard]] virtual expected<transition_result> finish(const attempt_result& result, timestamp now) = 0;

  /// A waiting job becomes cancelled, a running one cancelling (its worker must be told). A cancelling or cancelled one
  /// stays as it is, with `repeated`. Fails with conflict if it is final otherwise, not_found, gone.
  [[nodiscard]] virtual expected<transition_result> cancel(job_id id, const std::string& who, timestamp now) = 0;

  /// Changes a waiting job; a later run_at of a queued one makes it scheduled, one that has come queues it. Fails with
  /// conflict if the job no longer waits, not_found, gone.
  [[nodiscard]] virtual expected<transition_result> update(job_id id, const job_patch& patch, timestamp now) = 0;

  /// Moves at most `limit` scheduled jobs that are due to queued, and ends as many that have waited longer than their
  /// wait_limit as timed_out. The wait counts from submission or run_at, whichever is later, until the first start
  /// that was confirmed, or shown by a report of its end; a retry or a requeue does not count. Also forgets a few of
  /// the answers that were kept long enough.
  [[nodiscard]] virtual expected<promotion> promote_due(timestamp now, std::size_t limit) = 0;

  /// Ends every attempt that the node's own workers hold, or only those of `worker`, whose holder is gone; what is held
  /// by a lease is not touched. It ends `as` given if its start was confirmed or
  /// `log_of` finds a log (a holder may die between the start and its confirmation), else as not_started. At most
  /// `limit` per call; an empty answer means that none is left. Without `log_of` the logs' sizes are stored as 0.
  [[nodiscard]] virtual expected<std::vector<transition_result>> end_held(const std::optional<std::string>& worker,
                                                                          attempt_outcome as, timestamp now,
                                                                          std::size_t limit,
                                                                          const log_lookup& log_of = {}) = 0;

  /// What is held by leases, for a node that just started.
  [[nodiscard]] virtual expected<std::vector<leased_attempt>> leased_attempts() = 0;

  /// The first queued jobs of each lane, `limit` in all, as many of each as that allows but at least one; with more
  /// lanes than that, those have their turn that were left out the last time. Without those of paused queues; of a
  /// group only the next, and only where there is room.
  [[nodiscard]] virtual expected<ready_window> ready_jobs(std::size_t limit) = 0;
  /// The same of the one lane of `last`, behind it: at most `limit`.
  [[nodiscard]] virtual expected<ready_window> ready_jobs_behind(const ready_job& last, std::size_t limit) = 0;

  /// Submits the job again, as a new one with `retry_of`. Its needs stand for their latest retries; those that have
  /// ended, however, do not hold it up, but leave it what they left (job_grant::needs). It is no dead letter any
  /// longer. Secrets were erased with its end: `secrets` must name the same ones, else invalid_input with a pointer
  /// below
  /// "/secrets". Fails with conflict if the job is not final, or no dead letter although `what` says so, or if an
  /// unfinished one has its unique key; not_found, gone.
  [[nodiscard]] virtual expected<job_record> retry(job_id id, const std::map<std::string, std::string>& secrets,
                                                   timestamp now, retry_what what = retry_what::any_final) = 0;
  /// Takes the job from the dead letters; it stays listed until retention removes it. Fails with conflict if it is no
  /// dead letter, not_found, gone.
  [[nodiscard]] virtual outcome discard_dead_letter(job_id id) = 0;

  // -- queues --------------------------------------------------------------------------------------------------------

  /// No job of a paused queue is claimed (not_ready), over restarts, until it is resumed. Pausing a paused queue or
  /// resuming one that is not changes nothing. Any name will do: a queue needs no jobs to be paused.
  [[nodiscard]] virtual outcome pause_queue(const std::string& queue, const std::string& who, timestamp now) = 0;
  [[nodiscard]] virtual outcome resume_queue(const std::string& queue) = 0;
  [[nodiscard]] virtual expected<std::vector<std::string>> paused_queues() = 0;

  // -- tokens --------------------------------------------------------------------------------------------------------

  /// Fails with conflict if the name is taken.
  [[nodiscard]] virtual expected<token_record> add_token(const new_token& token, timestamp now) = 0;
  /// Fails with not_found.
  [[nodiscard]] virtual outcome remove_token(std::int64_t id) = 0;
  /// Notes when tokens were used; those that are gone are passed over.
  [[nodiscard]] virtual outcome touch_tokens(const token_uses& uses) = 0;

  // -- webhooks ------------------------------------------------------------------------------------------------------

  /// From now on the project's jobs are told to it, instead of an earlier one.
  [[nodiscard]] virtual outcome put_webhook(const std::string& project, const webhook_spec& hook, timestamp now) = 0;
  /// Fails with not_found if the project has none. What is in the outbox is sent all the same.
  [[nodiscard]] virtual outcome remove_webhook(const std::string& project) = 0;
  /// Notes how a try went. A delivery that is gone, no longer pending, or to be sent anew since, is passed over.
  [[nodiscard]] virtual outcome note_delivery(const delivery_try& tried) = 0;
  /// Has it sent again, from the first try on. Fails with not_found.
  [[nodiscard]] virtual outcome redeliver(std::int64_t id, timestamp now) = 0;

  // -- removing ------------------------------------------------------------------------------------------------------

  /// Forgets a final job; its id answers gone from then on. Its logs are the caller's to remove, after the commit.
  /// Fails with conflict if it is not final, not_found, gone.
  [[nodiscard]] virtual expected<removed_job> remove(job_id id) = 0;
  /// Removes at most `limit` jobs that the policy does not keep, oldest first; dead letters are kept. An empty answer
  /// means that none is left.
  [[nodiscard]] virtual expected<std::vector<removed_job>> remove_expired(const retention_policy& policy, timestamp now,
                                                                          std::size_t limit) = 0;

  // -- upkeep --------------------------------------------------------------------------------------------------------

  /// Copies the write-ahead log into the database file as far as readers allow; waits for them where it has become too
  /// large. Not inside a transaction. Returns the number of bytes the write-ahead log still holds.
  [[nodiscard]] virtual expected<std::int64_t> checkpoint() = 0;

  /// An identity made when the database was created; process_mark() is made of it.
  [[nodiscard]] virtual const std::string& node_id() const noexcept = 0;
};

} // namespace kcx
