#include "actors/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace kcx {

namespace {

/// Between two rounds when more is due than one round promotes.
constexpr std::chrono::milliseconds shortest_sleep{10};

constexpr std::chrono::milliseconds shortest_retention_interval{500};

void complain(const char* what, const error& failure) {
  // A damaged file is the database's to tell of, once: here it would be told for ever.
  if (failure.code != ec::storage_unusable)
    spdlog::warn("scheduler: {}: {}", what, failure.message);
}

} // namespace

scheduler::scheduler(caf::actor_config& cfg, database_actor database, scheduler_options options)
  : actor_base{cfg, "scheduler"}, database_{std::move(database)}, options_{std::move(options)} {}

scheduler::behavior_type scheduler::make_behavior() {
  promote();
  delayed_send(this, options_.checkpoint_interval, checkpoint_atom_v);
  delayed_send(this, options_.retention_pause, remove_atom_v);
  return {
    [this](update_atom, const retention_policy& policy) { retain(policy); },
    [this](tick_atom) { tick(); },
    [this](checkpoint_atom) { checkpoint(); },
    [this](remove_atom) { remove_expired(); },
    [this](rewire_atom, const database_actor& database) {
      database_ = database;
      promote();
    },
    [this](changed_atom, const job_changes& changes) { hear(changes); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

void scheduler::hear(const job_changes& changes) {
  for (const auto& each : *changes)
    if (each.attempt > 0 && !is_held(each.state))
      options_.attempt_ended({each.id, each.attempt});
  // When it is due stands in the database only: ask.
  if (std::ranges::any_of(*changes, [](const auto& each) { return each.timed || each.state == job_state::scheduled; }))
    promote();
}

void scheduler::promote() {
  if (asking_) {
    ask_again_ = true;
    return;
  }
  asking_ = true;
  ask_again_ = false;
  request(database_, options_.request_timeout, promote_atom_v)
    .then([this](const expected<std::optional<timestamp>>& answer) { promoted(answer); },
          [this](const caf::error& why) {
            promoted(error{ec::timeout, caf::to_string(why), {}});
          });
}

void scheduler::promoted(const expected<std::optional<timestamp>>& answer) {
  asking_ = false;
  ++promotions_;
  if (!answer) {
    complain("cannot promote what is due", answer.error());
    wake_in(options_.watch_interval);
    return;
  }
  next_due_ = *answer;
  if (ask_again_)
    promote();
  else if (next_due_)
    wake_in(std::clamp(*next_due_ - options_.clock(), shortest_sleep, options_.watch_interval));
  else
    wake_in(options_.idle_interval);
}

void scheduler::wake_in(std::chrono::milliseconds span) {
  wake_at_ = clock().now() + span;
  delayed_send(this, span, tick_atom_v);
}

void scheduler::tick() {
  // A tick ahead of its time belongs to an earlier plan; another one is on its way.
  if (clock().now() < wake_at_)
    return;
  wake_at_ = caf::actor_clock::time_point::max();
  promote();
}

void scheduler::checkpoint() {
  const auto again = [this] { delayed_send(this, options_.checkpoint_interval, checkpoint_atom_v); };
  request(database_, options_.request_timeout, checkpoint_atom_v)
    .then(
      [this, again](const expected<std::int64_t>& answer) {
        if (answer)
          wal_bytes_ = *answer;
        else
          complain("the write-ahead log was not copied", answer.error());
        again();
      },
      [again](const caf::error& why) {
        spdlog::warn("scheduler: the write-ahead log was not copied: {}", caf::to_string(why));
        again();
      });
}

void scheduler::retain(const retention_policy& policy) {
  // The look that is on its way uses it.
  options_.retention = policy;
}

std::chrono::milliseconds scheduler::retention_interval() const {
  auto interval = options_.retention_interval;
  for (const auto& [state, rule] : options_.retention) {
    // Short times are for tests and small disks: then a look every minute would be too rare.
    if (rule.age)
      interval = std::clamp(*rule.age / 2, std::min(shortest_retention_interval, interval), interval);
  }
  return interval;
}

void scheduler::remove_expired() {
  if (options_.retention.empty()) {
    delayed_send(this, retention_interval(), remove_atom_v);
    return;
  }
  request(database_, options_.removal_timeout, remove_atom_v, options_.retention)
    .then([this](const expected<std::vector<removed_job>>& answer) { removed(answer); },
          [this](const caf::error& why) {
            removed(error{ec::timeout, caf::to_string(why), {}});
          });
}

void scheduler::removed(const expected<std::vector<removed_job>>& answer) {
  if (!answer)
    complain("jobs that need not be kept were not removed", answer.error());
  const bool some = answer && !answer->empty();
  if (some) {
    removed_ += answer->size();
    options_.remove_files(*answer);
  }
  delayed_send(this, some ? options_.retention_pause : retention_interval(), remove_atom_v);
}

actor_status scheduler::status() const {
  return {{"next_due", next_due_ ? actor_status(to_rfc3339(*next_due_)) : actor_status{}},
          {"promotions", promotions_},
          {"removed_jobs", removed_},
          {"wal_bytes", wal_bytes_}};
}

} // namespace kcx
