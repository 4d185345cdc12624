#include "actors/webhook_sender.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

/// After the database or a reader failed.
constexpr std::chrono::milliseconds recovery_pause{1'000};
constexpr std::chrono::milliseconds shortest_wait{10};

} // namespace

webhook_sender::webhook_sender(caf::actor_config& cfg, database_actor database, std::vector<reader_actor> readers,
                               webhook_sender_options options)
  : actor_base{cfg, "webhook_sender"}, database_{std::move(database)}, readers_{std::move(readers)}, options_{std::move(
                                                                                                       options)} {}

webhook_sender::behavior_type webhook_sender::make_behavior() {
  listen();
  return {
    [this](tick_atom) {
      // One ahead of its time belongs to an earlier plan; another one is on its way.
      if (clock().now() < wake_at_)
        return;
      wake_at_ = caf::actor_clock::time_point::max();
      look();
    },
    [this](deliver_atom, const delivery_try& result) { tried(result); },
    [this](deliver_atom) { look(); },
    [this](rewire_atom, const database_actor& database) {
      database_ = database;
      listen();
    },
    [this](rewire_atom, const std::vector<reader_actor>& readers) {
      readers_ = readers;
      look();
    },
    [this](changed_atom, const job_changes& changes) { hear(changes); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

void webhook_sender::on_stop() noexcept {
  database_ = nullptr;
  readers_.clear();
}

// -- looking ----------------------------------------------------------------------------------------------------------

void webhook_sender::listen() {
  if (!database_)
    return;
  send(database_, subscribe_atom_v, change_listener_actor{webhook_sender_actor{this}});
  // The answer to anything sent after it proves that the subscription stands: what was committed before that is seen by
  // the look, what is committed after it is heard of.
  request(database_, options_.request_timeout, status_atom_v)
    .then([this](const actor_status&) { look(); }, [this](const caf::error&) { look(); });
}

void webhook_sender::hear(const job_changes& changes) {
  const auto is_told = [](const job_change& each) { return is_final(each.state) || each.state == job_state::running; };
  if (std::ranges::any_of(*changes, is_told))
    wake_in(options_.look_pause);
}

void webhook_sender::wake_in(std::chrono::milliseconds span) {
  const auto at = clock().now() + span;
  if (at >= wake_at_)
    return;
  wake_at_ = at;
  delayed_send(this, span, tick_atom_v);
}

void webhook_sender::look() {
  if (asking_) {
    ask_again_ = true;
    return;
  }
  if (readers_.empty())
    return wake_in(recovery_pause);
  asking_ = true;
  ask_again_ = false;
  noted_meanwhile_.clear();
  request(readers_[next_reader_++ % readers_.size()], options_.request_timeout, deliver_atom_v, options_.clock())
    .then([this](const expected<due_deliveries>& due) { looked(due); },
          [this](const caf::error& why) {
            looked(error{ec::timeout, caf::to_string(why), {}});
          });
}

void webhook_sender::looked(const expected<due_deliveries>& due) {
  asking_ = false;
  if (!due) {
    // A damaged file is the database's to tell of, once: here it would be told for ever.
    if (due.error().code != ec::storage_unusable)
      spdlog::warn("webhook_sender: cannot read the outbox: {}", due.error().message);
    return wake_in(recovery_pause);
  }
  for (const auto& each : due->items) {
    if (flights_.size() >= options_.parallel)
      break; // The end of one of them looks again.
    const auto receiver = receiver_of(each.url);
    const auto same = std::ranges::count_if(flights_, [&](const auto& f) { return f.second.receiver == receiver; });
    if (!flights_.contains(each.id) && !noted_meanwhile_.contains(each.id) &&
        static_cast<std::size_t>(same) < options_.parallel_to_one)
      send_out(each);
  }
  wake_in(due->next_at ? std::clamp(*due->next_at - options_.clock(), shortest_wait, options_.idle_interval)
                       : options_.idle_interval);
  if (ask_again_)
    look();
}

// -- sending ----------------------------------------------------------------------------------------------------------

void webhook_sender::send_out(const delivery& what) {
  flights_[what.id] = {receiver_of(what.url), what.tries};
  options_.send(what, [self = webhook_sender_actor{this}](const delivery_try& said) {
    caf::anon_send(self, deliver_atom_v, said);
  });
}

std::chrono::milliseconds webhook_sender::pause_after(std::int32_t tries) const {
  auto pause = options_.backoff;
  for (std::int32_t i = 1; i < tries && pause < options_.longest_backoff; ++i)
    pause *= 2;
  return std::min(pause, options_.longest_backoff);
}

void webhook_sender::tried(delivery_try result) {
  const auto found = flights_.find(result.id);
  if (found == flights_.end())
    return;
  const auto tries = found->second.tries + 1;
  result.tries = found->second.tries;
  result.at = options_.clock();
  if (result.status && *result.status / 100 == 2) {
    ++delivered_;
  } else if (tries < options_.tries) {
    ++failures_;
    result.state = delivery_state::pending;
    result.next_at = result.at + pause_after(tries);
  } else {
    ++failures_;
    ++given_up_;
    result.state = delivery_state::failed;
    spdlog::warn("webhook_sender: delivery {} to {} was given up after {} tries", result.id, found->second.receiver,
                 tries);
  }
  const auto id = result.id;
  request(database_, options_.request_timeout, deliver_atom_v, std::move(result))
    .then([this, id](const outcome& stored) { noted(id, stored); },
          [this, id](const caf::error& why) {
            noted(id, error{ec::timeout, caf::to_string(why), {}});
          });
}

void webhook_sender::noted(std::int64_t delivery, const outcome& stored) {
  flights_.erase(delivery);
  if (asking_)
    noted_meanwhile_.insert(delivery);
  if (stored)
    return look();
  // It stands in the outbox as before and is sent again.
  if (stored.error().code != ec::storage_unusable)
    spdlog::warn("webhook_sender: how delivery {} went could not be stored: {}", delivery, stored.error().message);
  wake_in(recovery_pause);
}

actor_status webhook_sender::status() const {
  return {{"sending", flights_.size()}, {"delivered", delivered_}, {"failures", failures_}, {"given_up", given_up_}};
}

} // namespace kcx
