#include "actors/workers/worker_supervisor.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

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
  const bool in_peace = !down.reason && !busy;
  if (!in_peace && !allow_restart(where, text_of(down.reason)))
    return;
  if (busy)
    end_job(where);
  else
    abandon(where);
}

caf::typed_response_promise<outcome> worker_supervisor::stop(stop_mode mode) {
  auto promise = make_response_promise<outcome>();
  stop_promises_.push_back(promise);
  const bool first = mode == stop_mode::now && stopping_ != stop_mode::now;
  // From draining to ending now, never back.
  if (stopping_ != stop_mode::now)
    stopping_ = mode;
  for (auto& where : slots_) {
    if (first && where.now == phase::abandoning)
      where.deadline = options_.clock() + options_.last_tries;
    stop_slot(where);
  }
  if (first)
    remind();
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
    if (is_too_late(where))
      leave_unmarked(where);
    else if (where.now == phase::abandoning && !where.abandon_asked)
      abandon(where);
    if (where.now == phase::abandoning && stopping_ == stop_mode::now)
      remind();
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
  for (auto& promise : std::exchange(stop_promises_, {}))
    promise.deliver(outcome{gone});
  // The workers end by themselves: they monitor this actor.
  std::vector<unfinished_run> left;
  for (const auto& each : slots_) {
    if (each.runner)
      each.runner->kill();
    if (const auto run = each.runner ? each.runner->running() : each.left)
      left.push_back(*run);
  }
  // The next one does not know what they ran.
  if (!left.empty())
    options_.runners->sweep([clean_up = options_.clean_up, left] { std::ranges::for_each(left, clean_up); });
  slots_.clear();
  options_.runners = nullptr; // its callbacks hold this actor
  database_ = nullptr;
  dispatcher_ = nullptr;
  log_hub_ = nullptr;
}

} // namespace kcx
