#include "config/error.hpp"

namespace kcx {

std::string_view to_string(ec code) noexcept {
  switch (code) {
  case ec::none: return "none";
  case ec::invalid_input: return "invalid_input";
  case ec::not_found: return "not_found";
  case ec::gone: return "gone";
  case ec::conflict: return "conflict";
  case ec::not_ready: return "not_ready";
  case ec::stale_attempt: return "stale_attempt";
  case ec::outcome_unknown: return "outcome_unknown";
  case ec::storage_full: return "storage_full";
  case ec::storage_busy: return "storage_busy";
  case ec::storage_failed: return "storage_failed";
  case ec::storage_unusable: return "storage_unusable";
  case ec::draining: return "draining";
  case ec::unauthorized: return "unauthorized";
  case ec::forbidden: return "forbidden";
  case ec::timeout: return "timeout";
  case ec::system_failed: return "system_failed";
  case ec::invalid_setting: return "invalid_setting";
  case ec::data_in_use: return "data_in_use";
  case ec::internal: return "internal";
  case ec::idempotency_conflict: return "idempotency_conflict";
  }
  return "unknown";
}

} // namespace kcx
