/// The table of the API's calls: what exists, under which path, and which scope it needs.
///
/// The one list that routing, the OpenAPI document and the documentation are checked against. Knows no actor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kcx::http {

/// What a token must allow. `none` needs no token at all.
enum class scope : std::uint8_t { none, read, submit, cancel, admin, work };

[[nodiscard]] std::string_view to_string(scope needed) noexcept;

/// One per route; the bridge maps each to a handler.
enum class api_call : std::uint8_t {
  submit_jobs,
  list_jobs,
  get_job,
  get_log,
  get_artifacts,
  follow_events,
  cancel_job,
  patch_job,
  why_job,
  patch_node,
  cordon_worker,
  uncordon_worker,
  cancel_jobs,
  retry_job,
  remove_job,
  list_dead_letters,
  requeue_dead_letter,
  requeue_dead_letters,
  discard_dead_letter,
  discard_dead_letters,
  list_queues,
  pause_queue,
  resume_queue,
  list_workers,
  get_stats,
  get_node,
  drain_node,
  create_token,
  list_tokens,
  revoke_token,
  begin_session,
  end_session,
  make_session_code,
  list_webhooks,
  put_webhook,
  remove_webhook,
  list_deliveries,
  redeliver,
  inject_fault,
  claim_jobs,
  renew_claim,
  renew_claims,
  complete_claim,
  complete_claims,
  fail_claim,
  fail_claims,
  release_claim,
  release_claims,
  put_claim_log,
  get_openapi,
  health,
  ready,
};

struct route {
  std::string_view method;
  /// "{id}" stands for one segment, the number of a job; "{token}" for one that a claim gave; "{name}" for any text,
  /// which may hold slashes. "{name}" comes last if "{id}" is there, too.
  std::string_view path;
  scope needs;
  api_call call;
  std::string_view summary;
};

[[nodiscard]] std::span<const route> api_routes() noexcept;

/// Where a request leads. Without `found`: 404 if `allowed` is empty, else 405 with it as the Allow header.
struct routing {
  const route* found = nullptr;
  /// What stands where the path has "{id}", and "{name}" or "{token}"; empty if it has none.
  std::string id;
  std::string name;
  std::string allowed;
};

/// HEAD is routed as GET. `path` is percent-decoded.
[[nodiscard]] routing find_route(std::string_view method, std::string_view path,
                                 std::span<const route> routes = api_routes());

} // namespace kcx::http
