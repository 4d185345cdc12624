/// The queue's figures as JSON, on both ports alike.
#pragma once

#include "storage/job_reader.hpp"

#include <nlohmann/json.hpp>

namespace kcx::http {

/// {"jobs": {every state: count}, "oldest_queued_at", "database_bytes", "wal_bytes"}.
[[nodiscard]] nlohmann::json stats_document(const queue_stats& stats);

} // namespace kcx::http
