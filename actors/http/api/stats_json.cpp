#include "actors/http/api/stats_json.hpp"

namespace kcx::http {

nlohmann::json stats_document(const queue_stats& stats) {
  auto jobs = nlohmann::json::object();
  for (auto number = 0; number <= static_cast<int>(job_state::skipped); ++number) {
    const auto state = static_cast<job_state>(number);
    const auto found = stats.jobs_by_state.find(state);
    jobs[std::string{to_string(state)}] = found == stats.jobs_by_state.end() ? 0 : found->second;
  }
  nlohmann::json document{{"jobs", std::move(jobs)},
                          {"oldest_queued_at", nullptr},
                          {"database_bytes", stats.database_bytes},
                          {"wal_bytes", stats.wal_bytes}};
  if (stats.oldest_queued_at)
    document["oldest_queued_at"] = to_rfc3339(*stats.oldest_queued_at);
  return document;
}

} // namespace kcx::http
