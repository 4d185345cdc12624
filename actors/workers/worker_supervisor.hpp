/// The WORKER SUPERVISOR: one slot is a runner process and the worker that uses it. See worker_supervisor_actor in
/// interfaces.hpp.
///
/// Whatever dies, the order is the same: first the job's process tree is empty, then the database ends what the worker
/// held, then the slot goes on. So a job marked as crashed has no process left, and none runs twice. The database's
/// fencing settles who came first where a crash and a completion meet.
///
///     launching ─ ready ─► working ─ worker down, job running ─► ending_job ─ finished ─► abandoning ─► working
///                             └ runner ended (or never came up) ─► sweeping ─ swept ─► abandoning ─► pausing ─►
///                             launching
///
/// A job may kill or stop its runner, and so take its slot out of service for a while, but never the node: runners that
/// die are started again after ever longer pauses, and one that does not answer is killed.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/interfaces.hpp"
#include "actors/runner/runner_host.hpp"
#include "actors/workers/leftovers.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kcx {

/// What a new worker is given.
struct worker_place {
  std::string name;
  std::int32_t runner_pid = 0;
  runner_sender runner;
  dispatcher_actor dispatcher;
  log_hub_actor log_hub;
  /// The worker ends with it.
  caf::actor_addr supervisor;
};

struct worker_supervisor_options {
  /// Workers are called `<name>/<slot>`, from 1; the same over restarts.
  std::string name = "node";
  std::uint32_t slots = 1;
  /// Told of each change of their number. Must not block.
  std::function<void(std::uint32_t slots)> resized = [](std::uint32_t) {};
  std::shared_ptr<runner_host> runners;
  /// Spawns a worker as a child of `parent`.
  std::function<worker_actor(caf::local_actor& parent, worker_place place)> make_worker;

  /// Removes what a dead runner left, once its processes are gone. Must not block: called from the actor.
  std::function<void(unfinished_run left)> clean_up = [](const unfinished_run&) {};

  /// More than `restart_limit` restarts of one slot within `restart_window` end the supervisor, and the node: of its
  /// worker, or of its runner as long as no runner of this node has ever come up.
  std::size_t restart_limit = 5;
  std::chrono::milliseconds restart_window{60'000};
  /// How long a runner may take to come up, to end a job's tree by KILL, or to quit; then it is killed itself.
  std::chrono::milliseconds runner_timeout{10'000};
  /// A runner is asked for a sign of life so often, and killed once it owes `beats_missed` of them, or
  /// `beats_missed_stopping` while all stop at once.
  std::chrono::milliseconds beat_every{5'000};
  int beats_missed = 6;
  int beats_missed_stopping = 2;
  /// The second death of a runner of a slot within `restart_window` is followed by a pause of `retry_delay`, each
  /// further one by a pause twice as long, up to this.
  std::chrono::milliseconds longest_pause{30'000};
  /// How long the database may take to end what a worker held before it is asked again.
  std::chrono::milliseconds store_timeout{30'000};
  /// How long it may refuse that once the node is being stopped now; the next start marks what is left.
  std::chrono::milliseconds last_tries{3'000};
  /// Pause before something is tried or looked at again.
  std::chrono::milliseconds retry_delay{250};
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Gives up (see give_up()) with a text if a slot cannot be kept alive. When it ends, so do all workers
/// and runners; a new one begins with ending what is left of theirs.
class worker_supervisor : public actor_base<worker_supervisor_actor> {
public:
  worker_supervisor(caf::actor_config& cfg, worker_supervisor_options options, database_actor database,
                    dispatcher_actor dispatcher, log_hub_actor log_hub);

  behavior_type make_behavior() override;

private:
  enum class phase : std::uint8_t { sweeping, abandoning, pausing, launching, working, ending_job, closing, closed };

  /// A runner and what it runs. Shared with the worker, which sends commands from another thread.
  class line {
  public:
    void open(std::shared_ptr<runner_link> link);
    outcome send(const runner_command& command);
    void kill() noexcept;
    void finished(attempt_key key);
    /// What runs, with what it leaves behind if the runner dies.
    [[nodiscard]] std::optional<unfinished_run> running() const;

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<runner_link> link_;
    std::optional<unfinished_run> running_;
  };

  struct slot {
    std::uint32_t number = 0;
    std::string name;
    phase now = phase::sweeping;
    /// Counts runners: what an earlier one says is stale.
    std::uint64_t life = 0;
    /// Set while a runner lives.
    std::shared_ptr<line> runner;
    std::int32_t pid = 0;
    worker_actor worker;
    bool cordoned = false;
    bool swept = false;
    /// By the last runner.
    std::optional<unfinished_run> left;
    bool abandon_asked = false;
    std::uint64_t abandon_number = 0;
    std::chrono::steady_clock::time_point deadline{};
    std::deque<std::chrono::steady_clock::time_point> restarts;
    /// When its runners died of themselves, within the window.
    std::deque<std::chrono::steady_clock::time_point> deaths;
    /// Signs of life that its runner owes.
    int beats_owed = 0;
  };

  // -- what happens --------------------------------------------------------------------------------------------------
  void heard(slot& where, const runner_event& event);
  void exited(slot& where);
  void swept(std::uint32_t number, std::uint64_t life);
  void worker_down(const caf::down_msg& down);
  caf::typed_response_promise<outcome> stop(stop_mode mode);
  outcome resize(std::uint32_t slots);
  outcome cordon(const std::string& worker, bool on);
  /// Tells the dispatcher how much fits.
  void tell_fleet();
  void add_slot();
  /// The slot is to end with what it does: all stop, or it is one too many.
  [[nodiscard]] bool leaves(const slot& where) const noexcept { return stopping_ || where.number > wanted_; }
  void stop_slot(slot& where);
  void tick();
  /// Asks every runner for a sign of life.
  void beat();
  /// The runner of `where` died without being told to. False if the supervisor ends because of it.
  bool note_death(slot& where, bool came_up);

  // -- what is done --------------------------------------------------------------------------------------------------
  void start_runner(slot& where);
  /// The next start_due() does it.
  void start_soon(slot& where);
  /// Starts a few of the runners whose pause is over, and sees to it that the others follow.
  void start_due();
  void start_runner_later(slot& where);
  void spawn_worker(slot& where);
  void end_job(slot& where);
  void tell(slot& where, const runner_command& command);
  void abandon_when_empty(slot& where);
  void abandon(slot& where);
  void abandoned(slot& where, std::uint64_t number, const outcome& answer);
  /// What the slot held was not marked in time, while all stop now.
  [[nodiscard]] bool is_too_late(const slot& where) const;
  void leave_unmarked(slot& where);
  void close(slot& where);
  void closed(slot& where);
  /// Notes a restart; false if it was one too many, and then the supervisor ends.
  bool allow_restart(slot& where, const std::string& why);
  void remind();

  [[nodiscard]] slot* find(std::uint32_t number, std::uint64_t life);
  void to_workers(const std::function<void(const worker_actor&)>& what);
  std::vector<worker_info> list() const;
  actor_status status() const;
  void on_stop() noexcept override;

  worker_supervisor_options options_;
  database_actor database_;
  dispatcher_actor dispatcher_;
  log_hub_actor log_hub_;
  /// Those beyond `wanted_` are closed, or about to be. Addresses stay: it only grows.
  std::deque<slot> slots_;
  std::uint32_t wanted_ = 0;
  std::optional<stop_mode> stopping_;
  std::vector<caf::typed_response_promise<outcome>> stop_promises_;
  bool reminded_ = false;
  /// A start_atom is on its way.
  bool starting_ = false;
  std::chrono::steady_clock::time_point beat_at_{};
  bool any_came_up_ = false;
  std::uint64_t restarts_ = 0;
};

} // namespace kcx
