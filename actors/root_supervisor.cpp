#include "actors/root_supervisor.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>

namespace kcx {

std::string_view to_string(child which) noexcept {
  switch (which) {
  case child::database: return "database";
  case child::readers: return "reader";
  case child::log_hub: return "log_hub";
  case child::dispatcher: return "dispatcher";
  case child::worker_supervisor: return "worker_supervisor";
  case child::scheduler: return "scheduler";
  case child::webhook_sender: return "webhook_sender";
  case child::http_bridge: return "http_bridge";
  case child::inspector: return "inspector";
  }
  return "unknown";
}

root_supervisor::root_supervisor(caf::actor_config& cfg, root_options options)
  : actor_base{cfg, "root_supervisor"}, options_{std::move(options)} {
  set_down_handler([this](const caf::down_msg& down) { child_down(down); });
}

root_supervisor::behavior_type root_supervisor::make_behavior() {
  actors_.root = root_supervisor_actor{this};
  start_all();
  return {
    [this](stop_atom, stop_mode mode) { return stop(mode); },
    [this](fault_atom, const std::string& name, std::uint32_t index) { return inject_fault(name, index); },
    [this](slots_atom, std::uint32_t slots) { caf::anon_send(actors_.worker_supervisor, slots_atom_v, slots); },
    [this](update_atom, const retention_policy& keep) { caf::anon_send(actors_.scheduler, update_atom_v, keep); },
    [this](start_atom, std::uint32_t which) { start_again(which); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

// -- handlers ---------------------------------------------------------------------------------------------------------

caf::typed_response_promise<outcome> root_supervisor::stop(stop_mode mode) {
  auto promise = make_response_promise<outcome>();
  stop_promises_.push_back(promise);
  if (phase_ == phase::stopping_children)
    return promise;
  if (mode == stop_mode::drain && phase_ == phase::running && options_.draining)
    options_.draining();
  phase_ = phase::stopping_workers;
  tell_draining();
  // A drain may take as long as a job does: its bound is the caller's, who asks again with stop_mode::now.
  request(actors_.worker_supervisor, caf::infinite, stop_atom_v, mode)
    .then([this](const outcome&) { workers_stopped(); },
          [this](const caf::error& problem) {
            spdlog::error("root_supervisor: the worker supervisor did not stop: {}", caf::to_string(problem));
            workers_stopped();
          });
  return promise;
}

outcome root_supervisor::inject_fault(const std::string& name, std::uint32_t index) {
  if (!options_.fault_injection)
    return error{ec::forbidden, "fault injection is off; start the node with --fault-injection", {}};
  const std::string text = "asked for over HTTP";
  if (name == "worker") {
    caf::anon_send(actors_.worker_supervisor, fault_atom_v, index, text);
    return kcx::done{};
  }
  const auto throw_in = [&](const auto& handle) -> outcome {
    caf::anon_send(handle, fault_atom_v, text);
    return kcx::done{};
  };
  if (name == "reader" && index >= 1 && index <= actors_.readers.size())
    return throw_in(actors_.readers[index - 1]);
  if (index == 1) {
    if (name == to_string(child::database))
      return throw_in(actors_.database);
    if (name == to_string(child::log_hub))
      return throw_in(actors_.log_hub);
    if (name == to_string(child::dispatcher))
      return throw_in(actors_.dispatcher);
    if (name == to_string(child::worker_supervisor))
      return throw_in(actors_.worker_supervisor);
    if (name == to_string(child::scheduler))
      return throw_in(actors_.scheduler);
    if (name == to_string(child::webhook_sender))
      return throw_in(actors_.webhook_sender);
    if (name == to_string(child::http_bridge))
      return throw_in(actors_.http_bridge);
    if (name == to_string(child::inspector))
      return throw_in(actors_.inspector);
  }
  return error{ec::not_found, "there is no actor " + name + " number " + std::to_string(index), {}};
}

void root_supervisor::start_again(std::uint32_t which) {
  const auto what = static_cast<child>(which);
  if (phase_ != phase::stopping_children && start(what))
    rewire(what);
}

void root_supervisor::child_down(const caf::down_msg& down) {
  const auto found = living_.find(down.source);
  if (found == living_.end())
    return;
  const auto which = found->second;
  living_.erase(found);
  if (which == child::readers)
    std::erase_if(actors_.readers, [&](const auto& each) { return each.address() == down.source; });
  if (phase_ == phase::stopping_children)
    return stop_next();
  spdlog::error("root_supervisor: {} went down: {}", to_string(which), text_of(down.reason));
  if (phase_ == phase::stopping_workers && which == child::worker_supervisor)
    return; // The request that stops it has failed with it, and goes on from there.
  if (allow_restart(which, down.reason) && start(which))
    rewire(which);
}

actor_status root_supervisor::status() const {
  actor_status restarts = actor_status::object();
  for (std::size_t i = 0; i < child_count; ++i)
    restarts[std::string{to_string(static_cast<child>(i))}] = restarts_[i];
  return {{"restarts", std::move(restarts)},
          {"recent_restarts", recent_restarts_.size()},
          {"restart_limit", options_.restart_limit}};
}

// -- starting ---------------------------------------------------------------------------------------------------------

void root_supervisor::start_all() {
  for (std::size_t i = 0; i < child_count; ++i) {
    if (!start(static_cast<child>(i))) {
      quit(caf::make_error(caf::sec::runtime_error, "the node's actors could not be started"));
      return;
    }
  }
  subscribe(child::database);
  if (options_.wired)
    options_.wired(actors_);
}

bool root_supervisor::start(child which) {
  auto& make = options_.factories;
  switch (which) {
  case child::database: return take(make.database(*this), actors_.database, which);
  case child::readers:
    while (actors_.readers.size() < make.readers) {
      reader_actor made;
      if (!take(make.reader(*this), made, which))
        return false;
      actors_.readers.push_back(std::move(made));
    }
    return true;
  case child::log_hub: adopt(actors_.log_hub, make.log_hub(*this), which); break;
  case child::dispatcher: adopt(actors_.dispatcher, make.dispatcher(*this, actors_), which); break;
  case child::worker_supervisor: adopt(actors_.worker_supervisor, make.worker_supervisor(*this, actors_), which); break;
  case child::scheduler: adopt(actors_.scheduler, make.scheduler(*this, actors_), which); break;
  case child::webhook_sender: adopt(actors_.webhook_sender, make.webhook_sender(*this, actors_), which); break;
  case child::http_bridge: adopt(actors_.http_bridge, make.http_bridge(*this, actors_), which); break;
  case child::inspector: adopt(actors_.inspector, make.inspector(*this, actors_), which); break;
  }
  return true;
}

template <class Handle>
bool root_supervisor::take(expected<Handle> made, Handle& place, child which) {
  if (made) {
    adopt(place, *std::move(made), which);
    return true;
  }
  spdlog::error("root_supervisor: {} cannot start: {}", to_string(which), made.error().message);
  // The next try counts as a restart, so a cause that stays ends the node instead of being retried for ever.
  if (allow_restart(which, caf::make_error(caf::sec::runtime_error, made.error().message)))
    delayed_send(root_supervisor_actor{this}, options_.retry_delay, start_atom_v, static_cast<std::uint32_t>(which));
  return false;
}

template <class Handle>
void root_supervisor::adopt(Handle& place, Handle made, child which) {
  monitor(made);
  living_.emplace(made.address(), which);
  place = std::move(made);
}

void root_supervisor::rewire(child which) {
  const auto& a = actors_;
  switch (which) {
  case child::database:
    caf::anon_send(a.dispatcher, rewire_atom_v, a.database);
    caf::anon_send(a.worker_supervisor, rewire_atom_v, a.database);
    caf::anon_send(a.scheduler, rewire_atom_v, a.database);
    caf::anon_send(a.webhook_sender, rewire_atom_v, a.database);
    caf::anon_send(a.http_bridge, rewire_atom_v, a.database);
    break;
  case child::readers:
    caf::anon_send(a.webhook_sender, rewire_atom_v, a.readers);
    caf::anon_send(a.http_bridge, rewire_atom_v, a.readers);
    caf::anon_send(a.inspector, rewire_atom_v, a.readers);
    break;
  case child::log_hub:
    caf::anon_send(a.worker_supervisor, rewire_atom_v, a.log_hub);
    caf::anon_send(a.http_bridge, rewire_atom_v, a.log_hub);
    break;
  case child::dispatcher:
    caf::anon_send(a.worker_supervisor, rewire_atom_v, a.dispatcher);
    caf::anon_send(a.http_bridge, rewire_atom_v, a.dispatcher);
    break;
  case child::worker_supervisor: caf::anon_send(a.http_bridge, rewire_atom_v, a.worker_supervisor); break;
  case child::webhook_sender: caf::anon_send(a.http_bridge, rewire_atom_v, a.webhook_sender); break;
  case child::scheduler:
  case child::http_bridge:
  case child::inspector: break; // Nobody depends on these.
  }
  subscribe(which);
  if (phase_ == phase::stopping_workers) {
    // A child that was born in the middle of a drain drains as well.
    tell_draining();
  }
  if (options_.wired)
    options_.wired(actors_);
}

void root_supervisor::tell_draining() {
  caf::anon_send(actors_.http_bridge, drain_atom_v);
  caf::anon_send(actors_.inspector, drain_atom_v);
  caf::anon_send(actors_.dispatcher, drain_atom_v);
}

void root_supervisor::subscribe(child which) {
  // A new database knows no listener; a new listener is unknown to the database.
  const bool all = which == child::database;
  const auto to_changes = [this](const auto& listener) {
    caf::anon_send(actors_.database, subscribe_atom_v, caf::actor_cast<change_listener_actor>(listener));
  };
  if (all || which == child::log_hub)
    to_changes(actors_.log_hub);
  if (all || which == child::scheduler)
    to_changes(actors_.scheduler);
  if (all || which == child::http_bridge)
    to_changes(actors_.http_bridge);
}

bool root_supervisor::allow_restart(child which, const caf::error& reason) {
  ++restarts_[static_cast<std::size_t>(which)];
  const auto now = options_.clock();
  recent_restarts_.push_back(now);
  while (now - recent_restarts_.front() > options_.restart_window)
    recent_restarts_.pop_front();
  if (!gave_up(reason) && recent_restarts_.size() <= options_.restart_limit)
    return true;
  auto text =
    "gave up after too many restarts, the last one of " + std::string{to_string(which)} + ": " + text_of(reason);
  spdlog::critical("root_supervisor: {}", text);
  quit(give_up(text));
  return false;
}

void root_supervisor::on_stop() noexcept {
  // Empty after a stop; after giving up, nobody else would end the children.
  for (const auto& [address, which] : living_)
    send_exit(address, caf::exit_reason::kill);
  actors_ = {};
  options_ = {};
}

// -- stopping ---------------------------------------------------------------------------------------------------------

void root_supervisor::workers_stopped() {
  if (phase_ == phase::stopping_children)
    return;
  phase_ = phase::stopping_children;
  if (options_.close_listeners)
    options_.close_listeners();
  stop_next();
}

void root_supervisor::stop_next() {
  // The reverse order of starting, but the database goes last: the readers' connections must be closed before its own,
  // and the others may still have something to write.
  if (living_.empty()) {
    for (auto& promise : stop_promises_)
      promise.deliver(outcome{kcx::done{}});
    stop_promises_.clear();
    quit();
    return;
  }
  const auto last =
    std::ranges::max_element(living_, {}, [](const auto& entry) { return static_cast<int>(entry.second); });
  send_exit(last->first, caf::exit_reason::user_shutdown);
}

} // namespace kcx
