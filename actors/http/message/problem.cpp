#include "actors/http/message/problem.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace kcx::http {

namespace {

using namespace std::chrono_literals;

struct row {
  ec code;
  problem_kind kind;
};

// One row per ec. A status of 503 or 507 tells the client to send the same request again after Retry-After.
constexpr row rows[] = {
  {ec::none, {"internal", 500, "Internal error"}},
  {ec::invalid_input, {"invalid_input", 422, "Invalid input"}},
  {ec::not_found, {"not_found", 404, "Not found"}},
  {ec::gone, {"gone", 410, "Gone"}},
  {ec::conflict, {"conflict", 409, "Conflict"}},
  {ec::not_ready, {"not_ready", 409, "No longer queued"}},
  {ec::stale_attempt, {"stale_attempt", 409, "Stale attempt"}},
  {ec::outcome_unknown, {"outcome_unknown", 503, "Outcome unknown", 1s}},
  {ec::storage_full, {"storage_full", 507, "Storage full", 30s}},
  {ec::storage_busy, {"storage_busy", 503, "Storage busy", 1s}},
  {ec::storage_failed, {"storage_failed", 503, "Storage failed", 5s}},
  {ec::storage_unusable, {"storage_unusable", 500, "Storage unusable"}},
  {ec::draining, {"draining", 503, "Node is draining", 10s}},
  {ec::unauthorized, {"unauthorized", 401, "Token required"}},
  {ec::forbidden, {"forbidden", 403, "Not allowed"}},
  {ec::timeout, {"timeout", 503, "Not answered in time", 1s}},
  {ec::system_failed, {"system_failed", 500, "Operating system error"}},
  {ec::invalid_setting, {"invalid_setting", 500, "Invalid setting"}},
  {ec::data_in_use, {"data_in_use", 503, "Data directory in use", 5s}},
  {ec::internal, {"internal", 500, "Internal error"}},
  {ec::idempotency_conflict, {"idempotency_conflict", 422, "Idempotency key used before"}},
};

// The table is indexed by the code's number; this is what breaks when a code is added without its row.
constexpr bool in_order() {
  std::size_t number = 0;
  for (const auto& r : rows)
    if (static_cast<std::size_t>(r.code) != number++)
      return false;
  return number == static_cast<std::size_t>(ec::idempotency_conflict) + 1;
}
static_assert(in_order());

constexpr problem_kind http_kinds[] = {
  kinds::malformed_request,   kinds::malformed_body,         kinds::invalid_parameter,     kinds::foreign_origin,
  kinds::unknown_path,        kinds::method_not_allowed,     kinds::request_timeout,       kinds::body_too_large,
  kinds::target_too_long,     kinds::unsupported_media_type, kinds::range_not_satisfiable, kinds::expectation_failed,
  kinds::misdirected_request, kinds::rate_limited,           kinds::header_too_large,      kinds::overloaded,
  kinds::unsupported_version,
};

// No request meets these: the first two end a node before it listens, and who loses a race for a job within the node is
// given another one.
constexpr bool never_answered(ec code) {
  return code == ec::invalid_setting || code == ec::data_in_use || code == ec::not_ready;
}

} // namespace

const problem_kind& kind_of(ec code) noexcept {
  auto number = static_cast<std::size_t>(code);
  return number < std::size(rows) ? rows[number].kind : rows[0].kind;
}

std::vector<problem_kind> all_problem_kinds() {
  std::vector<problem_kind> result{std::begin(http_kinds), std::end(http_kinds)};
  for (const auto& r : rows)
    if (r.code != ec::none && !never_answered(r.code))
      result.push_back(r.kind);
  return result;
}

response problem(const problem_kind& kind, std::string_view detail, std::span<const field_error> fields) {
  nlohmann::ordered_json document;
  document["type"] = "https://kcx.invalid/problems/" + std::string{kind.code};
  document["title"] = kind.title;
  document["status"] = kind.status;
  document["code"] = kind.code;
  document["detail"] = detail;
  if (!fields.empty()) {
    auto& list = document["errors"] = nlohmann::ordered_json::array();
    for (const auto& field : fields)
      list.push_back({{"pointer", field.pointer}, {"detail", field.detail}});
  }
  response result;
  result.status = kind.status;
  result.headers.add("Content-Type", "application/problem+json");
  if (kind.retry_after > 0s)
    result.headers.add("Retry-After", std::to_string(kind.retry_after.count()));
  if (kind.status == 401)
    result.headers.add("WWW-Authenticate", "Bearer");
  result.body = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return result;
}

response problem(ec code, std::string_view detail, std::span<const field_error> fields) {
  return problem(kind_of(code), detail, fields);
}

response problem(const error& failure) {
  return problem(failure.code, failure.message, failure.fields);
}

} // namespace kcx::http
