/// The one-page map of the node: every actor's interface, and a sentence on each message.
///
/// Order is dependency order: an interface mentions only those above it. Types are in messages.hpp. "After the commit"
/// means: the answer is sent when the write is durable, never before.
#pragma once

#include "actors/messages.hpp"

#include <caf/typed_actor.hpp>

namespace kcx {

// -- what several roles share -----------------------------------------------------------------------------------------

/// Every actor answers these.
using status_actor = caf::typed_actor<
  // What it can tell about itself; shown by the inspection port.
  caf::replies_to<status_atom>::with<actor_status>,
  // Throws the text, as a bug in a handler would. Sent only where fault injection is switched on.
  caf::reacts_to<fault_atom, std::string>>;

/// Hears what became of jobs: the log hub, the scheduler, the HTTP bridge.
using change_listener_actor = caf::typed_actor<
  // One commit's changes, after that commit, in commit order.
  caf::reacts_to<changed_atom, job_changes>>;

/// Hears which jobs are ready: the dispatcher.
using ready_listener_actor = caf::typed_actor<
  // After each commit that touched a ready or cancelled job.
  caf::reacts_to<ready_atom, ready_notice>>;

/// Can be told to end an attempt: a worker, local or behind a proxy.
using attempt_holder_actor = caf::typed_actor<
  // End this attempt by its kill ladder. May arrive before the grant it concerns.
  caf::reacts_to<cancel_atom, attempt_key>>;

/// Holds followers of logs: the HTTP bridge.
using follower_host_actor = caf::typed_actor<
  // The log that this follower follows grew, or its attempt ended.
  caf::reacts_to<grew_atom, follower_id>>;

// -- storage side -----------------------------------------------------------------------------------------------------

/// The DATABASE actor: the only writer of the queue file. Every answer comes after the commit.
using database_actor = caf::typed_actor<
  // Stores all of the jobs or none.
  caf::replies_to<enqueue_atom, submission>::with<expected<accepted_jobs>>,
  // Stores those of the submissions that can be, each whole or not at all, in one commit.
  caf::replies_to<enqueue_atom, submissions>::with<expected<submission_results>>,
  // Marks one job running for one worker. Fails with not_ready if somebody else was first.
  caf::replies_to<claim_atom, claim_request>::with<expected<job_grant>>,
  // Confirms a claim. Fails with stale_attempt.
  caf::replies_to<start_atom, attempt_key>::with<outcome>,
  // Stores the state of one step of a running attempt. Fails with stale_attempt.
  caf::replies_to<step_atom, attempt_key, step_record>::with<outcome>,
  // Ends an attempt; repeating it is harmless. Fails with stale_attempt.
  caf::replies_to<complete_atom, attempt_result>::with<expected<transition_result>>,
  // Ends attempts that workers elsewhere report, and claims for them what is named, in one commit.
  caf::replies_to<exchange_atom, work_exchange>::with<expected<exchange_result>>,
  // Leases begin anew. The first time confirms the claim, and only that is a write.
  caf::replies_to<renew_atom, std::vector<lease_token>>::with<expected<std::vector<renewal>>>,
  // The grant of this lease once more. Fails with stale_attempt.
  caf::replies_to<get_atom, lease_token>::with<expected<job_grant>>,
  // Workers that wait: what fits one is claimed for it as it comes. Replaces all earlier offers.
  caf::reacts_to<offer_atom, work_offers>,
  // Ends whatever a vanished worker of the node held.
  caf::replies_to<abandon_atom, std::string>::with<outcome>,
  // Cancels a waiting job, or has a running one told. The text says who asked.
  caf::replies_to<cancel_atom, job_id, std::string>::with<expected<transition_result>>,
  // Changes a waiting job. Fails with conflict if it no longer waits.
  caf::replies_to<update_atom, job_id, job_patch>::with<expected<transition_result>>,
  // Submits a final job again, as a new one. Fails with conflict, or invalid_input about its secrets.
  caf::replies_to<retry_atom, retry_request>::with<expected<job_record>>,
  // Takes a job from the dead letters. Fails with conflict if it is none.
  caf::replies_to<discard_atom, job_id>::with<outcome>,
  // Does the same with each of a few jobs; one that fails stops no other.
  caf::replies_to<bulk_atom, bulk_request>::with<expected<std::vector<bulk_result>>>,
  // From now on (until resumed, over restarts) no job of the queue is claimed. The second text says who asked.
  caf::replies_to<pause_atom, std::string, std::string>::with<outcome>,
  caf::replies_to<resume_atom, std::string>::with<outcome>,
  // Forgets a final job; its logs are the asker's to remove. Fails with conflict.
  caf::replies_to<remove_atom, job_id>::with<expected<removed_job>>,
  // Forgets a few jobs that the policy does not keep; none left answers nothing. Their logs likewise.
  caf::replies_to<remove_atom, retention_policy>::with<expected<std::vector<removed_job>>>,
  // Stores a token. Fails with conflict if its name is taken.
  caf::replies_to<token_atom, new_token>::with<expected<token_record>>,
  // Removes a token. Fails with not_found.
  caf::replies_to<revoke_atom, std::int64_t>::with<outcome>,
  // Notes when tokens were used last.
  caf::replies_to<token_atom, token_uses>::with<outcome>,
  // The webhook of a project's jobs, from now on; removing it fails with not_found.
  caf::replies_to<webhook_atom, std::string, webhook_spec>::with<outcome>,
  caf::replies_to<webhook_atom, std::string>::with<outcome>,
  // How a try to deliver went.
  caf::replies_to<deliver_atom, delivery_try>::with<outcome>,
  // Has a delivery sent again. Fails with not_found.
  caf::replies_to<deliver_atom, std::int64_t>::with<outcome>,
  // Moves jobs that are due to the queue; answers when to ask again at the latest.
  caf::replies_to<promote_atom>::with<expected<std::optional<timestamp>>>,
  // Copies the write-ahead log into the database file; answers what is left of it, in bytes.
  caf::replies_to<checkpoint_atom>::with<expected<std::int64_t>>,
  // From now on sends ready notices to the listener; answers what is ready now.
  caf::replies_to<subscribe_atom, ready_listener_actor>::with<expected<ready_snapshot>>,
  // The next ready jobs behind the given one in its lane, for a listener whose memory of them was cut.
  caf::replies_to<refill_atom, ready_job>::with<expected<ready_snapshot>>,
  // From now on sends changes to the listener.
  caf::reacts_to<subscribe_atom, change_listener_actor>,
  // To itself: everything that came before this is one commit.
  caf::reacts_to<flush_atom>,
  // To itself: what nobody waits for has waited long enough for somebody else's commit.
  caf::reacts_to<tick_atom>,
  // To itself: leases may have run out. True: all renewals that waited before are in.
  caf::reacts_to<sweep_atom, bool>>::extend_with<status_actor>;

/// A READER: one read-only connection. Sees what is committed.
using reader_actor =
  caf::typed_actor<caf::replies_to<get_atom, job_id>::with<expected<job_record>>,
                   caf::replies_to<list_atom, job_filter>::with<expected<job_page>>,
                   // Where the log of an attempt (0: the latest) is and what bounds it.
                   caf::replies_to<log_atom, job_id, std::int32_t>::with<expected<log_location>>,
                   // Queues that have unfinished jobs or are paused, by name.
                   caf::replies_to<queues_atom>::with<expected<std::vector<queue_info>>>,
                   // One of them, or one of this name without jobs.
                   caf::replies_to<queues_atom, std::string>::with<expected<queue_info>>,
                   // Which other jobs hold this one back, or the pause of its queue.
                   caf::replies_to<why_atom, job_id>::with<expected<job_blockers>>,
                   // Changes of state behind a number, in order.
                   caf::replies_to<events_atom, event_filter>::with<expected<event_page>>,
                   caf::replies_to<token_atom>::with<expected<std::vector<token_record>>>,
                   // The webhooks of projects, by name.
                   caf::replies_to<webhook_atom>::with<expected<std::vector<project_webhook>>>,
                   // Deliveries that are to be sent by that time, some at a time and a few to one receiver.
                   caf::replies_to<deliver_atom, timestamp>::with<expected<due_deliveries>>,
                   caf::replies_to<deliver_atom, delivery_filter>::with<expected<delivery_page>>,
                   caf::replies_to<stats_atom>::with<expected<queue_stats>>>::extend_with<status_actor>;

// -- workers ----------------------------------------------------------------------------------------------------------

/// The LOG HUB: tells followers that a log grew or ended; never carries bytes.
using log_hub_actor = caf::typed_actor<
  // From a worker: the log of this attempt now has so many bytes.
  caf::reacts_to<grew_atom, attempt_key, std::int64_t>,
  // Wakes this follower of the attempt's log each time it grows, and when the attempt ends.
  caf::reacts_to<follow_atom, attempt_key, follower_id, follower_host_actor>,
  // The follower is gone.
  caf::reacts_to<unfollow_atom, attempt_key, follower_id>,
  // To itself: wakes those whose log grew since they were woken last.
  caf::reacts_to<tick_atom>>::extend_with<change_listener_actor>::extend_with<status_actor>;

/// The DISPATCHER: matches ready jobs with idle workers. All that a worker knows of the queue.
using dispatcher_actor = caf::typed_actor<
  // A worker is idle. Answered with a committed grant as soon as a fitting job is ready.
  caf::replies_to<claim_atom, work_request, attempt_holder_actor>::with<expected<job_grant>>,
  // A busy worker makes itself known to a new dispatcher.
  caf::reacts_to<register_atom, held_attempt, attempt_holder_actor>,
  // A worker elsewhere reports ends and asks for jobs. Answered after the commit, as soon as there is one, or when its
  // time is up with none.
  caf::replies_to<exchange_atom, remote_request>::with<expected<exchange_result>>,
  // To itself: that worker's time is up.
  caf::reacts_to<expire_atom, std::uint64_t>,
  // Passed on to the database.
  caf::replies_to<start_atom, attempt_key>::with<outcome>,
  caf::replies_to<step_atom, attempt_key, step_record>::with<outcome>,
  caf::replies_to<complete_atom, attempt_result>::with<expected<transition_result>>,
  // Hands out nothing more.
  caf::reacts_to<drain_atom>, caf::reacts_to<rewire_atom, database_actor>,
  // From the worker supervisor: how much fits, and who is left out.
  caf::reacts_to<fleet_atom, fleet>,
  // What holds this ready job back at the moment.
  caf::replies_to<why_atom, job_id>::with<dispatch_view>,
  // To itself: what could not be asked before is asked again.
  caf::reacts_to<tick_atom>,
  // To itself: ready jobs that the subscription of this number left out have their turn.
  caf::reacts_to<subscribe_atom, std::uint64_t>>::extend_with<ready_listener_actor>::extend_with<status_actor>;

/// A WORKER: one job at a time: claim, run, complete.
using worker_actor = caf::typed_actor<
  // From its runner's process, by way of the process thread.
  caf::reacts_to<runner_atom, runner_event>,
  // Takes nothing new; ends what runs now or lets it end.
  caf::reacts_to<stop_atom, stop_mode>, caf::replies_to<info_atom>::with<worker_info>,
  caf::reacts_to<rewire_atom, dispatcher_actor>, caf::reacts_to<rewire_atom, log_hub_actor>,
  // To itself: what was not answered is asked again.
  caf::reacts_to<tick_atom>>::extend_with<attempt_holder_actor>::extend_with<status_actor>;

/// The WORKER SUPERVISOR: keeps one worker and one runner per slot alive, and cleans up after those that die.
using worker_supervisor_actor = caf::typed_actor<
  // Every slot with what it does.
  caf::replies_to<list_atom>::with<std::vector<worker_info>>,
  // A runner process of a slot (first number) in its n-th life (second) said something, or ended.
  caf::reacts_to<runner_atom, std::uint32_t, std::uint64_t, runner_event>,
  caf::reacts_to<exited_atom, std::uint32_t, std::uint64_t>,
  // No process of a dead runner of this slot and life is left.
  caf::reacts_to<swept_atom, std::uint32_t, std::uint64_t>,
  // From now on so many slots; those beyond end with their job, new ones start one after the other. Fails with
  // draining.
  caf::replies_to<slots_atom, std::uint32_t>::with<outcome>,
  // The worker of this name is given no more jobs, or is again. Fails with not_found.
  caf::replies_to<cordon_atom, std::string, bool>::with<outcome>,
  // Stops all workers; answered when no job and no runner is left.
  caf::replies_to<stop_atom, stop_mode>::with<outcome>,
  // Makes the worker of the slot (from 1) throw; see fault_atom.
  caf::reacts_to<fault_atom, std::uint32_t, std::string>, caf::reacts_to<rewire_atom, database_actor>,
  caf::reacts_to<rewire_atom, dispatcher_actor>, caf::reacts_to<rewire_atom, log_hub_actor>,
  // To itself: more runners are to be started.
  caf::reacts_to<start_atom>,
  // To itself: what was not answered is asked again, and what takes too long is ended.
  caf::reacts_to<tick_atom>>::extend_with<status_actor>;

/// The SCHEDULER: everything that happens at a time.
using scheduler_actor = caf::typed_actor<
  // From now on final jobs are kept so.
  caf::reacts_to<update_atom, retention_policy>,
  // To itself.
  caf::reacts_to<tick_atom>, caf::reacts_to<checkpoint_atom>, caf::reacts_to<remove_atom>,
  caf::reacts_to<rewire_atom, database_actor>>::extend_with<change_listener_actor>::extend_with<status_actor>;

/// The WEBHOOK SENDER: sends what stands in the outbox, and again what failed.
using webhook_sender_actor = caf::typed_actor<
  // To itself: deliveries may be due; this one was tried.
  caf::reacts_to<tick_atom>, caf::reacts_to<deliver_atom, delivery_try>,
  // Somebody wants deliveries sent now.
  caf::reacts_to<deliver_atom>, caf::reacts_to<rewire_atom, database_actor>,
  caf::reacts_to<rewire_atom,
                 std::vector<reader_actor>>>::extend_with<change_listener_actor>::extend_with<status_actor>;

// -- the outside ------------------------------------------------------------------------------------------------------

/// The HTTP BRIDGE: requests in, typed messages out, answers back.
using http_bridge_actor =
  caf::typed_actor<caf::reacts_to<http_atom, http_exchange_ptr>,
                   // To itself: what this request's body wants stored.
                   caf::reacts_to<enqueue_atom, http_exchange_ptr, submission>,
                   // To itself: a long poll's time is up, or a follower of a log is gone. 0: time to look round.
                   caf::reacts_to<expire_atom, std::uint64_t>,
                   // From the server: nobody may wait for the answer to the request of this number any more.
                   caf::reacts_to<unfollow_atom, std::uint64_t>,
                   // To itself: the logs of the attempts that this request reports are closed. True: it is about many.
                   caf::reacts_to<exchange_atom, http_exchange_ptr, remote_request, bool>,
                   // The node drains: takes no new job.
                   caf::reacts_to<drain_atom>, caf::reacts_to<rewire_atom, database_actor>,
                   caf::reacts_to<rewire_atom, std::vector<reader_actor>>, caf::reacts_to<rewire_atom, log_hub_actor>,
                   caf::reacts_to<rewire_atom, dispatcher_actor>, caf::reacts_to<rewire_atom, worker_supervisor_actor>,
                   caf::reacts_to<rewire_atom, webhook_sender_actor>>::extend_with<change_listener_actor>::
    extend_with<follower_host_actor>::extend_with<status_actor>;

/// The INSPECTOR: the inspection port.
using inspector_actor =
  caf::typed_actor<caf::reacts_to<http_atom, http_exchange_ptr>,
                   // The actors whose own status is worth showing, by name; replaces the former list.
                   caf::reacts_to<rewire_atom, std::vector<std::pair<std::string, status_actor>>>,
                   // The node drains: it is not ready any more.
                   caf::reacts_to<drain_atom>,
                   caf::reacts_to<rewire_atom, std::vector<reader_actor>>>::extend_with<status_actor>;

/// The ROOT SUPERVISOR: starts the others in order, restarts them, stops them in reverse order.
using root_supervisor_actor = caf::typed_actor<
  // Stops the node's actors; answered when the last is gone. May be sent again, to end a drain now.
  caf::replies_to<stop_atom, stop_mode>::with<outcome>,
  // Makes the n-th actor (from 1) of this name throw. Fails with not_found; forbidden unless fault injection is on.
  caf::replies_to<fault_atom, std::string, std::uint32_t>::with<outcome>,
  // Settings that changed while the node runs, for the worker supervisor and the scheduler.
  caf::reacts_to<slots_atom, std::uint32_t>, caf::reacts_to<update_atom, retention_policy>,
  // To itself: try again to start the n-th child.
  caf::reacts_to<start_atom, std::uint32_t>>::extend_with<status_actor>;

} // namespace kcx

CAF_BEGIN_TYPE_ID_BLOCK(kcx_handles, caf::id_block::kcx_messages::end)
CAF_ADD_TYPE_ID(kcx_handles, (kcx::status_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::change_listener_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::ready_listener_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::attempt_holder_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::follower_host_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::database_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::reader_actor))
CAF_ADD_TYPE_ID(kcx_handles, (std::vector<kcx::reader_actor>))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::log_hub_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::dispatcher_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::worker_supervisor_actor))
CAF_ADD_TYPE_ID(kcx_handles, (kcx::webhook_sender_actor))
CAF_ADD_TYPE_ID(kcx_handles, (std::vector<std::pair<std::string, kcx::status_actor>>))
CAF_END_TYPE_ID_BLOCK(kcx_handles)
