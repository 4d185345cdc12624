/// The living actors as the inspection port shows them: read from the registry's counters, so that a stuck one shows.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace kcx {

/// One moment of one actor.
struct actor_sample {
  std::uint64_t id = 0;
  /// 0 for a root.
  std::uint64_t parent = 0;
  std::string name;
  bool own_thread = false;
  std::uint64_t mailbox = 0;
  std::uint64_t received = 0;
  std::uint64_t handled = 0;
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds longest{0};
  /// How long the handler at work has been running; negative while idle.
  std::chrono::nanoseconds in_handler{-1};
  /// How many actors of this name died and were replaced; one that ended in peace, as that of a slot too many, is none.
  std::uint64_t restarts = 0;
};

/// Any thread.
[[nodiscard]] std::vector<actor_sample> sample_actors();

/// One entry of /actors. `status` is what the actor said of itself, null if it was not asked or did not answer.
[[nodiscard]] nlohmann::json actor_document(const actor_sample& actor, const nlohmann::json& status);

} // namespace kcx
