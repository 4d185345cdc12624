#include "actors/worker_supervisor.hpp"

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
    running_ = {start->key, start->workspace, start->keep_workspace != keep_policy::never, start->artifacts_dir};
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

// -- the actor --------------------------------------------------------------------------------------------------------

worker_supervisor::worker_supervisor(caf::actor_config& cfg, worker_supervisor_options options, database_actor database,
                                     dispatcher_actor dispatcher, log_hub_actor log_hub)
  : actor_base{cfg, "worker_supervisor"}, options_{std::move(options)}, database_{std::move(database)},
    dispatcher_{std::move(dispatcher)}, log_hub_{std::move(log_hub)} {
  wanted_ = options_.slots;
  while (slots_.size() < wanted_)
    add_slot();
  set_down_handler([this](const caf::down_msg& down) { worker_down(down); });
}

worker_supervisor::behavior_type worker_supervisor::make_behavior() {
  tell_fleet();
  beat();
  // Processes of an earlier supervisor or node first, for all slots: a job that was queued again must not start in one
  // slot while its former tree still lives in another.
  options_.runners->sweep(
    [self = worker_supervisor_actor{this}] { caf::anon_send(self, swept_atom_v, std::uint32_t{0}, std::uint64_t{0}); });
  return {
    [this](list_atom) { return list(); },
    [this](runner_atom, std::uint32_t number, std::uint64_t life, const runner_event& event) {
      if (auto* where = find(number, life))
        heard(*where, event);
    },
    [this](exited_atom, std::uint32_t number, std::uint64_t life) {
      if (auto* where = find(number, life))
        exited(*where);
    },
    [this](swept_atom, std::uint32_t number, std::uint64_t life) { swept(number, life); },
    [this](slots_atom, std::uint32_t slots) { return resize(slots); },
    [this](cordon_atom, const std::string& worker, bool on) { return cordon(worker, on); },
    [this](stop_atom, stop_mode mode) { return stop(mode); },
    [this](fault_atom, std::uint32_t number, const std::string& text) {
      if (number >= 1 && number <= slots_.size() && slots_[number - 1].worker)
        caf::anon_send(slots_[number - 1].worker, fault_atom_v, text);
    },
    [this](rewire_atom, const database_actor& database) { database_ = database; },
    [this](rewire_atom, const dispatcher_actor& dispatcher) {
      dispatcher_ = dispatcher;
      tell_fleet();
      to_workers([&](const auto& each) { caf::anon_send(each, rewire_atom_v, dispatcher); });
    },
    [this](rewire_atom, const log_hub_actor& log_hub) {
      log_hub_ = log_hub;
      to_workers([&](const auto& each) { caf::anon_send(each, rewire_atom_v, log_hub); });
    },
    [this](start_atom) {
      starting_ = false;
      start_due();
    },
    [this](tick_atom) { tick(); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

// -- what happens -----------------------------------------------------------------------------------------------------

void worker_supervisor::heard(slot& where, const runner_event& event) {
  where.beats_owed = 0;
  if (std::holds_alternative<pong_event>(event))
    return;
  if (const auto* ready = std::get_if<ready_event>(&event)) {
    where.pid = ready->pid;
    any_came_up_ = true;
    if (where.now == phase::launching)
      spawn_worker(where);
    return;
  }
  const auto* finished = std::get_if<finished_event>(&event);
  if (finished != nullptr)
    where.runner->finished(finished->key);
  if (where.worker)
    caf::anon_send(where.worker, runner_atom_v, event);
  if (finished != nullptr && where.now == phase::ending_job)
    abandon(where);
}

void worker_supervisor::exited(slot& where) {
  where.left = where.runner->running();
  where.runner.reset();
  const bool came_up = std::exchange(where.pid, 0) != 0;
  if (where.now == phase::closing) {
    closed(where);
    return;
  }
  spdlog::error("worker_supervisor: the runner of {} ended", where.name);
  const bool of_itself = where.now != phase::ending_job;
  where.now = phase::sweeping;
  where.swept = false;
  if (of_itself && !note_death(where, came_up))
    return;
  // The worker first: what it still reports about the lost job must not come after the job was marked.
  if (where.worker)
    send_exit(where.worker, caf::exit_reason::kill);
  options_.runners->sweep([self = worker_supervisor_actor{this}, number = where.number, life = where.life] {
    caf::anon_send(self, swept_atom_v, number, life);
  });
}

bool worker_supervisor::note_death(slot& where, bool came_up) {
  where.deaths.push_back(options_.clock());
  if (!came_up && !any_came_up_)
    return allow_restart(where, "its runner does not come up");
  ++restarts_;
  return true;
}

void worker_supervisor::swept(std::uint32_t number, std::uint64_t life) {
  for (auto& where : slots_) {
    if (where.now != phase::sweeping || (number != 0 && number != where.number) || life != where.life)
      continue;
    where.swept = true;
    if (where.left)
      options_.clean_up(*std::exchange(where.left, std::nullopt));
    abandon_when_empty(where);
  }
}

void worker_supervisor::worker_down(const caf::down_msg& down) {
  const auto found =
    std::ranges::find_if(slots_, [&](const auto& each) { return each.worker && each.worker.address() == down.source; });
  if (found == slots_.end())
    return;
  auto& where = *found;
  where.worker = nullptr;
  if (where.now == phase::sweeping)
    return abandon_when_empty(where);
  const bool busy = where.runner->running().has_value();
  if (leaves(where) && !down.reason && !busy)
    return close(where);
  spdlog::log(down.reason ? spdlog::level::err : spdlog::level::info, "worker_supervisor: worker {} went down: {}",
              where.name, text_of(down.reason));
  if (!allow_restart(where, text_of(down.reason)))
    return;
  if (busy)
    end_job(where);
  else
    abandon(where);
}

caf::typed_response_promise<outcome> worker_supervisor::stop(stop_mode mode) {
  auto promise = make_response_promise<outcome>();
  stop_promises_.push_back(promise);
  // From draining to ending now, never back.
  if (stopping_ != stop_mode::now)
    stopping_ = mode;
  for (auto& where : slots_)
    stop_slot(where);
  return promise;
}

void worker_supervisor::add_slot() {
  slot fresh;
  fresh.number = static_cast<std::uint32_t>(slots_.size()) + 1;
  fresh.name = options_.name + "/" + std::to_string(fresh.number);
  slots_.push_back(std::move(fresh));
}

outcome worker_supervisor::resize(std::uint32_t slots) {
  if (stopping_)
    return error{ec::draining, "the node is stopping", {}};
  wanted_ = slots;
  options_.resized(slots);
  for (auto& where : slots_) {
    if (leaves(where) && where.now != phase::closed)
      stop_slot(where);
    else if (!leaves(where) && where.now == phase::closed)
      start_soon(where);
  }
  while (slots_.size() < wanted_) {
    add_slot();
    start_soon(slots_.back());
  }
  start_due();
  tell_fleet();
  // The change holds, and that is the answer: a thousand runners take many seconds to come up.
  return kcx::done{};
}

outcome worker_supervisor::cordon(const std::string& worker, bool on) {
  const auto found =
    std::ranges::find_if(slots_, [&](const auto& each) { return each.name == worker && each.now != phase::closed; });
  if (found == slots_.end())
    return error{ec::not_found, "there is no worker " + worker, {}};
  found->cordoned = on;
  tell_fleet();
  return kcx::done{};
}

void worker_supervisor::tell_fleet() {
  fleet workers{0, {}};
  for (const auto& each : slots_) {
    if (each.cordoned)
      workers.cordoned.push_back(each.name);
    else if (each.number <= wanted_)
      ++workers.capacity;
  }
  if (dispatcher_)
    caf::anon_send(dispatcher_, fleet_atom_v, std::move(workers));
}

void worker_supervisor::stop_slot(slot& where) {
  switch (where.now) {
  case phase::working: caf::anon_send(where.worker, stop_atom_v, stopping_.value_or(stop_mode::drain)); break;
  case phase::pausing:
  case phase::launching: close(where); break;
  case phase::closed: closed(where); break;
  // These go on to their end, and find there that the supervisor stops.
  case phase::sweeping:
  case phase::abandoning:
  case phase::ending_job:
  case phase::closing: break;
  }
}

void worker_supervisor::tick() {
  // One message serves both: the beat is the one that comes when it is due.
  if (options_.clock() >= beat_at_)
    beat();
  else
    reminded_ = false;
  start_due();
  for (auto& where : slots_) {
    if (where.now == phase::pausing)
      remind();
    const bool waits_for_runner =
      where.now == phase::launching || where.now == phase::ending_job || where.now == phase::closing;
    if (where.now == phase::abandoning && !where.abandon_asked)
      abandon(where);
    if (!waits_for_runner)
      continue;
    if (options_.clock() >= where.deadline) {
      spdlog::error("worker_supervisor: the runner of {} does not answer: killing it", where.name);
      where.runner->kill();
      where.deadline = options_.clock() + options_.runner_timeout; // for the next word about it
    }
    remind();
  }
}

void worker_supervisor::beat() {
  beat_at_ = options_.clock() + options_.beat_every;
  delayed_send(this, options_.beat_every, tick_atom_v);
  const auto patience = stopping_ == stop_mode::now ? options_.beats_missed_stopping : options_.beats_missed;
  for (auto& where : slots_) {
    if (where.now != phase::working && where.now != phase::ending_job)
      continue;
    if (where.beats_owed >= patience) {
      spdlog::error("worker_supervisor: the runner of {} gives no sign of life: killing it", where.name);
      where.runner->kill();
      continue;
    }
    // Counted in questions, not in time: a node that was stopped for a while itself must not blame its runners.
    ++where.beats_owed;
    tell(where, ping_command{});
  }
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
  where.now = phase::abandoning;
  where.abandon_asked = true;
  const auto number = ++where.abandon_number;
  // The slot's address does not change: the vector never grows.
  request(database_, options_.store_timeout, abandon_atom_v, where.name)
    .then([this, &where, number](const outcome& answer) { abandoned(where, number, answer); },
          [this, &where, number](const caf::error& why) {
            abandoned(where, number, error{ec::outcome_unknown, caf::to_string(why), {}});
          });
}

void worker_supervisor::abandoned(slot& where, std::uint64_t number, const outcome& answer) {
  // Only the latest answer counts, and none while the tree of a runner that ended meanwhile is swept: an abandon that
  // is still on its way would end the job of the slot's next worker, which has the same name.
  if (where.now != phase::abandoning || number != where.abandon_number)
    return;
  where.abandon_asked = false;
  const bool damaged = !answer && answer.error().code == ec::storage_unusable;
  // Nothing will ever be stored there: a stop must not wait for it. The next start marks what was held.
  if (!answer && !(damaged && leaves(where))) {
    // A damaged file is the database's to tell of, once: here it would be told for ever.
    if (!damaged)
      spdlog::warn("worker_supervisor: cannot mark what {} held: {}", where.name, answer.error().message);
    remind();
    return;
  }
  if (leaves(where))
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

// -- the rest ---------------------------------------------------------------------------------------------------------

worker_supervisor::slot* worker_supervisor::find(std::uint32_t number, std::uint64_t life) {
  if (number < 1 || number > slots_.size())
    return nullptr;
  auto& where = slots_[number - 1];
  // A runner that has ended says nothing more, whatever is still on its way.
  return where.life == life && where.runner ? &where : nullptr;
}

void worker_supervisor::to_workers(const std::function<void(const worker_actor&)>& what) {
  for (const auto& each : slots_) {
    if (each.worker)
      what(each.worker);
  }
}

std::vector<worker_info> worker_supervisor::list() const {
  std::vector<worker_info> result;
  for (const auto& each : slots_) {
    if (each.now == phase::closed && !stopping_)
      continue;
    worker_info info{each.name, "starting", std::nullopt, each.pid, each.cordoned};
    if (each.runner)
      if (const auto run = each.runner->running())
        info.attempt = run->key;
    if (leaves(each))
      info.state = "stopping";
    else if (each.now == phase::working)
      info.state = info.attempt ? "busy" : "idle";
    result.push_back(std::move(info));
  }
  return result;
}

actor_status worker_supervisor::status() const {
  const auto workers = list();
  const auto busy = std::ranges::count_if(workers, [](const auto& each) { return each.attempt.has_value(); });
  return {{"slots", wanted_}, {"busy", busy}, {"restarts", restarts_}, {"stopping", stopping_.has_value()}};
}

void worker_supervisor::on_stop() noexcept {
  const error gone{ec::outcome_unknown, "the worker supervisor ended", {}};
  for (auto& promise : stop_promises_)
    promise.deliver(outcome{gone});
  // The workers end by themselves: they monitor this actor.
  for (const auto& each : slots_) {
    if (each.runner)
      each.runner->kill();
  }
  slots_.clear();
  database_ = nullptr;
  dispatcher_ = nullptr;
  log_hub_ = nullptr;
}

} // namespace kcx
