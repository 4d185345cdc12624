#define CAF_SUITE routes
#include "actors/http/api/routes.hpp"

#include "caf/test/unit_test.hpp"

#include <set>

using namespace kcx::http;

CAF_TEST(every route is found by its own path and no other) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const auto& each : api_routes()) {
    CAF_CHECK(seen.insert({each.method, each.path}).second);
    auto path = std::string{each.path};
    if (const auto at = path.find("{id}"); at != std::string::npos)
      path.replace(at, 4, "42");
    if (const auto at = path.find("{name}"); at != std::string::npos)
      path.replace(at, 6, "a/b");
    if (const auto at = path.find("{token}"); at != std::string::npos)
      path.replace(at, 7, "1.2.f");
    const auto where = find_route(each.method, path);
    CAF_REQUIRE(where.found != nullptr);
    CAF_CHECK(where.found->call == each.call);
    CAF_CHECK_EQUAL(where.id, each.path.find("{id}") == std::string_view::npos ? "" : "42");
    CAF_CHECK_EQUAL(where.name, each.path.find("{name}") != std::string_view::npos    ? "a/b"
                                : each.path.find("{token}") != std::string_view::npos ? "1.2.f"
                                                                                      : "");
  }
}

CAF_TEST(only health needs no token) {
  for (const auto& each : api_routes())
    CAF_CHECK_EQUAL(each.needs == scope::none, each.path == "/healthz" || each.path == "/readyz");
}

CAF_TEST(an id is one segment that is not empty) {
  CAF_CHECK(find_route("GET", "/v1/jobs//log").found == nullptr);
  CAF_CHECK(find_route("GET", "/v1/jobs/1/2").found == nullptr);
  CAF_CHECK(find_route("GET", "/v1/jobs/").found == nullptr);
  CAF_CHECK(find_route("GET", "/v1/jobs/1/2/log").found == nullptr);
  CAF_CHECK(find_route("GET", "/v1/jobs//artifacts/x").found == nullptr);
  CAF_CHECK(find_route("GET", "/v1/jobs/1/artifacts/").found == nullptr);
}

CAF_TEST(other methods of a path are told) {
  CAF_CHECK_EQUAL(find_route("PUT", "/v1/jobs").allowed, "POST, GET, HEAD");
  CAF_CHECK_EQUAL(find_route("GET", "/v1/jobs/1/cancel").allowed, "POST");
  CAF_CHECK_EQUAL(find_route("PUT", "/v1/jobs/1").allowed, "GET, HEAD, PATCH, DELETE");
  CAF_CHECK_EQUAL(find_route("GET", "/nothing").allowed, "");
}
