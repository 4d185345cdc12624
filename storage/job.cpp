#include "storage/job.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kcx {

namespace {

// -- names ------------------------------------------------------------------------------------------------------------

/// Names in the order of the enumerators; stored in the database and shown by the API.
constexpr std::array<std::string_view, 11> state_names{"scheduled",  "blocked",     "queued", "running",
                                                       "cancelling", "succeeded",   "failed", "timed_out",
                                                       "cancelled",  "interrupted", "skipped"};

constexpr std::array<std::string_view, 16> reason_names{
  "none",         "exit_code",      "signal",         "spawn_failed", "time_limit",    "no_output",
  "wait_limit",   "worker_crashed", "node_restarted", "node_stopped", "lease_expired", "need_failed",
  "cancelled_by", "retry",          "requeued",       "not_started"};

constexpr std::array<std::string_view, 8> step_state_names{"pending",   "running",   "succeeded",   "failed",
                                                           "timed_out", "cancelled", "interrupted", "skipped"};

constexpr std::array<std::string_view, 11> outcome_names{
  "exited",         "signalled",    "spawn_failed",   "time_limit",  "no_output",    "cancelled",
  "worker_crashed", "node_stopped", "node_restarted", "not_started", "lease_expired"};

constexpr std::array<std::string_view, 3> condition_names{"success", "failure", "always"};

template <class Names, class Enum>
std::string_view name_of(const Names& names, Enum value) noexcept {
  auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : std::string_view{"unknown"};
}

template <class Enum, class Names>
std::optional<Enum> value_of(const Names& names, std::string_view text) noexcept {
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// -- transitions ------------------------------------------------------------------------------------------------------

using enum job_state;

constexpr std::array transition_table{
  transition{scheduled, queued, "database: its start time has come"},
  transition{scheduled, cancelled, "user"},
  transition{blocked, queued, "database: the last job it needs has ended"},
  transition{blocked, scheduled, "database: the last job it needs has ended before its start time"},
  transition{blocked, cancelled, "user"},
  transition{blocked, timed_out, "database: it waited too long"},
  transition{blocked, skipped, "database: a job it needs did not end as it asked"},
  transition{queued, running, "dispatcher: claimed for a worker"},
  transition{queued, cancelled, "user"},
  transition{queued, scheduled, "user: its start time was put off"},
  transition{queued, timed_out, "database: it waited too long"},
  transition{running, cancelling, "user"},
  transition{running, succeeded, "worker"},
  transition{running, failed, "worker, or the supervisor of a crashed one"},
  transition{running, timed_out, "worker"},
  transition{running, cancelled, "worker"},
  transition{running, interrupted, "worker of a node that stops, or the database of a node that starts"},
  transition{running, queued, "supervisor or database: interrupted, or never started, and queued again"},
  transition{running, scheduled, "worker: failed, waits for its next attempt"},
  transition{cancelling, cancelled, "worker, supervisor or database: its process tree is gone"},
};

// -- judging ----------------------------------------------------------------------------------------------------------

constexpr std::chrono::milliseconds longest_delay = std::chrono::hours{1};

job_reason reason_of(const attempt_result& result) noexcept {
  switch (result.outcome) {
  case attempt_outcome::exited: return result.exit_code == 0 ? job_reason::none : job_reason::exit_code;
  case attempt_outcome::signalled: return job_reason::signal;
  case attempt_outcome::spawn_failed: return job_reason::spawn_failed;
  case attempt_outcome::time_limit: return job_reason::time_limit;
  case attempt_outcome::no_output: return job_reason::no_output;
  case attempt_outcome::cancelled: return job_reason::cancelled_by;
  case attempt_outcome::worker_crashed: return job_reason::worker_crashed;
  case attempt_outcome::node_stopped: return job_reason::node_stopped;
  case attempt_outcome::node_restarted: return job_reason::node_restarted;
  case attempt_outcome::not_started: return job_reason::not_started;
  case attempt_outcome::lease_expired: return job_reason::lease_expired;
  }
  return job_reason::none;
}

/// The final state that a reason leads to when the job does not go on.
job_state final_state_of(job_reason reason) noexcept {
  switch (reason) {
  case job_reason::none: return succeeded;
  case job_reason::time_limit:
  case job_reason::no_output: return timed_out;
  case job_reason::node_stopped:
  case job_reason::node_restarted:
  case job_reason::lease_expired: return interrupted;
  case job_reason::cancelled_by: return cancelled;
  default: return failed;
  }
}

/// Whether the attempt was cut off by something other than the job itself.
bool is_interruption(job_reason reason) noexcept {
  return reason == job_reason::worker_crashed || reason == job_reason::node_restarted ||
         reason == job_reason::node_stopped || reason == job_reason::lease_expired;
}

/// The base wait, doubled with every counted attempt after the first.
std::chrono::milliseconds back_off(std::chrono::milliseconds base, std::int32_t counted) noexcept {
  for (auto i = std::int32_t{1}; i < counted && base < longest_delay; ++i)
    base *= 2;
  return std::min(base, longest_delay);
}

std::uint64_t mixed(std::uint64_t x) noexcept { // the finalizer of splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

} // namespace

std::string_view to_string(job_state state) noexcept {
  return name_of(state_names, state);
}

std::string_view to_string(job_reason reason) noexcept {
  return name_of(reason_names, reason);
}

std::optional<job_state> parse_job_state(std::string_view text) noexcept {
  return value_of<job_state>(state_names, text);
}

std::optional<job_reason> parse_job_reason(std::string_view text) noexcept {
  return value_of<job_reason>(reason_names, text);
}

bool is_final(job_state state) noexcept {
  return state >= succeeded;
}

bool is_held(job_state state) noexcept {
  return state == running || state == cancelling;
}

std::span<const transition> transitions() noexcept {
  return transition_table;
}

bool is_permitted(job_state from, job_state to) noexcept {
  return std::any_of(transition_table.begin(), transition_table.end(),
                     [&](const transition& move) { return move.from == from && move.to == to; });
}

std::vector<std::string> command_line::argv() const {
  if (!shell)
    return words;
  return {"/bin/sh", "-c", words.empty() ? std::string{} : words.front()};
}

std::string_view to_string(interrupt_policy policy) noexcept {
  return policy == interrupt_policy::requeue ? "requeue" : "fail";
}

std::string_view to_string(keep_policy policy) noexcept {
  switch (policy) {
  case keep_policy::never: return "never";
  case keep_policy::on_failure: return "on_failure";
  case keep_policy::always: return "always";
  }
  return "unknown";
}

std::string_view to_string(conflict_policy policy) noexcept {
  switch (policy) {
  case conflict_policy::reject: return "reject";
  case conflict_policy::give_existing: return "return";
  case conflict_policy::replace: return "replace";
  }
  return "unknown";
}

std::string_view to_string(need_condition condition) noexcept {
  return name_of(condition_names, condition);
}

std::optional<need_condition> parse_need_condition(std::string_view text) noexcept {
  return value_of<need_condition>(condition_names, text);
}

bool is_met(need_condition condition, job_state state) noexcept {
  switch (condition) {
  case need_condition::success: return state == succeeded;
  case need_condition::failure: return state == failed || state == timed_out || state == interrupted;
  case need_condition::always: return true;
  }
  return false;
}

std::string_view to_string(supersede_policy policy) noexcept {
  switch (policy) {
  case supersede_policy::none: return "none";
  case supersede_policy::queued: return "queued";
  case supersede_policy::running: return "running";
  }
  return "unknown";
}

std::string_view to_string(step_state state) noexcept {
  return name_of(step_state_names, state);
}

std::optional<step_state> parse_step_state(std::string_view text) noexcept {
  return value_of<step_state>(step_state_names, text);
}

std::string_view to_string(attempt_outcome how) noexcept {
  return name_of(outcome_names, how);
}

std::optional<attempt_outcome> parse_attempt_outcome(std::string_view text) noexcept {
  return value_of<attempt_outcome>(outcome_names, text);
}

std::string signal_name(std::int32_t number) {
  if (const auto* name = ::sigabbrev_np(number))
    return std::string{"SIG"} + name;
  return "SIG" + std::to_string(number);
}

std::int64_t order_key(timestamp ready_at, std::int32_t priority, std::chrono::milliseconds ageing_step) noexcept {
  return (ready_at.time_since_epoch() - priority * ageing_step).count();
}

ready_job to_ready(const job_record& job) {
  return {job.id, job.order_key, job.spec.weight, job.spec.project, job.spec.queue, job.spec.labels};
}

verdict judge(const job_record& job, const attempt_result& result) noexcept {
  const auto cause = reason_of(result);
  if (job.state == cancelling)
    return {cancelled, job_reason::cancelled_by, cause};
  if (cause == job_reason::not_started)
    return {queued, job_reason::not_started, cause, {}, false, true};
  const auto requeues = job.spec.on_interrupt == interrupt_policy::requeue;
  if (requeues && cause == job_reason::node_stopped)
    return {queued, job_reason::requeued, cause, {}, false, true};
  if (requeues && is_interruption(cause) && job.interrupts < job.spec.max_interrupts)
    return {queued, job_reason::requeued, cause, {}, true, true};
  const auto counted = result.key.attempt - job.uncounted;
  const auto& retry_on = job.spec.retry_on;
  if (counted < job.spec.max_attempts && std::find(retry_on.begin(), retry_on.end(), cause) != retry_on.end())
    return {scheduled, job_reason::retry, cause, back_off(job.spec.backoff, counted)};
  return {final_state_of(cause), cause, cause};
}

std::chrono::milliseconds with_jitter(std::chrono::milliseconds delay, attempt_key key) noexcept {
  const auto hash = mixed(mixed(static_cast<std::uint64_t>(key.job.value)) + static_cast<std::uint64_t>(key.attempt));
  const auto per_mille = 750 + static_cast<std::int64_t>(hash % 501); // 0.75 to 1.25
  return delay * per_mille / 1000;
}

} // namespace kcx
