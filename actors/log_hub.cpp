#include "actors/log_hub.hpp"

#include <caf/send.hpp>

#include <limits>

namespace kcx {

log_hub::log_hub(caf::actor_config& cfg, log_hub_options options) : actor_base{cfg, "log_hub"}, options_{options} {
  set_down_handler([this](const caf::down_msg& down) { host_down(down.source); });
}

log_hub::behavior_type log_hub::make_behavior() {
  return {
    [this](grew_atom, attempt_key key, std::int64_t) { grew(key); },
    [this](follow_atom, attempt_key key, follower_id follower, const follower_host_actor& host) {
      follow(key, follower, host);
    },
    [this](unfollow_atom, attempt_key key, follower_id follower) { unfollow(key, follower); },
    [this](tick_atom) { tick(); },
    [this](changed_atom, const job_changes& changes) { hear(changes); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

void log_hub::follow(attempt_key key, follower_id follower, const follower_host_actor& host) {
  topics_[key].followers[follower] = host;
  if (hosts_.insert(host.address()).second)
    monitor(host);
  // At once: what happened between the follower's last look and now would be missed.
  ++wakes_;
  caf::anon_send(host, grew_atom_v, follower);
}

void log_hub::unfollow(attempt_key key, follower_id follower) {
  const auto found = topics_.find(key);
  if (found == topics_.end())
    return;
  found->second.followers.erase(follower);
  if (found->second.followers.empty())
    topics_.erase(found);
}

void log_hub::grew(attempt_key key) {
  const auto found = topics_.find(key);
  if (found == topics_.end())
    return;
  if (window_open_) {
    found->second.grown = true;
    return;
  }
  wake(found->second);
  window_open_ = true;
  delayed_send(this, options_.window, tick_atom_v);
}

void log_hub::hear(const job_changes& changes) {
  for (const auto& change : *changes) {
    if (is_held(change.state))
      continue;
    // The attempt is over, or the whole job: its logs grow no more.
    const auto last = is_final(change.state) ? std::numeric_limits<std::int32_t>::max() : change.attempt;
    auto each = topics_.lower_bound({change.id, 0});
    while (each != topics_.end() && each->first.job == change.id && each->first.attempt <= last) {
      wake(each->second);
      each = topics_.erase(each);
    }
  }
}

void log_hub::tick() {
  window_open_ = false;
  for (auto& [key, each] : topics_) {
    if (!each.grown)
      continue;
    wake(each);
    window_open_ = true;
  }
  if (window_open_)
    delayed_send(this, options_.window, tick_atom_v);
}

void log_hub::host_down(const caf::actor_addr& host) {
  hosts_.erase(host);
  for (auto& [key, each] : topics_)
    std::erase_if(each.followers, [&host](const auto& entry) { return entry.second.address() == host; });
  std::erase_if(topics_, [](const auto& entry) { return entry.second.followers.empty(); });
}

void log_hub::wake(topic& which) {
  which.grown = false;
  for (const auto& [follower, host] : which.followers) {
    ++wakes_;
    caf::anon_send(host, grew_atom_v, follower);
  }
}

actor_status log_hub::status() const {
  std::size_t followers = 0;
  for (const auto& [key, each] : topics_)
    followers += each.followers.size();
  return {{"logs_followed", topics_.size()}, {"followers", followers}, {"wakes", wakes_}};
}

} // namespace kcx
