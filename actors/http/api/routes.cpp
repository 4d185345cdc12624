#include "actors/http/api/routes.hpp"

namespace kcx::http {

namespace {

constexpr route table[] = {
  {"POST", "/v1/jobs", scope::submit, api_call::submit_jobs, "Submit one job or up to 10,000"},
  {"GET", "/v1/jobs", scope::read, api_call::list_jobs, "List jobs, newest first"},
  {"GET", "/v1/jobs/{id}", scope::read, api_call::get_job, "One job, now or when it is final"},
  {"GET", "/v1/jobs/{id}/log", scope::read, api_call::get_log, "The log of one attempt, whole or followed"},
  {"GET", "/v1/jobs/{id}/artifacts", scope::read, api_call::get_artifacts, "What a job kept of its workspace"},
  {"GET", "/v1/jobs/{id}/artifacts/{name}", scope::read, api_call::get_artifacts, "One kept file, or those below"},
  {"POST", "/v1/jobs/{id}/cancel", scope::cancel, api_call::cancel_job, "Cancel a job"},
  {"PATCH", "/v1/jobs/{id}", scope::submit, api_call::patch_job, "Change a waiting job"},
  {"GET", "/v1/jobs/{id}/why", scope::read, api_call::why_job, "What holds a job back now"},
  {"PATCH", "/v1/node", scope::admin, api_call::patch_node, "Change the number of slots"},
  {"POST", "/v1/workers/{name}/cordon", scope::admin, api_call::cordon_worker, "Give a worker no more jobs"},
  {"POST", "/v1/workers/{name}/uncordon", scope::admin, api_call::uncordon_worker, "Give a worker jobs again"},
  {"POST", "/v1/jobs/cancel", scope::cancel, api_call::cancel_jobs, "Cancel all jobs that match"},
  {"POST", "/v1/jobs/{id}/retry", scope::submit, api_call::retry_job, "Submit a final job again, as a new one"},
  {"DELETE", "/v1/jobs/{id}", scope::admin, api_call::remove_job, "Forget a final job and its logs"},
  {"GET", "/v1/dead-letters", scope::read, api_call::list_dead_letters, "List dead letters, newest first"},
  {"POST", "/v1/dead-letters/requeue", scope::submit, api_call::requeue_dead_letters, "Requeue all that match"},
  {"POST", "/v1/dead-letters/discard", scope::admin, api_call::discard_dead_letters, "Discard all that match"},
  {"POST", "/v1/dead-letters/{id}/requeue", scope::submit, api_call::requeue_dead_letter, "Requeue a dead letter"},
  {"POST", "/v1/dead-letters/{id}/discard", scope::admin, api_call::discard_dead_letter, "Discard a dead letter"},
  {"GET", "/v1/queues", scope::read, api_call::list_queues, "Queues with unfinished jobs, or paused"},
  {"POST", "/v1/queues/{name}/pause", scope::admin, api_call::pause_queue, "Claim no more jobs of a queue"},
  {"POST", "/v1/queues/{name}/resume", scope::admin, api_call::resume_queue, "Claim jobs of a queue again"},
  {"GET", "/v1/events", scope::read, api_call::follow_events, "Follow the state changes of all jobs"},
  {"GET", "/v1/workers", scope::read, api_call::list_workers, "Who works on what"},
  {"GET", "/v1/stats", scope::read, api_call::get_stats, "Counts of jobs by state"},
  {"GET", "/v1/node", scope::read, api_call::get_node, "The node itself"},
  {"POST", "/v1/tokens", scope::admin, api_call::create_token, "Make a token"},
  {"GET", "/v1/tokens", scope::admin, api_call::list_tokens, "List the tokens"},
  {"DELETE", "/v1/tokens/{id}", scope::admin, api_call::revoke_token, "Revoke a token"},
  {"POST", "/v1/session", scope::read, api_call::begin_session, "Begin a browser's session"},
  {"DELETE", "/v1/session", scope::read, api_call::end_session, "End a browser's session"},
  {"POST", "/v1/session/code", scope::read, api_call::make_session_code, "Make a one-time code that begins one"},
  {"GET", "/v1/webhooks", scope::admin, api_call::list_webhooks, "Webhooks of projects"},
  {"PUT", "/v1/projects/{name}/webhook", scope::admin, api_call::put_webhook, "Tell a project's jobs to an address"},
  {"DELETE", "/v1/projects/{name}/webhook", scope::admin, api_call::remove_webhook, "Tell them no more"},
  {"GET", "/v1/deliveries", scope::read, api_call::list_deliveries, "What webhooks were told, newest first"},
  {"POST", "/v1/deliveries/{id}/redeliver", scope::submit, api_call::redeliver, "Send a delivery again"},
  {"POST", "/v1/node/drain", scope::admin, api_call::drain_node, "Take no new jobs, end those that run, stop"},
  {"POST", "/v1/node/faults", scope::admin, api_call::inject_fault, "Make an actor throw (fault injection)"},
  {"POST", "/v1/claims", scope::work, api_call::claim_jobs, "Claim jobs for a worker elsewhere"},
  {"POST", "/v1/claims/{token}/renew", scope::work, api_call::renew_claim, "Keep a claimed job; the first confirms it"},
  {"POST", "/v1/claims/{token}/complete", scope::work, api_call::complete_claim, "Report how a claimed job ended"},
  {"POST", "/v1/claims/{token}/fail", scope::work, api_call::fail_claim, "Report that it ended in another way"},
  {"POST", "/v1/claims/{token}/release", scope::work, api_call::release_claim, "Give a claimed job back"},
  {"PUT", "/v1/claims/{token}/log", scope::work, api_call::put_claim_log, "Add to the log of a claimed job"},
  {"POST", "/v1/claims/renew", scope::work, api_call::renew_claims, "Keep many"},
  {"POST", "/v1/claims/complete", scope::work, api_call::complete_claims, "Report many"},
  {"POST", "/v1/claims/fail", scope::work, api_call::fail_claims, "Report many that ended in another way"},
  {"POST", "/v1/claims/release", scope::work, api_call::release_claims, "Give many back"},
  {"GET", "/openapi.json", scope::read, api_call::get_openapi, "This API as an OpenAPI document"},
  {"GET", "/healthz", scope::none, api_call::health, "The process answers"},
  {"GET", "/readyz", scope::none, api_call::ready, "The node can take jobs"},
};

/// Matches segment by segment; an "{id}" or "{token}" takes any one that is not empty, a "{name}" any text that is not.
bool matches(std::string_view pattern, std::string_view path, routing& found) {
  const auto at = pattern.find('{');
  if (at == std::string_view::npos)
    return pattern == path;
  const bool names = pattern.substr(at).starts_with("{name}");
  const bool ids = pattern.substr(at).starts_with("{id}");
  const auto tail = pattern.substr(pattern.find('}') + 1);
  if (tail.find('{') != std::string_view::npos) {
    const auto end = path.substr(0, at) == pattern.substr(0, at) ? path.find('/', at) : std::string_view::npos;
    if (end == std::string_view::npos || end == at || !matches(tail, path.substr(end), found))
      return false;
    found.id = path.substr(at, end - at);
    return true;
  }
  if (path.size() <= at + tail.size() || path.substr(0, at) != pattern.substr(0, at) || !path.ends_with(tail))
    return false;
  const auto text = path.substr(at, path.size() - at - tail.size());
  if (!names && text.find('/') != std::string_view::npos)
    return false;
  (ids ? found.id : found.name) = text;
  return true;
}

/// "GET, HEAD" or another method, once each.
void allow(routing& result, std::string_view method) {
  const auto words = method == "GET" ? std::string{"GET, HEAD"} : std::string{method};
  if (result.allowed.find(words) == std::string::npos)
    result.allowed += (result.allowed.empty() ? "" : ", ") + words;
}

} // namespace

std::string_view to_string(scope needed) noexcept {
  switch (needed) {
  case scope::none: return "none";
  case scope::read: return "read";
  case scope::submit: return "submit";
  case scope::cancel: return "cancel";
  case scope::admin: return "admin";
  case scope::work: return "work";
  }
  return "unknown";
}

std::span<const route> api_routes() noexcept {
  return table;
}

routing find_route(std::string_view method, std::string_view path, std::span<const route> routes) {
  routing result;
  const auto wanted = method == "HEAD" ? std::string_view{"GET"} : method;
  // A path that is spelled out comes before one with a hole that it would fit in.
  for (const bool spelled : {true, false}) {
    for (const auto& each : routes) {
      if ((each.path.find('{') == std::string_view::npos) != spelled || !matches(each.path, path, result))
        continue;
      if (each.method == wanted) {
        result.found = &each;
        return result;
      }
      allow(result, each.method);
    }
  }
  return result;
}

} // namespace kcx::http
