#include "actors/inspector/routes.hpp"

namespace kcx {

std::span<const http::route> inspection_routes() noexcept {
  using http::api_call;
  using http::scope;
  static constexpr http::route all[] = {
    {"GET", "/actors", scope::none, api_call::get_node, "The tree of actors"},
    {"GET", "/metrics", scope::none, api_call::get_stats, "Figures for Prometheus"},
    {"GET", "/healthz", scope::none, api_call::health, "Whether the node lives"},
    {"GET", "/readyz", scope::none, api_call::ready, "Whether it takes jobs"},
    {"GET", "/jobs", scope::read, api_call::list_jobs, "The newest jobs"},
    {"POST", "/session", scope::read, api_call::begin_session, "Begin a browser's session"},
    {"DELETE", "/session", scope::read, api_call::end_session, "End it"},
  };
  return all;
}

} // namespace kcx
