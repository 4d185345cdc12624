/// The WORKER: one job at a time: claim, run, complete. See worker_actor in interfaces.hpp.
///
/// It holds nothing that outlives it: the runner process belongs to the supervisor, which ends the job's processes and
/// has the job marked if the worker goes down. What it does not hear an answer to, it asks again; each of its writes
/// can be repeated.
///
///     idle ─ grant ─► running ─ finished ─► finishing ─ stored ─► idle
///                        └ attempt is stale ─► discarding ─ finished ─► idle
///
/// While a result is being stored the next job is asked for already: both meet in one commit. Its grant waits until the
/// result is stored, so that one job follows the other.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"
#include "actors/runner/runner_host.hpp"
#include "actors/workers/run_plan.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kcx {

struct worker_options {
  /// Stable over restarts: "node/1".
  std::string name;
  std::vector<std::string> labels;
  /// Asked for each job: some of it changes while the node runs.
  std::function<run_settings()> run = [] { return run_settings{}; };
  /// How long a question for work may stay open before it is asked again.
  std::chrono::milliseconds claim_timeout{60'000};
  /// How long the database may take to store something before it is asked again.
  std::chrono::milliseconds store_timeout{30'000};
  /// How long the database may refuse a result once the node is being stopped now: after that it is given up, and the
  /// next start takes the attempt for interrupted.
  std::chrono::milliseconds last_tries{3'000};
  /// Pause before something that failed is tried again; doubles up to the maximum.
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{2'000};
  /// Process id of the runner, for worker_info.
  std::int32_t runner_pid = 0;
};

class worker : public actor_base<worker_actor> {
public:
  /// `runner` is up and idle. The worker ends when `supervisor` does.
  worker(caf::actor_config& cfg, worker_options options, runner_sender runner, dispatcher_actor dispatcher,
         log_hub_actor log_hub, const caf::actor_addr& supervisor);

  behavior_type make_behavior() override;

private:
  enum class state : std::uint8_t { idle, running, finishing, discarding };

  // -- claiming ------------------------------------------------------------------------------------------------------
  void become_idle();
  void ask_anew();
  void ask();
  void answered(expected<job_grant>& answer);
  void take(job_grant grant);
  void pause(const char* what, const std::string& why);
  /// Completes an attempt of which no process ran.
  void finish_unstarted(attempt_outcome how, std::string message);
  void tell(const runner_command& command);

  // -- running -------------------------------------------------------------------------------------------------------
  void hear(const runner_event& event);
  void started(const started_event& event);
  void confirm();
  void confirmed(attempt_key key, const outcome& answer);
  void stepped(const step_event& event);
  void grew(const log_event& event);
  void finished(const finished_event& event);
  void cancel(attempt_key key);
  void discard();

  // -- completing ----------------------------------------------------------------------------------------------------
  void finish();
  void limit_tries();
  [[nodiscard]] bool is_too_late() const;
  void give_up(const std::string& why);
  void complete();
  void completed(attempt_key key, const expected<transition_result>& answer);

  void stop(stop_mode mode);
  void rewire(const dispatcher_actor& dispatcher);
  void tick();
  [[nodiscard]] bool holds(attempt_key key) const noexcept { return grant_ && grant_->key == key; }
  worker_info info() const;
  [[nodiscard]] attempt_holder_actor myself();

  void on_stop() noexcept override {
    dispatcher_ = nullptr;
    log_hub_ = nullptr;
  }

  worker_options options_;
  runner_sender runner_;
  dispatcher_actor dispatcher_;
  log_hub_actor log_hub_;

  state state_ = state::idle;
  std::optional<stop_mode> stopping_;

  /// The open question; 0 if there is none.
  std::uint64_t nonce_ = 0;
  bool asked_before_ = false;
  /// Counts requests, so that an answer to an earlier one is known as such.
  std::uint64_t request_ = 0;
  bool waiting_for_answer_ = false;
  std::chrono::milliseconds pause_{0};

  std::optional<job_grant> grant_;
  /// Came before the result of the one before was stored.
  std::optional<job_grant> next_;
  bool start_told_ = false;
  bool start_stored_ = false;
  bool confirming_ = false;
  bool completing_ = false;
  std::map<std::int32_t, timestamp> step_began_;
  std::optional<attempt_result> result_;
  /// Set while a result is being stored and the node is being stopped now.
  std::optional<caf::actor_clock::time_point> give_up_at_;
  /// Why the result at hand was not stored so far.
  std::string failed_;
  /// Cancelled attempts that this worker has not been granted (yet).
  std::deque<attempt_key> early_cancels_;
  std::uint64_t jobs_ = 0;
};

} // namespace kcx
