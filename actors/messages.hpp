/// Every message type of the node and its type ids, in one place: CAF wants each type registered once per program.
///
/// All messages stay inside one process (remote workers speak HTTP), so types need no serialization; CAF asks for that
/// to be said (CAF_ALLOW_UNSAFE_MESSAGE_TYPE).
///
/// A reply that may fail for a reason of KCX's own is an expected<T>: the error with its fields is a value. CAF's own
/// errors (timeout, receiver gone) mean only that the answer is unknown.
#pragma once

#include "actors/runner/protocol.hpp"
#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/job_reader.hpp"
#include "storage/job_store.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kcx {

/// What an actor tells about itself, as a JSON object; see docs/architecture.md for each role's fields.
using actor_status = nlohmann::json;

/// The changes of one commit, in order. Shared, since every listener gets the same.
using job_changes = std::shared_ptr<const std::vector<job_change>>;

/// What one commit did to the ready jobs, for the dispatcher. Numbered without gaps.
struct ready_notice {
  std::uint64_t number = 0;
  std::vector<ready_job> ready;
  std::vector<job_id> gone;
  /// Held jobs that somebody cancelled; their workers must be told.
  std::vector<attempt_key> cancelled;
  /// Nothing of these queues is ready any more.
  std::vector<std::string> paused = {};
  /// More became ready than `ready` names: the listener must ask for a snapshot.
  bool anew = false;
  /// Jobs that were claimed with an offer as they came.
  std::vector<job_grant> handed = {};
  /// Attempts that are no longer held by a lease.
  std::vector<attempt_key> released = {};
};

/// The ready jobs at one moment. `number` is that of the last notice it includes.
struct ready_snapshot {
  std::uint64_t number = 0;
  ready_window window = {};
  /// In the answer to a subscription: held jobs that somebody cancelled, since an earlier notice may have been lost.
  std::vector<attempt_key> cancelled = {};
  /// Likewise, what is held by leases.
  std::vector<leased_attempt> leased = {};
};

/// A worker that waits while nothing is ready, lent to the database: a job that comes and fits is claimed for it in the
/// commit of its submission. Good for one job.
struct work_offer {
  std::string worker;
  std::uint64_t nonce = 0;
  std::optional<std::chrono::milliseconds> lease{};
  /// Sorted.
  std::vector<std::string> labels;
  /// Sorted; empty: any.
  std::vector<std::string> queues{};
  /// Jobs that weigh more are not for it.
  std::int64_t free = 1;
  /// Weights count as no more than this.
  std::int64_t capacity = 1;
};

/// All offers that hold from now on, unless a notice after `seen` has told of ready jobs: then none does.
struct work_offers {
  std::uint64_t seen = 0;
  std::vector<work_offer> offers;
  /// Slots that the node's own workers (offers without a lease) may fill together.
  std::int64_t free = 0;
};

/// What a worker somewhere else shows for an attempt that it holds by a lease.
struct lease_token {
  attempt_key key;
  std::uint64_t nonce = 0;
};

/// What became of one lease that was to be renewed.
struct renewal {
  std::optional<error> failure{};
  std::chrono::milliseconds lease{0};
  /// The job was cancelled: it is to be ended.
  bool cancel = false;
};

/// Attempts that ended and claims that follow, in one commit.
struct work_exchange {
  std::vector<attempt_result> ended;
  std::vector<claim_request> wanted;
  /// Nothing is claimed if one of `ended` is refused: the claims fail with conflict.
  bool claim_if_ended = false;
};

/// One answer for each, in order.
struct exchange_result {
  std::vector<expected<transition_result>> ended;
  std::vector<expected<job_grant>> granted;
};

/// A worker somewhere else reports what has ended and asks for more.
struct remote_request {
  std::string worker;
  std::vector<std::string> labels;
  /// Empty: any.
  std::vector<std::string> queues;
  /// Slots that it has free, and in all: weights count against them. Without free slots it asks for nothing.
  std::int64_t free = 0;
  std::int64_t capacity = 1;
  std::chrono::milliseconds lease{30'000};
  /// How long it waits for the first job.
  std::chrono::milliseconds wait{0};
  std::vector<attempt_result> ended{};
  bool claim_if_ended = false;
};

/// Submissions of one commit, each of which stands alone: one that is refused stops no other.
using submissions = std::vector<submission>;
/// What became of each, in order.
using submission_results = std::vector<expected<accepted_jobs>>;

/// What to do with each of several jobs; see bulk_result.
enum class bulk_action : std::uint8_t { cancel, requeue, discard };

struct bulk_request {
  bulk_action action = bulk_action::cancel;
  std::vector<job_id> jobs;
  std::string who;
};

/// What became of one of them: an error, or its state and the job that takes its place.
struct bulk_result {
  job_id job;
  std::optional<error> failure{};
  job_state state = job_state::queued;
  std::optional<job_id> created{};
};

/// A final job that is to be submitted again; see job_store::retry().
struct retry_request {
  job_id job;
  std::map<std::string, std::string> secrets;
  retry_what what = retry_what::any_final;
};

/// A worker's question for its next job.
struct work_request {
  std::string worker;
  std::vector<std::string> labels;
  /// The same until this question is answered, so that a repeat after a timeout claims nothing twice.
  std::uint64_t nonce = 0;
  /// Asked before: a dispatcher that does not know the nonce must ask the database for its grant first.
  bool repeat = false;
};

/// What a busy worker tells a new dispatcher.
struct held_attempt {
  attempt_key key;
  std::string worker;
  std::string project;
  std::int32_t weight = 1;
  /// The worker's.
  std::vector<std::string> labels = {};
};

/// What the node's workers can take at the same time.
struct fleet {
  /// Slots for jobs' weights.
  std::uint32_t capacity = 1;
  /// Names of workers that are given nothing.
  std::vector<std::string> cordoned;
};

/// What the dispatcher knows of one ready job, and of the moment.
struct dispatch_view {
  /// Not known: its claim is under way, its queue is paused, or it lies beyond the window.
  bool known = false;
  bool claiming = false;
  /// How many are handed out up to and with this one, if nothing changes. Without a value: many.
  std::optional<std::int64_t> position{};
  std::int64_t ready = 0;
  std::int64_t weight = 1;
  std::int64_t free = 0;
  std::int64_t capacity = 0;
  std::int64_t workers = 0;
  std::int64_t idle_workers = 0;
  /// Labels of the job that the worker which has most of them lacks.
  std::vector<std::string> missing_labels{};
  /// The job that free slots are kept for.
  std::optional<job_id> reserved_for{};
  bool draining = false;
  /// Why the database refuses all claims now; empty if it does not.
  std::string trouble{};
};

/// Who works on what, for the API.
struct worker_info {
  std::string name;
  std::string state; ///< "starting", "idle", "busy", "stopping".
  std::optional<attempt_key> attempt;
  std::int64_t runner_pid = 0;
  /// It is given no more jobs.
  bool cordoned = false;
};

/// How a stop treats jobs that run.
enum class stop_mode : std::uint8_t {
  drain, ///< Take nothing new, let running jobs end by themselves.
  now,   ///< End running jobs by the kill ladder; their policy decides what becomes of them.
};

/// A parsed request and the way to answer it: see actors/http/message/exchange.hpp. Only a pointer here, so that actors
/// which know no HTTP do not compile it.
struct http_exchange;
using http_exchange_ptr = std::shared_ptr<http_exchange>;

/// Names one open follower of a log; never a session itself, which may be gone by the time a message arrives.
using follower_id = std::uint64_t;

/// A place in the log of one attempt that runs or ran.
struct log_location {
  attempt_key key;
  log_summary log;
  bool final = false;
};

} // namespace kcx

CAF_BEGIN_TYPE_ID_BLOCK(kcx_messages, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(kcx_messages, (nlohmann::json))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::attempt_key))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::attempt_result))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::bulk_request))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::dispatch_view))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::accepted_jobs>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::exchange_result>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::job_blockers>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::event_filter))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::event_page>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::job_grant>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::job_page>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::job_record>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::log_location>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::queue_stats>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::ready_snapshot>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::submission_results>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::removed_job>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::int64_t>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::optional<kcx::timestamp>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::vector<kcx::bulk_result>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::vector<kcx::renewal>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::token_record>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::transition_result>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::vector<kcx::token_record>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::claim_request))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::vector<kcx::queue_info>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::queue_info>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::vector<kcx::removed_job>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::fleet))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::held_attempt))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::http_exchange_ptr))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::job_changes))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::job_filter))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::job_id))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::job_patch))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::lease_token))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::new_token))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::outcome))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::ready_job))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::ready_notice))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::remote_request))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::retention_policy))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::retry_request))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::runner_event))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::step_record))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::stop_mode))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::submission))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::submissions))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::timestamp))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::token_uses))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::webhook_spec))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::delivery_try))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::delivery_filter))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::due_deliveries>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<kcx::delivery_page>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::expected<std::vector<kcx::project_webhook>>))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::worker_info))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::work_request))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::work_exchange))
CAF_ADD_TYPE_ID(kcx_messages, (kcx::work_offers))
CAF_ADD_TYPE_ID(kcx_messages, (std::vector<kcx::lease_token>))
CAF_ADD_TYPE_ID(kcx_messages, (std::vector<kcx::worker_info>))

CAF_ADD_ATOM(kcx_messages, kcx, abandon_atom, "abandon")
CAF_ADD_ATOM(kcx_messages, kcx, bulk_atom, "bulk")
CAF_ADD_ATOM(kcx_messages, kcx, cancel_atom, "cancel")
CAF_ADD_ATOM(kcx_messages, kcx, changed_atom, "changed")
CAF_ADD_ATOM(kcx_messages, kcx, checkpoint_atom, "checkpoint")
CAF_ADD_ATOM(kcx_messages, kcx, claim_atom, "claim")
CAF_ADD_ATOM(kcx_messages, kcx, complete_atom, "complete")
CAF_ADD_ATOM(kcx_messages, kcx, cordon_atom, "cordon")
CAF_ADD_ATOM(kcx_messages, kcx, deliver_atom, "deliver")
CAF_ADD_ATOM(kcx_messages, kcx, discard_atom, "discard")
CAF_ADD_ATOM(kcx_messages, kcx, drain_atom, "drain")
CAF_ADD_ATOM(kcx_messages, kcx, enqueue_atom, "enqueue")
CAF_ADD_ATOM(kcx_messages, kcx, exchange_atom, "exchange")
CAF_ADD_ATOM(kcx_messages, kcx, events_atom, "events")
CAF_ADD_ATOM(kcx_messages, kcx, exited_atom, "exited")
CAF_ADD_ATOM(kcx_messages, kcx, expire_atom, "expire")
CAF_ADD_ATOM(kcx_messages, kcx, fault_atom, "fault")
CAF_ADD_ATOM(kcx_messages, kcx, fleet_atom, "fleet")
CAF_ADD_ATOM(kcx_messages, kcx, flush_atom, "flush")
CAF_ADD_ATOM(kcx_messages, kcx, follow_atom, "follow")
CAF_ADD_ATOM(kcx_messages, kcx, get_atom, "get")
CAF_ADD_ATOM(kcx_messages, kcx, grew_atom, "grew")
CAF_ADD_ATOM(kcx_messages, kcx, http_atom, "http")
CAF_ADD_ATOM(kcx_messages, kcx, info_atom, "info")
CAF_ADD_ATOM(kcx_messages, kcx, list_atom, "list")
CAF_ADD_ATOM(kcx_messages, kcx, log_atom, "log")
CAF_ADD_ATOM(kcx_messages, kcx, offer_atom, "offer")
CAF_ADD_ATOM(kcx_messages, kcx, pause_atom, "pause")
CAF_ADD_ATOM(kcx_messages, kcx, promote_atom, "promote")
CAF_ADD_ATOM(kcx_messages, kcx, queues_atom, "queues")
CAF_ADD_ATOM(kcx_messages, kcx, ready_atom, "ready")
CAF_ADD_ATOM(kcx_messages, kcx, refill_atom, "refill")
CAF_ADD_ATOM(kcx_messages, kcx, register_atom, "register")
CAF_ADD_ATOM(kcx_messages, kcx, remove_atom, "remove")
CAF_ADD_ATOM(kcx_messages, kcx, renew_atom, "renew")
CAF_ADD_ATOM(kcx_messages, kcx, resume_atom, "resume")
CAF_ADD_ATOM(kcx_messages, kcx, retry_atom, "retry")
CAF_ADD_ATOM(kcx_messages, kcx, revoke_atom, "revoke")
CAF_ADD_ATOM(kcx_messages, kcx, rewire_atom, "rewire")
CAF_ADD_ATOM(kcx_messages, kcx, runner_atom, "runner")
CAF_ADD_ATOM(kcx_messages, kcx, slots_atom, "slots")
CAF_ADD_ATOM(kcx_messages, kcx, start_atom, "start")
CAF_ADD_ATOM(kcx_messages, kcx, stats_atom, "stats")
CAF_ADD_ATOM(kcx_messages, kcx, status_atom, "status")
CAF_ADD_ATOM(kcx_messages, kcx, step_atom, "step")
CAF_ADD_ATOM(kcx_messages, kcx, stop_atom, "stop")
CAF_ADD_ATOM(kcx_messages, kcx, subscribe_atom, "subscribe")
CAF_ADD_ATOM(kcx_messages, kcx, sweep_atom, "sweep")
CAF_ADD_ATOM(kcx_messages, kcx, swept_atom, "swept")
CAF_ADD_ATOM(kcx_messages, kcx, tick_atom, "tick")
CAF_ADD_ATOM(kcx_messages, kcx, token_atom, "token")
CAF_ADD_ATOM(kcx_messages, kcx, unfollow_atom, "unfollow")
CAF_ADD_ATOM(kcx_messages, kcx, update_atom, "update")
CAF_ADD_ATOM(kcx_messages, kcx, webhook_atom, "webhook")
CAF_ADD_ATOM(kcx_messages, kcx, why_atom, "why")
CAF_END_TYPE_ID_BLOCK(kcx_messages)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(nlohmann::json)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::attempt_key)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::attempt_result)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::bulk_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::dispatch_view)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::accepted_jobs>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::exchange_result>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::job_blockers>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::event_filter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::event_page>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::job_grant>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::job_page>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::job_record>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::log_location>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::queue_stats>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::ready_snapshot>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::submission_results>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::removed_job>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::int64_t>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::optional<kcx::timestamp>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::vector<kcx::bulk_result>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::vector<kcx::renewal>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::token_record>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::transition_result>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::vector<kcx::token_record>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::claim_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::vector<kcx::queue_info>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::queue_info>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::vector<kcx::removed_job>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::fleet)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::held_attempt)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::http_exchange_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::job_changes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::job_filter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::job_id)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::job_patch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::lease_token)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::new_token)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::outcome)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::ready_job)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::ready_notice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::remote_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::retention_policy)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::retry_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::runner_event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::step_record)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::stop_mode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::submission)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::submissions)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::timestamp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::token_uses)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::webhook_spec)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::delivery_try)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::delivery_filter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::due_deliveries>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<kcx::delivery_page>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::expected<std::vector<kcx::project_webhook>>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::worker_info)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::work_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::work_exchange)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kcx::work_offers)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<kcx::lease_token>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<kcx::worker_info>)
