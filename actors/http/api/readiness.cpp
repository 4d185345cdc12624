#include "actors/http/api/readiness.hpp"

namespace kcx::http {

std::optional<error> why_not_ready(const nlohmann::json& database_status) {
  if (!database_status.is_object())
    return error{ec::timeout, "the database did not answer", {}};
  if (const auto damage = database_status.find("damage"); damage != database_status.end() && damage->is_string())
    return error{ec::storage_unusable, damage->get<std::string>(), {}};
  if (database_status.value("disk_full", false))
    return error{ec::storage_full, "the disk of the data directory is too full to take new work", {}};
  return std::nullopt;
}

} // namespace kcx::http
