/// Whether a node takes jobs, as /readyz of both ports tells it.
#pragma once

#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace kcx::http {

/// What a submission would meet now, by the status of the database actor; nothing if it would be taken. Pure.
[[nodiscard]] std::optional<error> why_not_ready(const nlohmann::json& database_status);

} // namespace kcx::http
