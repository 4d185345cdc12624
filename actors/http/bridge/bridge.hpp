/// The HTTP BRIDGE actor: answers the API's requests. See http_bridge_actor in interfaces.hpp.
///
/// Requests come from the server's io thread as exchanges and leave as messages to the database (writes), a reader
/// (reads), the log hub and the supervisors; the answer goes back through the exchange. No disk is touched here: log
/// bytes are read on the file threads. What a crash of this actor loses: open long polls and requests under way end as
/// 503 `outcome_unknown`, followers of logs stop being woken and are cut off.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/http/api/claim_json.hpp"
#include "actors/http/api/events.hpp"
#include "actors/http/api/parameters.hpp"
#include "actors/http/api/routes.hpp"
#include "actors/http/api/token_table.hpp"
#include "actors/http/logs/claim_logs.hpp"
#include "actors/http/logs/file_thread.hpp"
#include "actors/http/logs/log_follow.hpp"
#include "actors/http/message/exchange.hpp"
#include "actors/interfaces.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kcx {

struct bridge_settings {
  /// Who may call; shared with the server. Not null.
  std::shared_ptr<http::token_table> tokens;
  /// Logs lie below it (log_path()).
  std::filesystem::path data_dir;
  /// GET /v1/node without `state` and `slots`: version, pid, started_at, data_dir, http, inspect.
  nlohmann::json node = nlohmann::json::object();
  /// How many slots there are now.
  std::function<std::uint32_t()> slots = [] { return 1U; };
  /// Whether POST /v1/node/faults works.
  bool fault_injection = false;
  /// Where log files are read. Must outlive the actor and every response.
  http::file_executor files;
  /// How large the logs may grow that workers elsewhere send, and how secrets in them are hidden.
  std::function<log_bounds()> claim_log_bounds = [] { return log_bounds{}; };
  std::function<http::byte_mask(const std::vector<std::string>& secrets)> make_mask;
  /// Has what a removed job left on disk removed. Must not block.
  std::function<void(removed_job)> remove_files = [](removed_job) {};
  std::function<timestamp()> clock = wall_clock_now;
  std::chrono::milliseconds write_timeout{10'000};
  std::chrono::milliseconds read_timeout{5'000};
  /// Between two looks at the followers; every third one pings them.
  std::chrono::milliseconds tick{5'000};
  std::size_t jobs_per_request = 10'000;
  /// Open long polls: more are answered 503.
  std::size_t waiters = 10'000;
};

/// The actors the bridge asks.
struct bridge_peers {
  database_actor database;
  /// Used in turn. Not empty.
  std::vector<reader_actor> readers;
  log_hub_actor log_hub;
  worker_supervisor_actor workers;
  root_supervisor_actor root;
  dispatcher_actor dispatcher = {};
  webhook_sender_actor webhooks = {};
};

/// Runs in the pool; blocks nowhere.
class http_bridge : public actor_base<http_bridge_actor> {
public:
  http_bridge(caf::actor_config& cfg, bridge_peers peers, bridge_settings settings);

  behavior_type make_behavior() override;

private:
  /// Ends what waits and lets go of the others: whoever holds the dead actor's handle must keep neither clients nor
  /// actors.
  void on_stop() noexcept override;

  /// One request being answered. Copies share the exchange.
  struct call {
    http_exchange_ptr exchange = nullptr;
    /// What stands for "{id}" in the path.
    job_id job = {};
    /// What stands in the path where the route has "{name}".
    std::string name = {};

    [[nodiscard]] const http::request& request() const { return exchange->request; }
    [[nodiscard]] const http::caller& who() const { return exchange->who; }
    void answer(http::response what) const { exchange->respond(std::move(what)); }
    void answer(const error& failure) const;
    void answer_json(unsigned status, const nlohmann::json& document) const;
  };

  /// A long poll until a job is final.
  struct waiter {
    call ask;
    /// How long it waits, from when its job is known to go on; 0 once that time runs.
    std::chrono::milliseconds limit{0};
  };

  struct follower {
    job_id job;
    /// 0 until the job has an attempt.
    std::int32_t attempt = 0;
    bool events = false;
    /// A look at its job failed; the next tick looks again.
    bool look_again = false;
    http::caller who = {};
    std::weak_ptr<http::log_follow> body = {};
  };

  /// A client that follows state changes.
  struct feed {
    /// `after` is how far it was read.
    event_filter filter;
    /// The client has taken what there was.
    bool hungry = false;
    bool reading = false;
    /// There may be more than was read.
    bool behind = true;
    http::caller who = {};
    std::weak_ptr<http::event_feed> body = {};
  };
  /// Instead of a waiter's or follower's number: it is time to read for the feeds.
  static constexpr std::uint64_t wake_feeds_id = UINT64_MAX;
  /// It is time to write down which tokens were used.
  static constexpr std::uint64_t write_uses_id = UINT64_MAX - 1;

  /// A body of many jobs, a line each, under way; see lines.cpp.
  struct upload;
  struct line_chunk;

  template <class T>
  using receiver = std::function<void(expected<T>)>;

  // -- asking others (bridge.cpp) ------------------------------------------------------------------------------------

  /// Asks a reader; if it does not answer, the next one. `then` gets what came, or ec::timeout.
  template <class T, class... Ts>
  void read(const receiver<T>& then, const Ts&... what);
  template <class T, class... Ts>
  void read_from(std::size_t tries, const receiver<T>& then, const Ts&... what);
  template <class T, class Handle, class... Ts>
  void write(const Handle& to, const receiver<T>& then, Ts&&... what);
  template <class T, class Handle, class... Ts>
  void write_within(std::chrono::milliseconds limit, const Handle& to, const receiver<T>& then, Ts&&... what);
  /// Answers a write that was done with the job as it is now.
  void show_written(const call& ask, unsigned status = 200);
  [[nodiscard]] nlohmann::json shown(const job_record& job) const;
  [[nodiscard]] nlohmann::json node_document() const;
  /// Answers a call that makes or hands out jobs; true if the node drains.
  bool refuse_if_draining(const call& ask, const char* refused = "takes no new jobs") const;

  // -- handlers (bridge.cpp) -----------------------------------------------------------------------------------------

  void handle(const http_exchange_ptr& exchange);
  void dispatch(const http::route& where, const call& ask);
  void changed(const job_changes& changes);
  void expire(std::uint64_t id);
  void rewire(database_actor database);
  void subscribe();
  [[nodiscard]] actor_status status() const;

  // -- jobs (jobs.cpp) -----------------------------------------------------------------------------------------------

  void submit(const call& ask);
  void store(const call& ask, submission&& asked);
  void submitted(const call& ask, bool several, expected<accepted_jobs> accepted);
  void list(const call& ask, bool dead_letters = false);
  void get(const call& ask);
  void wait_for(const call& ask, std::chrono::milliseconds limit);
  /// Answers it if its job is final; else its time runs from now on.
  void end_wait_if_final(std::uint64_t id);
  /// The client of this request may be gone: if it is a long poll, it ends now.
  void abandoned(std::uint64_t request);
  /// Answers it with the job as it is.
  void end_wait(std::uint64_t id);
  call take_waiter(std::map<std::uint64_t, waiter>::iterator at);
  void unlist(job_id job, std::uint64_t id);
  void answer_job(const call& ask, const job_record& job) const;
  void cancel(const call& ask);
  void cancelled(const call& ask, const expected<transition_result>& result);

  // -- jobs that wait (waiting.cpp) ----------------------------------------------------------------------------------

  void patch_job(const call& ask);
  void why(const call& ask);
  void why_queued(const call& ask, const job_record& job, const job_blockers& others);

  // -- jobs that have ended (keep.cpp) -------------------------------------------------------------------------------

  void retry(const call& ask, retry_what what);
  void discard(const call& ask);
  void remove(const call& ask);

  // -- many jobs (bulk.cpp) ------------------------------------------------------------------------------------------

  struct bulk_run;
  void act_on_many(const call& ask, bulk_action action);
  void next_bulk_page(const std::shared_ptr<bulk_run>& run);
  void end_bulk_page(const std::shared_ptr<bulk_run>& run);
  static void fail_bulk(const bulk_run& run, error why);

  // -- queues (queues.cpp) -------------------------------------------------------------------------------------------

  void list_queues(const call& ask);
  void pause_queue(const call& ask);
  void resume_queue(const call& ask);
  /// Answers with the queue as it is after a change.
  void show_queue(const call& ask, const outcome& result);

  // -- workers elsewhere (claims.cpp) --------------------------------------------------------------------------------

  void claim_jobs(const call& ask);
  void renew_claim(const call& ask);
  void renew_claims(const call& ask);
  /// The calls that end one claim, and many.
  void end_claim(const call& ask, http::claim_end how);
  void end_claims(const call& ask, http::claim_end how);
  void put_claim_log(const call& ask);
  void add_to_log(const call& ask, const lease_token& token, std::uint64_t offset, const renewal& renewed);
  /// Fills in the sizes of the logs that are here, then reports.
  void report(const call& ask, http::claim_report report, std::chrono::milliseconds wait, bool several);
  void exchange(const call& ask, remote_request wanted, bool several);
  void exchanged(const call& ask, const remote_request& wanted, bool several, expected<exchange_result>& answer);
  /// Gives back what a client was granted that did not wait for it.
  void give_back(const std::vector<expected<job_grant>>& granted);
  /// Logs of a job that nobody holds any more are complete.
  void close_logs(job_id job);

  // -- logs (logs.cpp) -----------------------------------------------------------------------------------------------

  void log(const call& ask);
  void send_log(const call& ask, const http::log_query& query, std::int32_t attempt);
  void open_follower(const call& ask, const http::log_query& query, const job_record& job);
  void begin_follow(follower_id id, std::int32_t attempt);
  void follow_at_hub(follower_id id);
  void look_at(follower_id id);
  void look_at_job(follower_id id);
  void look_at_attempt(follower_id id);
  /// The next tick looks again, unless the job is no more: then its follower is cut off.
  void look_failed(follower_id id, const error& why);
  void finish_follower(follower_id id, log_summary log);
  void forget_follower(follower_id id);
  void grew(follower_id id);
  void tick();
  void start_ticking();

  // -- artifacts (artifacts.cpp) -------------------------------------------------------------------------------------

  void artifacts(const call& ask);

  // -- events (events.cpp) -------------------------------------------------------------------------------------------

  void events(const call& ask);
  /// Reads the next changes for a client that has taken the last ones.
  void read_events(std::uint64_t id);
  void got_events(std::uint64_t id, const expected<event_page>& page);
  void wake_feeds();
  void feeds_awake();

  // -- many jobs in one request (lines.cpp) --------------------------------------------------------------------------

  void submit_lines(const call& ask);
  /// Does what can be done next for an upload: take a piece of its body, or store lines.
  void advance(std::uint64_t id);
  void store_lines(std::uint64_t id);
  void fail_uploads();
  void end_chunk(std::uint64_t id, const line_chunk& chunk, const expected<submission_results>& results);

  // -- tokens (tokens.cpp) -------------------------------------------------------------------------------------------

  /// Has the answer carry the token's rate, compressed if that is asked for, and an audit line written for a call that
  /// changes something.
  void note_answer(const call& ask, const http::route& where);
  void note_use(const call& ask);
  void write_uses();
  void create_token(const call& ask);
  void list_tokens(const call& ask);
  void revoke_token(const call& ask);
  /// Ends what is open of callers whose token or session has ended.
  void end_open_calls();
  void begin_session(const call& ask);
  void end_session(const call& ask);
  void make_session_code(const call& ask);

  // -- webhooks (webhooks.cpp) ---------------------------------------------------------------------------------------

  void list_webhooks(const call& ask);
  void put_webhook(const call& ask);
  void remove_webhook(const call& ask);
  void list_deliveries(const call& ask);
  void redeliver(const call& ask);

  // -- node (node.cpp) -----------------------------------------------------------------------------------------------

  void list_workers(const call& ask);
  void stats(const call& ask);
  void patch_node(const call& ask);
  void cordon(const call& ask, bool on);
  void drain(const call& ask);
  void fault_in(const call& ask);
  void ready(const call& ask);

  bridge_peers peers_;
  bridge_settings settings_;
  /// Shared with work on the file threads.
  std::shared_ptr<http::claim_logs> claim_logs_;
  std::size_t next_reader_ = 0;
  bool draining_ = false;
  std::uint64_t requests_ = 0;

  /// Names waiters and followers; 0 is the tick.
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, waiter> waiters_;
  std::map<follower_id, follower> followers_;
  /// Claims that wait for a job.
  std::map<std::uint64_t, call> claims_;
  /// Waiters and followers of a job.
  std::unordered_multimap<std::int64_t, std::uint64_t> by_job_;
  std::map<std::uint64_t, feed> feeds_;
  std::map<std::uint64_t, std::shared_ptr<upload>> uploads_;
  bool feeds_waking_ = false;
  bool uses_pending_ = false;
  bool ticking_ = false;
  std::uint64_t ticks_ = 0;
};

} // namespace kcx
