#include "actors/http/routes.hpp"

namespace kcx::http {

namespace {

constexpr route table[] = {
  {"POST", "/v1/jobs", scope::submit, api_call::submit_jobs, "Submit one job or up to 10,000"},
  {"GET", "/v1/jobs", scope::read, api_call::list_jobs, "List jobs, newest first"},
  {"GET", "/v1/jobs/{id}", scope::read, api_call::get_job, "One job, now or when it is final"},
  {"GET", "/v1/jobs/{id}/log", scope::read, api_call::get_log, "The log of one attempt, whole or followed"},
  {"POST", "/v1/jobs/{id}/cancel", scope::cancel, api_call::cancel_job, "Cancel a job"},
  {"GET", "/v1/workers", scope::read, api_call::list_workers, "Who works on what"},
  {"GET", "/v1/stats", scope::read, api_call::get_stats, "Counts of jobs by state"},
  {"GET", "/v1/node", scope::read, api_call::get_node, "The node itself"},
  {"POST", "/v1/node/drain", scope::admin, api_call::drain_node, "Take no new jobs, end those that run, stop"},
  {"POST", "/v1/node/faults", scope::admin, api_call::inject_fault, "Make an actor throw (fault injection)"},
  {"GET", "/healthz", scope::none, api_call::health, "The process answers"},
  {"GET", "/readyz", scope::none, api_call::ready, "The node can take jobs"},
};

/// Matches segment by segment; an "{id}" takes any one that is not empty.
bool matches(std::string_view pattern, std::string_view path, std::string& id) {
  constexpr std::string_view hole = "{id}";
  const auto at = pattern.find(hole);
  if (at == std::string_view::npos)
    return pattern == path;
  const auto tail = pattern.substr(at + hole.size());
  if (path.size() <= at + tail.size() || path.substr(0, at) != pattern.substr(0, at) || !path.ends_with(tail))
    return false;
  const auto segment = path.substr(at, path.size() - at - tail.size());
  if (segment.find('/') != std::string_view::npos)
    return false;
  id = segment;
  return true;
}

} // namespace

std::string_view to_string(scope needed) noexcept {
  switch (needed) {
  case scope::none: return "none";
  case scope::read: return "read";
  case scope::submit: return "submit";
  case scope::cancel: return "cancel";
  case scope::admin: return "admin";
  }
  return "unknown";
}

std::span<const route> api_routes() noexcept {
  return table;
}

routing find_route(std::string_view method, std::string_view path) {
  routing result;
  const auto wanted = method == "HEAD" ? std::string_view{"GET"} : method;
  for (const auto& each : table) {
    if (!matches(each.path, path, result.id))
      continue;
    if (each.method == wanted) {
      result.found = &each;
      return result;
    }
    if (!result.allowed.empty())
      result.allowed += ", ";
    result.allowed += each.method == "GET" ? "GET, HEAD" : std::string{each.method};
  }
  return result;
}

} // namespace kcx::http
