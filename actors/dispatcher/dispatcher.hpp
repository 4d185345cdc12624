/// The DISPATCHER: matches ready jobs with idle workers. See dispatcher_actor in interfaces.hpp.
///
/// Everything it knows can be lost: the database decides each claim, tells a new dispatcher what is ready, and workers
/// ask again and make themselves known. It never hands out a job whose claim is not committed, and never hands a job to
/// one worker while it does not know whether another's claim of it was committed.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/dispatcher/ready_index.hpp"
#include "actors/interfaces.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

struct dispatcher_options {
  /// Ready jobs kept in memory at the most, and of one lane; see ready_index.
  std::size_t window = 50'000;
  std::size_t lane_window = 10'000;
  /// While there are more lanes than a snapshot shows, others have their turn this often.
  std::chrono::milliseconds lanes_turn{10'000};
  /// How long the database may take to answer; then the outcome counts as unknown.
  std::chrono::milliseconds request_timeout{10'000};
  /// Pause before something that failed is tried again.
  std::chrono::milliseconds retry_delay{250};
  /// How long a worker elsewhere counts as there since it asked for work last.
  std::chrono::milliseconds remote_memory{120'000};
};

class dispatcher : public actor_base<dispatcher_actor> {
public:
  dispatcher(caf::actor_config& cfg, database_actor database, dispatcher_options options = {});

  behavior_type make_behavior() override;

private:
  using grant_promise = caf::typed_response_promise<expected<job_grant>>;
  using exchange_promise = caf::typed_response_promise<expected<exchange_result>>;

  /// A worker that waits for a job.
  struct question {
    work_request request;
    attempt_holder_actor holder;
    grant_promise promise;
    /// The database has had it as an offer: it may have a grant that nobody has heard of.
    bool lent = false;
    /// When it was asked last the index had nothing for it, not even something too heavy for now: it need not be asked
    /// again before there is news that fits, and what comes may go straight to it.
    bool unserved = false;
  };

  /// A claim that the database was asked for and has not answered. `asker` is empty once nobody waits for it any more.
  struct claim {
    std::optional<question> asker;
    /// The job that was taken from the index. Absent if only an earlier grant of this nonce is asked for.
    std::optional<ready_job> job;
    claim_request request;
    /// Cancelled attempts of the job: the notice can come before the grant.
    std::vector<attempt_key> cancelled;
    bool in_flight = false;
  };
  using claim_list = std::list<claim>;

  /// A worker elsewhere that reports or waits.
  struct remote_question {
    std::uint64_t id = 0;
    remote_request request;
    exchange_promise promise;
    /// What became of the ends it reported.
    std::vector<expected<transition_result>> ended{};
    /// Of the offer that the database has or had.
    std::uint64_t nonce = 0;
    bool expired = false;
    /// As with the node's own workers.
    bool unserved = false;
  };

  /// What the database was asked for on behalf of one, and has not answered.
  struct remote_claim {
    remote_question asker;
    std::vector<ready_job> jobs;
  };
  using remote_claim_list = std::list<remote_claim>;

  struct remote_worker {
    std::vector<std::string> labels;
    std::chrono::steady_clock::time_point seen;
  };

  /// An attempt that a worker holds.
  struct holding {
    std::string worker;
    std::string project;
    std::int32_t weight = 1;
    attempt_holder_actor holder;
    /// Until the worker shows that it has it, the answer to a repeat of the question that got it.
    std::uint64_t nonce = 0;
    std::optional<job_grant> grant;
  };

  // -- what the database tells ---------------------------------------------------------------------------------------
  void subscribe();
  void take_snapshot(const ready_snapshot& snapshot);
  void hear(const ready_notice& notice);
  /// The part of a notice whose order among notices matters.
  void follow(const ready_notice& notice);
  void apply(const ready_notice& notice);
  void refill_if_needed();
  [[nodiscard]] bool is_claimed(job_id job) const;
  /// Without those whose claim is open: of these it is only remembered what was told.
  [[nodiscard]] ready_window unclaimed(ready_window window);
  /// Reads the ready jobs anew when few are left beside lanes of which nothing is known, or when it is their turn.
  void read_left_out();
  void cancel(attempt_key key);

  // -- workers -------------------------------------------------------------------------------------------------------
  grant_promise ask(work_request request, const attempt_holder_actor& holder);
  /// Answers a question that was answered before, or joins it to the claim it began. False: it is a new one.
  bool resume(question& asker);
  /// A new question of a worker means that it waits for nothing else, and holds nothing.
  void supersede(const std::string& worker);
  void adopt(const held_attempt& held, const attempt_holder_actor& holder);
  void watch(const attempt_holder_actor& holder, std::vector<std::string> labels);
  void resize(const fleet& workers);
  dispatch_view why(job_id job) const;
  /// What a job of this weight fills of the fleet's slots when this worker runs it.
  [[nodiscard]] std::int64_t filled(const std::string& worker, std::int32_t weight) const;
  /// Slots that no job's weight fills.
  [[nodiscard]] std::int64_t free_slots() const;
  [[nodiscard]] bool is_cordoned(const std::string& worker) const;
  void holder_down(const caf::down_msg& down);
  void forget(attempt_key key);
  void drain();

  // -- claims --------------------------------------------------------------------------------------------------------
  void match();
  void match_local(const std::vector<job_kind>& news);
  void open_claim(question asker, std::optional<ready_job> job);
  void send_claim(claim_list::iterator which);
  void claim_answered(claim_list::iterator which, expected<job_grant>& answer);
  void granted(claim_list::iterator which, job_grant& grant);
  void refused(claim_list::iterator which, const error& why);
  /// A job was taken and not granted: it is in the index again if it is ready as far as anybody knows, which was told
  /// while its claim was open or else is `still_ready`.
  void put_back(const ready_job& taken, bool still_ready);
  void wait_again(question asker);
  void claim_unknown(claim_list::iterator which);
  void give_back(attempt_key key);

  // -- workers elsewhere (remote.cpp) --------------------------------------------------------------------------------
  exchange_promise ask_remote(const remote_request& request);
  /// Takes jobs for it; those it gets are no longer in the index.
  std::vector<ready_job> take_for(remote_question& asker);
  void match_remote(const std::vector<job_kind>& news);
  void send_exchange(remote_question asker, std::vector<ready_job> jobs);
  void exchanged(remote_claim_list::iterator which, expected<exchange_result>& answer);
  void exchange_unknown(remote_claim_list::iterator which, const error& why);
  /// Sorts out the answers to claims; true if the storage refused them.
  bool take_grants(remote_claim& asked, std::vector<expected<job_grant>>& answers, exchange_result& told);
  void answer_or_wait(remote_question asker, exchange_result told);
  void expire_remote(std::uint64_t id);
  void hold_remote(attempt_key key, const std::string& project, std::int32_t weight);
  void forget_remote(attempt_key key);
  void take_leases(const std::vector<leased_attempt>& leased);
  void see_remote(const remote_request& request);
  void drain_remote();

  // -- offers (remote.cpp) -------------------------------------------------------------------------------------------
  /// Lends the workers that still wait to the database, if that changes anything.
  void lend();
  [[nodiscard]] work_offers offers();
  /// A job was claimed with an offer.
  void handed(const job_grant& grant);
  bool hand_to_remote(const job_grant& grant);

  // -- views (view.cpp) ----------------------------------------------------------------------------------------------
  /// The labels of every worker that is there.
  void each_worker(const std::function<void(const std::vector<std::string>&)>& what) const;
  /// How many workers that wait would take the job, and the slots of the one that comes closest to it. No
  /// slot is free for it where none waits that has its labels and takes its queue.
  void find_idle(const ready_job& job, dispatch_view& view) const;

  void remind();
  void tick();
  actor_status status() const;
  void on_stop() noexcept override;

  database_actor database_;
  dispatcher_options options_;
  ready_index index_;

  bool subscribed_ = false;
  bool subscribing_ = false;
  /// Counts subscriptions: an answer to an earlier one is stale.
  std::uint64_t subscription_ = 0;
  std::uint64_t last_notice_ = 0;
  std::vector<ready_notice> early_notices_;
  bool refilling_ = false;
  /// The subscription whose lanes give way to others when their time is up.
  std::uint64_t turn_of_ = 0;
  /// Jobs whose claim is open, as they became ready since: with other labels, perhaps.
  std::map<job_id, ready_job> told_meanwhile_;

  /// Oldest first.
  std::list<question> waiting_;
  claim_list claims_;
  std::map<attempt_key, holding> held_;
  std::list<remote_question> remote_waiting_;
  remote_claim_list remote_claims_;
  /// Attempts held by leases, with the project and weight that count against its share.
  std::map<attempt_key, std::pair<std::string, std::int32_t>> leased_;
  std::map<std::string, remote_worker> remote_workers_;
  std::uint64_t last_remote_ = 0;
  /// Nonces of the offers that the database has, and the slots that go with them.
  std::vector<std::uint64_t> lent_;
  std::int64_t lent_slots_ = 0;
  /// Workers that went away with a grant they never showed to have heard of.
  std::set<std::string> lost_;
  /// Attempts that nobody wants; true while the database is being told.
  std::map<attempt_key, bool> giving_back_;
  /// Cancelled attempts whose holder is not known yet.
  std::set<attempt_key> unclaimed_cancels_;
  /// Workers with their labels, sorted.
  std::map<caf::actor_addr, std::vector<std::string>> watched_;
  /// Without bound until the worker supervisor has told.
  std::int64_t capacity_ = INT64_MAX;
  std::vector<std::string> cordoned_;
  /// The job that free slots are kept for while the node's own workers wait.
  std::optional<job_id> reserved_for_;

  bool draining_ = false;
  bool reminded_ = false;
  /// The database could not store a claim: nothing new is tried before the next tick.
  bool holding_off_ = false;
  /// Why the database refused the last claim, if it refuses all of them.
  std::string trouble_;
  std::uint64_t granted_ = 0;
  std::uint64_t lost_races_ = 0;
  std::uint64_t unknown_ = 0;
};

} // namespace kcx
