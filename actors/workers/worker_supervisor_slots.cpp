// The part of the worker supervisor that starts, ends and follows one slot: its runner, its worker and what they left.
#include "actors/workers/worker_supervisor.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

/// Starting a process takes milliseconds, in which this actor hears nothing.
constexpr std::size_t launches_per_turn = 4;

} // namespace

// -- the line to a runner ---------------------------------------------------------------------------------------------

void worker_supervisor::line::open(std::shared_ptr<runner_link> link) {
  const std::lock_guard lock{mutex_};
  link_ = std::move(link);
}

outcome worker_supervisor::line::send(const runner_command& command) {
  const std::lock_guard lock{mutex_};
  if (!link_)
    return error{ec::system_failed, "the runner is not up", {}};
  auto sent = link_->send(command);
  // A worker that dies right after is known to have left a job behind.
  if (const auto* start = std::get_if<start_command>(&command); start != nullptr && sent) {
    running_ = {start->key, start->workspace, start->keep_workspace != keep_policy::never, start->artifacts_dir,
                start->cgroup};
  }
  return sent;
}

void worker_supervisor::line::kill() noexcept {
  const std::lock_guard lock{mutex_};
  if (link_)
    link_->kill();
}

void worker_supervisor::line::finished(attempt_key key) {
  const std::lock_guard lock{mutex_};
  if (running_ && running_->key == key)
    running_.reset();
}

std::optional<unfinished_run> worker_supervisor::line::running() const {
  const std::lock_guard lock{mutex_};
  return running_;
}

// -- what is done -----------------------------------------------------------------------------------------------------

void worker_supervisor::start_runner(slot& where) {
  where.now = phase::launching;
  where.deadline = options_.clock() + options_.runner_timeout;
  ++where.life;
  where.beats_owed = 0;
  where.runner = std::make_shared<line>();
  const auto self = worker_supervisor_actor{this};
  const auto number = where.number;
  const auto life = where.life;
  where.runner->open(options_.runners->launch(
    {[self, number, life](runner_event event) { caf::anon_send(self, runner_atom_v, number, life, std::move(event)); },
     [self, number, life] { caf::anon_send(self, exited_atom_v, number, life); }}));
  remind();
}

void worker_supervisor::start_soon(slot& where) {
  where.now = phase::pausing;
  where.deadline = options_.clock();
}

void worker_supervisor::start_due() {
  std::size_t started = 0;
  for (auto& where : slots_) {
    if (where.now != phase::pausing || options_.clock() < where.deadline)
      continue;
    if (started == launches_per_turn) {
      if (!std::exchange(starting_, true))
        caf::anon_send(worker_supervisor_actor{this}, start_atom_v);
      return;
    }
    ++started;
    start_runner(where);
  }
}

void worker_supervisor::start_runner_later(slot& where) {
  const auto now = options_.clock();
  while (!where.deaths.empty() && now - where.deaths.front() > options_.restart_window)
    where.deaths.pop_front();
  if (where.deaths.size() < 2)
    return start_runner(where);
  auto pause = options_.retry_delay;
  for (auto each = where.deaths.size(); each > 2 && pause < options_.longest_pause; --each)
    pause *= 2;
  pause = std::min(pause, options_.longest_pause);
  spdlog::warn("worker_supervisor: {} runners of {} died within {} s; the next one starts in {} ms",
               where.deaths.size(), where.name,
               std::chrono::duration_cast<std::chrono::seconds>(options_.restart_window).count(), pause.count());
  where.now = phase::pausing;
  where.deadline = now + pause;
  remind();
}

void worker_supervisor::spawn_worker(slot& where) {
  where.now = phase::working;
  where.worker = options_.make_worker(
    *this, {where.name, where.pid, [to = where.runner](const runner_command& command) { return to->send(command); },
            dispatcher_, log_hub_, address()});
  monitor(where.worker);
  if (leaves(where))
    stop_slot(where);
}

void worker_supervisor::end_job(slot& where) {
  where.now = phase::ending_job;
  where.deadline = options_.clock() + options_.runner_timeout;
  tell(where, kill_command{});
  remind();
}

void worker_supervisor::tell(slot& where, const runner_command& command) {
  // A runner that cannot be told anything is about to be reported as ended, or runs into the deadline.
  if (auto sent = where.runner->send(command); !sent)
    spdlog::warn("worker_supervisor: the runner of {} cannot be reached: {}", where.name, sent.error().message);
}

void worker_supervisor::abandon_when_empty(slot& where) {
  if (where.swept && !where.worker)
    abandon(where);
}

void worker_supervisor::abandon(slot& where) {
  if (where.now != phase::abandoning)
    where.deadline = options_.clock() + options_.last_tries;
  where.now = phase::abandoning;
  where.abandon_asked = true;
  const auto number = ++where.abandon_number;
  // The slot's address does not change: the vector never grows.
  request(database_, options_.store_timeout, abandon_atom_v, where.name)
    .then([this, &where, number](const outcome& answer) { abandoned(where, number, answer); },
          [this, &where, number](const caf::error& why) {
            abandoned(where, number, error{ec::outcome_unknown, caf::to_string(why), {}});
          });
  if (stopping_ == stop_mode::now)
    remind();
}

bool worker_supervisor::is_too_late(const slot& where) const {
  return where.now == phase::abandoning && stopping_ == stop_mode::now && options_.clock() >= where.deadline;
}

void worker_supervisor::leave_unmarked(slot& where) {
  spdlog::error(
    "worker_supervisor: what {} held is not marked, for the node is being stopped now: the next start takes "
    "it for interrupted",
    where.name);
  close(where);
}

void worker_supervisor::abandoned(slot& where, std::uint64_t number, const outcome& answer) {
  // Only the latest answer counts, and none while the tree of a runner that ended meanwhile is swept: an abandon that
  // is still on its way would end the job of the slot's next worker, which has the same name.
  if (where.now != phase::abandoning || number != where.abandon_number)
    return;
  where.abandon_asked = false;
  const bool damaged = !answer && answer.error().code == ec::storage_unusable;
  // Nothing will ever be stored there: a stop must not wait for it. The next start marks what was held.
  if (!answer && !(damaged && leaves(where)) && !is_too_late(where)) {
    // A damaged file is the database's to tell of, once: here it would be told for ever.
    if (!damaged)
      spdlog::warn("worker_supervisor: cannot mark what {} held: {}", where.name, answer.error().message);
    remind();
    return;
  }
  if (!answer && !damaged)
    leave_unmarked(where);
  else if (leaves(where))
    close(where);
  else if (where.runner)
    spawn_worker(where);
  else
    start_runner_later(where);
}

void worker_supervisor::close(slot& where) {
  if (!where.runner)
    return closed(where);
  where.now = phase::closing;
  where.deadline = options_.clock() + options_.runner_timeout;
  tell(where, quit_command{});
  remind();
}

void worker_supervisor::closed(slot& where) {
  where.now = phase::closed;
  if (!leaves(where)) // It was wanted again before it had ended.
    return start_runner(where);
  if (!stopping_ || !std::ranges::all_of(slots_, [](const auto& each) { return each.now == phase::closed; }))
    return;
  for (auto& promise : std::exchange(stop_promises_, {}))
    promise.deliver(outcome{kcx::done{}});
}

bool worker_supervisor::allow_restart(slot& where, const std::string& why) {
  ++restarts_;
  if (stopping_)
    return true;
  const auto now = options_.clock();
  where.restarts.push_back(now);
  while (now - where.restarts.front() > options_.restart_window)
    where.restarts.pop_front();
  if (where.restarts.size() <= options_.restart_limit)
    return true;
  const auto window = std::chrono::duration_cast<std::chrono::seconds>(options_.restart_window).count();
  auto text = "worker " + where.name + " had to be restarted more than " + std::to_string(options_.restart_limit) +
              " times within " + std::to_string(window) + " s, the last time because: " + why;
  spdlog::critical("worker_supervisor: {}", text);
  quit(give_up(text));
  return false;
}

void worker_supervisor::remind() {
  if (std::exchange(reminded_, true))
    return;
  delayed_send(this, options_.retry_delay, tick_atom_v);
}

} // namespace kcx
