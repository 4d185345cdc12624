/// The node's figures as Prometheus text.
#pragma once

#include "actors/inspector/actor_tree.hpp"
#include "storage/job_reader.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kcx {

/// Everything one scrape shows.
struct metrics_input {
  std::vector<actor_sample> actors;
  /// Nothing if no reader answered.
  std::optional<queue_stats> queue;
  /// What the database actor says of itself; null if it did not answer.
  nlohmann::json database;
  std::string version;
  timestamp now;
};

/// Text exposition format 0.0.4. Names are listed in docs/http_api.md: append only, never rename.
[[nodiscard]] std::string metrics_text(const metrics_input& input);

} // namespace kcx
