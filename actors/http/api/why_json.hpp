/// What holds a job back, in fields and in words. Pure: what is known comes in, the document of GET /v1/jobs/{id}/why
/// goes out. Used by the bridge, which gathers it.
#pragma once

#include "actors/messages.hpp"
#include "storage/job.hpp"
#include "storage/job_reader.hpp"

#include <nlohmann/json.hpp>

namespace kcx::http {

/// A job that is not queued: its state says all.
[[nodiscard]] nlohmann::json why_document(const job_record& job, const job_blockers& others);

/// A queued job. `seen` is what the dispatcher says.
[[nodiscard]] nlohmann::json why_queued_document(const job_record& job, const dispatch_view& seen,
                                                 const job_blockers& others);

} // namespace kcx::http
