/// The job model: what a job is, the states it goes through and who moves it on.
///
/// Plain values and pure functions. What a job looks like in JSON is in job_json.hpp, how it is kept in job_store.hpp.
#pragma once

#include "storage/time.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// Names one job for ever: ids are positive, ascending in order of acceptance, and never reused.
struct job_id {
  std::int64_t value = 0;
  auto operator<=>(const job_id&) const = default;
};

/// One run of a job. Attempts count from 1; this pair fences every finishing write.
struct attempt_key {
  job_id job;
  std::int32_t attempt = 0;
  auto operator<=>(const attempt_key&) const = default;
};

// -- states -----------------------------------------------------------------------------------------------------------

/// Stored in the database as text (to_string): never rename.
enum class job_state : std::uint8_t {
  /// Starts later: `run_at` lies ahead, or a retry waits out its back-off. The scheduler moves it to queued. A crash
  /// changes nothing.
  scheduled,
  /// Waits for other jobs it needs. The database moves it on with the last of them. A crash changes nothing.
  blocked,
  /// Ready to run. The dispatcher claims it for a worker. A crash changes nothing.
  queued,
  /// A worker runs it. A worker's crash makes it failed, the node's interrupted; or queued again with
  /// `on_interrupt: requeue`.
  running,
  /// Running, and told to end. Stays so until its process tree is gone. A crash makes it cancelled.
  cancelling,
  /// Final: the command, or every step that counts, exited 0.
  succeeded,
  /// Final: it ended in any other way of its own (see the reason), or its worker crashed.
  failed,
  /// Final: a limit ended it; the reason names the limit.
  timed_out,
  /// Final: somebody cancelled it.
  cancelled,
  /// Final: the node went away under it.
  interrupted,
  /// Final: a job it needs did not end as it asked.
  skipped,
};

/// Why a job is in its state. Stored in the database as text (to_string): append only, never rename.
enum class job_reason : std::uint8_t {
  none,
  exit_code,      ///< The command exited with a code other than 0.
  signal,         ///< A signal that KCX did not send ended the command.
  spawn_failed,   ///< The command could not be started; `message` has the system's words.
  time_limit,     ///< It ran longer than `time_limit_s`.
  no_output,      ///< It wrote nothing for `no_output_limit_s`.
  wait_limit,     ///< It waited longer than `wait_limit_s` and never ran.
  worker_crashed, ///< The worker or runner that had it died.
  node_restarted, ///< The node died while it ran.
  node_stopped,   ///< The node was told to stop while it ran.
  lease_expired,  ///< Its remote worker stopped renewing the lease.
  need_failed,    ///< A job it needs did not end as it asked.
  cancelled_by,   ///< A user cancelled it; `message` says who.
  retry,          ///< It failed and waits for its next attempt.
  requeued,       ///< It was interrupted and asked to be queued again.
  not_started,    ///< Its claim was never confirmed; it went back to the queue and no attempt was used.
};

[[nodiscard]] std::string_view to_string(job_state state) noexcept;
[[nodiscard]] std::string_view to_string(job_reason reason) noexcept;
[[nodiscard]] std::optional<job_state> parse_job_state(std::string_view text) noexcept;
[[nodiscard]] std::optional<job_reason> parse_job_reason(std::string_view text) noexcept;
[[nodiscard]] bool is_final(job_state state) noexcept;
/// Running or cancelling: a worker holds the job.
[[nodiscard]] bool is_held(job_state state) noexcept;

/// A permitted move and who causes it.
struct transition {
  job_state from;
  job_state to;
  std::string_view caused_by;
};

/// Every permitted move; anything else is a bug and refused by the store and by the schema's triggers.
[[nodiscard]] std::span<const transition> transitions() noexcept;
[[nodiscard]] bool is_permitted(job_state from, job_state to) noexcept;

// -- what a user submits ----------------------------------------------------------------------------------------------

/// A program with its arguments, or one line for `/bin/sh -c`.
struct command_line {
  bool shell = false;
  /// With `shell` exactly one entry, the line; else the program and its arguments.
  std::vector<std::string> words;

  /// What is executed: never empty.
  [[nodiscard]] std::vector<std::string> argv() const;

  bool operator==(const command_line&) const = default;
};

/// One of several commands that run in order in one workspace.
struct step_spec {
  std::string name;
  command_line command;
  /// The job goes on, and may succeed, although this step failed.
  bool continue_on_error = false;
  /// Runs also after a failure, a time limit or a cancel.
  bool always = false;
  /// Of this step alone. An `always` step without one may take 60 s once the job is to end.
  std::optional<std::chrono::milliseconds> time_limit{};

  bool operator==(const step_spec&) const = default;
};

/// What a job may take; absent ones are not limited by KCX. Where the node may use cgroup v2, memory and processes
/// count for the whole job, else for each process, as setrlimit has it.
struct resource_limits {
  std::optional<std::uint64_t> memory_bytes; ///< By setrlimit: address space.
  std::optional<std::uint64_t> cpu_s;        ///< CPU time; then SIGXCPU or SIGKILL.
  /// Absent: the usual 1024, whatever the node has for itself.
  std::optional<std::uint64_t> open_files;
  /// By setrlimit: of the account, all jobs together; root has no limit.
  std::optional<std::uint64_t> processes;
  std::optional<std::uint64_t> file_bytes; ///< Of one file; then SIGXFSZ.
  /// Thousandths of a CPU that the job may use at any time; by cgroup v2 only.
  std::optional<std::uint64_t> cpu_millis;

  bool operator==(const resource_limits&) const = default;
};

/// How a needed job must have ended. Stored in the database as text (to_string): never rename.
enum class need_condition : std::uint8_t {
  success, ///< succeeded
  failure, ///< failed, timed_out or interrupted
  always,  ///< in any way
};
[[nodiscard]] std::string_view to_string(need_condition condition) noexcept;
[[nodiscard]] std::optional<need_condition> parse_need_condition(std::string_view text) noexcept;
/// `state` is final.
[[nodiscard]] bool is_met(need_condition condition, job_state state) noexcept;

/// A job that must have ended before another one runs.
struct job_need {
  /// 0 while only `ref` says which one.
  job_id job;
  /// The `ref` of another job of the same submission; empty once it is stored.
  std::string ref;
  need_condition condition = need_condition::success;
  /// Its artifacts are put into the workspace before the job starts.
  bool artifacts = false;

  bool operator==(const job_need&) const = default;
};

/// Which older jobs of its group a new job cancels.
enum class supersede_policy : std::uint8_t {
  none,
  queued,  ///< Those that have not started.
  running, ///< Those that run, too.
};
[[nodiscard]] std::string_view to_string(supersede_policy policy) noexcept;

/// Who is told over HTTP of a job's states.
struct webhook_spec {
  std::string url;
  /// Signs what is sent; empty: nothing is signed. Never shown by the API, and kept as long as the job: what is told of
  /// its end is sent after its end.
  std::string secret{};
  /// States of which is told.
  std::vector<job_state> events{job_state::succeeded, job_state::failed,      job_state::timed_out,
                                job_state::cancelled, job_state::interrupted, job_state::skipped};

  bool operator==(const webhook_spec&) const = default;
};

enum class interrupt_policy : std::uint8_t { fail, requeue };
enum class keep_policy : std::uint8_t { never, on_failure, always };
/// What becomes of a job whose unique key an unfinished job has.
enum class conflict_policy : std::uint8_t { reject, give_existing, replace };

[[nodiscard]] std::string_view to_string(interrupt_policy policy) noexcept;
[[nodiscard]] std::string_view to_string(keep_policy policy) noexcept;
/// "reject", "return", "replace".
[[nodiscard]] std::string_view to_string(conflict_policy policy) noexcept;

/// What was asked for. Immutable once accepted, kept apart from the row that changes state.
struct job_spec {
  std::string name;
  std::string project = "default";
  std::string queue = "default";
  std::vector<std::string> labels;
  nlohmann::json metadata = nlohmann::json::object();

  /// Exactly one of `command` and `steps` is given.
  std::optional<command_line> command;
  std::vector<step_spec> steps;
  std::map<std::string, std::string> env;
  /// Like env, but masked in all output, never shown by the API and erased when the job is final.
  std::map<std::string, std::string> secrets;
  std::string working_dir;
  keep_policy keep_workspace = keep_policy::never;
  /// Globs of what is kept of the workspace after the job; see runner/path_patterns.hpp.
  std::vector<std::string> artifacts;
  /// The account to run as; only a node of root can choose. Empty: the node's `job-user`.
  std::string user;
  resource_limits limits;

  std::int32_t priority = 0;
  std::int32_t weight = 1;
  std::optional<std::chrono::milliseconds> time_limit;
  std::optional<std::chrono::milliseconds> no_output_limit;
  std::optional<std::chrono::milliseconds> wait_limit;
  std::chrono::milliseconds cancel_grace{10'000};
  /// Kept of each attempt's log; absent: the node's `log-limit`.
  std::optional<std::int64_t> log_limit_bytes;

  std::optional<timestamp> run_at;
  std::int32_t max_attempts = 1;
  /// Reasons that a further attempt is made for; consulted only while attempts are left.
  std::vector<job_reason> retry_on{job_reason::exit_code, job_reason::signal, job_reason::time_limit,
                                   job_reason::no_output, job_reason::worker_crashed};
  std::chrono::milliseconds backoff{5'000};
  interrupt_policy on_interrupt = interrupt_policy::fail;
  std::int32_t max_interrupts = 3;

  /// At most one unfinished job has it. Empty: none.
  std::string unique_key;
  conflict_policy on_conflict = conflict_policy::reject;

  /// What other jobs of the same submission call it in their needs.
  std::string ref;
  /// It runs when all of them are met, and is skipped if one cannot be.
  std::vector<job_need> needs;

  /// Jobs of one group start in the order of their ids, at most `group_limit` of them at once. Empty: no group.
  std::string group;
  /// Held jobs of the group below which this one may start.
  std::int32_t group_limit = 1;
  supersede_policy supersede = supersede_policy::none;

  std::optional<webhook_spec> webhook;

  bool operator==(const job_spec&) const = default;
};

/// What is to change of a job that waits. Members without a value stay as they are.
struct job_patch {
  std::optional<std::int32_t> priority{};
  /// Nothing inside: as soon as it can.
  std::optional<std::optional<timestamp>> run_at{};
  std::optional<std::vector<std::string>> labels{};
};

// -- what is known about it -------------------------------------------------------------------------------------------

/// The log of one attempt as it was closed; bounds every later read.
struct log_summary {
  std::int64_t bytes = 0;
  bool cut = false;
};

/// What an attempt kept of its workspace.
struct artifact_summary {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  /// Files are missing that should have been kept: a bound, a full disk, or the end of node, worker or runner was
  /// first.
  bool cut = false;

  bool operator==(const artifact_summary&) const = default;
};

/// What a job wrote to KCX_OUTPUT.
using job_outputs = std::map<std::string, std::string>;

enum class step_state : std::uint8_t {
  pending,
  running,
  succeeded,
  failed,
  timed_out,
  cancelled,
  interrupted,
  skipped
};
[[nodiscard]] std::string_view to_string(step_state state) noexcept;
[[nodiscard]] std::optional<step_state> parse_step_state(std::string_view text) noexcept;

/// One step of one attempt.
struct step_record {
  std::int32_t index = 0;
  step_state state = step_state::pending;
  std::optional<std::int32_t> exit_code{};
  std::optional<std::int32_t> signal{};
  std::optional<timestamp> started_at{};
  std::optional<timestamp> finished_at{};
};

/// One line of a job's history: a state it entered.
struct history_record {
  timestamp at;
  job_state state = job_state::queued;
  job_reason reason = job_reason::none;
  /// With reason retry or requeued: what ended the attempt.
  job_reason cause = job_reason::none;
  std::int32_t attempt = 0;
  std::string worker;
};

/// A job as stored: the row that changes, and the immutable spec.
struct job_record {
  job_id id;
  job_spec spec; ///< Without secrets: those never leave the store except in a grant.
  job_state state = job_state::queued;
  job_reason reason = job_reason::none;
  /// With reason retry or requeued: what ended the attempt.
  job_reason cause = job_reason::none;
  std::string message;
  /// Attempts begun so far; 0 before the first claim. Only ever rises, so that the number fences.
  std::int32_t attempt = 0;
  /// How many of them do not count against `max_attempts`: interrupted, drained or never started.
  std::int32_t uncounted = 0;
  std::int32_t interrupts = 0;
  std::string worker;
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  timestamp created_at;
  std::optional<timestamp> queued_at;
  /// Its place among ready jobs; meaningful while queued. See order_key().
  std::int64_t order_key = 0;
  std::optional<timestamp> run_at;
  std::optional<timestamp> started_at;
  std::optional<timestamp> finished_at;
  /// Measured by a monotonic clock, so a clock step never makes it negative. Set when final.
  std::optional<std::chrono::milliseconds> duration;
  log_summary log;
  /// Of the latest attempt, once it has ended.
  artifact_summary artifacts;
  job_outputs outputs;
  std::optional<job_id> retry_of;
  /// It failed after the last of several attempts and stays listed as such until it is requeued or discarded.
  bool dead_letter = false;
  /// Counts the changes of state: two records of one job with the same version differ in nothing but running steps.
  std::int64_t version = 0;
  /// Of the latest attempt, one per step of the spec.
  std::vector<step_record> steps;
  /// Filled by the reader's single-job query only.
  std::vector<history_record> history;
};

/// What the dispatcher needs to know of a ready job; small, since a million of them may wait.
struct ready_job {
  job_id id;
  /// Lower runs first; ties by id. See order_key().
  std::int64_t order_key = 0;
  std::int32_t weight = 1;
  std::string project;
  std::string queue;
  std::vector<std::string> labels;
  /// The job of its group that must be claimed first. 0: none.
  job_id after{};
};

/// What the dispatcher needs to know of this queued job.
[[nodiscard]] ready_job to_ready(const job_record& job);

/// Ready time minus priority × ageing step: a job of priority p overtakes what became ready up to p steps before it,
/// and nothing older, so nothing starves.
[[nodiscard]] std::int64_t order_key(timestamp ready_at, std::int32_t priority,
                                     std::chrono::milliseconds ageing_step) noexcept;

/// How an attempt ended, as its worker (or the supervisor of a crashed one) reports it.
enum class attempt_outcome : std::uint8_t {
  exited,         ///< `exit_code` is set.
  signalled,      ///< `signal` is set.
  spawn_failed,   ///< `message` has the system's words.
  time_limit,     ///< Ended by its time limit.
  no_output,      ///< Ended by its no-output limit.
  cancelled,      ///< Ended because it was cancelled.
  worker_crashed, ///< Worker or runner died.
  node_stopped,   ///< Ended because the node stops.
  node_restarted, ///< Found running by a node that just started.
  not_started,    ///< The claim was not confirmed.
  lease_expired,  ///< A remote worker stopped renewing its lease.
};

/// Stored in the database as text: append only, never rename.
[[nodiscard]] std::string_view to_string(attempt_outcome outcome) noexcept;
[[nodiscard]] std::optional<attempt_outcome> parse_attempt_outcome(std::string_view text) noexcept;

/// "SIGSEGV" for 11; "SIG77" for a number without a name.
[[nodiscard]] std::string signal_name(std::int32_t number);

/// Everything reported about the end of an attempt.
struct attempt_result {
  attempt_key key;
  attempt_outcome outcome = attempt_outcome::exited;
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  std::string message;
  std::optional<timestamp> started_at;
  std::chrono::milliseconds duration{0};
  log_summary log;
  std::vector<step_record> steps;
  artifact_summary artifacts = {};
  job_outputs outputs = {};
  /// Where given, the claim's nonce must be this one, too: the word of somebody who only shows a token.
  std::optional<std::uint64_t> nonce{};
};

/// Where an ended attempt leads.
struct verdict {
  job_state state = job_state::failed;
  job_reason reason = job_reason::none;
  /// What ended the attempt; the same as `reason` unless the job goes on (retry, requeued).
  job_reason cause = job_reason::none;
  /// With state scheduled: how long the retry waits, before jitter.
  std::chrono::milliseconds delay{0};
  bool counts_interrupt = false;
  /// The attempt does not count against `max_attempts` (interrupted, clean drain, unconfirmed claim). Its number is not
  /// used again: the next attempt has the next number, and a log of its own.
  bool gives_attempt_back = false;
};

/// The single place that decides what an ended attempt means for its job. Pure. `job.state` must be held.
[[nodiscard]] verdict judge(const job_record& job, const attempt_result& result) noexcept;

/// The wait before a retry, spread by up to a quarter either way by a hash of the attempt: jobs that failed together
/// do not come back together, and the same attempt always waits equally long.
[[nodiscard]] std::chrono::milliseconds with_jitter(std::chrono::milliseconds delay, attempt_key key) noexcept;

} // namespace kcx
