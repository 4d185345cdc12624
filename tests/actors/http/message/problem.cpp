#define CAF_SUITE http_problem
#include "actors/http/message/problem.hpp"

#include "caf/test/unit_test.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

using namespace kcx;
using namespace kcx::http;

CAF_TEST(every error code has its row) {
  const std::map<ec, unsigned> expected_status{
    {ec::invalid_input, 422},
    {ec::not_found, 404},
    {ec::gone, 410},
    {ec::conflict, 409},
    {ec::not_ready, 409},
    {ec::stale_attempt, 409},
    {ec::outcome_unknown, 503},
    {ec::storage_full, 507},
    {ec::storage_busy, 503},
    {ec::storage_failed, 503},
    {ec::storage_unusable, 500},
    {ec::draining, 503},
    {ec::unauthorized, 401},
    {ec::forbidden, 403},
    {ec::timeout, 503},
    {ec::system_failed, 500},
    {ec::invalid_setting, 500},
    {ec::data_in_use, 503},
    {ec::internal, 500},
    {ec::idempotency_conflict, 422},
  };
  for (unsigned number = 1; number <= static_cast<unsigned>(ec::idempotency_conflict); ++number) {
    auto code = static_cast<ec>(number);
    CAF_MESSAGE(std::string{to_string(code)});
    CAF_REQUIRE(expected_status.count(code) == 1);
    auto r = problem(code, "detail of it");
    CAF_CHECK_EQUAL(r.status, expected_status.at(code));
    CAF_CHECK(r.headers.find("Content-Type") == "application/problem+json");
    auto document = nlohmann::json::parse(r.body);
    CAF_CHECK_EQUAL(document["code"].get<std::string>(), std::string{to_string(code)});
    CAF_CHECK_EQUAL(document["type"].get<std::string>(),
                    "https://kcx.invalid/problems/" + std::string{to_string(code)});
    CAF_CHECK_EQUAL(document["status"].get<unsigned>(), r.status);
    CAF_CHECK_EQUAL(document["detail"].get<std::string>(), "detail of it");
    CAF_CHECK(!document["title"].get<std::string>().empty());
    CAF_CHECK(!document.contains("errors"));
  }
  // A success that is answered as a problem is a bug, never a 200.
  CAF_CHECK_EQUAL(problem(ec::none, "").status, 500u);
  CAF_CHECK_EQUAL(kind_of(static_cast<ec>(200)).status, 500u);
}

CAF_TEST(whatever may be sent again says when) {
  for (const auto& kind : all_problem_kinds()) {
    bool again = kind.status == 503 || kind.status == 507 || kind.status == 429;
    CAF_CHECK_EQUAL(problem(kind, "").headers.find("Retry-After").has_value(), again);
    CAF_CHECK_EQUAL(problem(kind, "").headers.find("WWW-Authenticate").has_value(), kind.status == 401);
    CAF_CHECK(reason_phrase(kind.status) != "Unknown");
  }
}

CAF_TEST(problem codes are unique) {
  std::set<std::string_view> codes;
  for (const auto& kind : all_problem_kinds())
    CAF_CHECK(codes.insert(kind.code).second);
}

CAF_TEST(offending fields are listed by pointer) {
  error failure{ec::invalid_input, "2 fields are wrong", {{"/name", "is empty"}, {"/steps/0", "has no command"}}};
  auto document = nlohmann::json::parse(problem(failure).body);
  CAF_CHECK_EQUAL(document["errors"].size(), 2u);
  CAF_CHECK_EQUAL(document["errors"][1]["pointer"].get<std::string>(), "/steps/0");
  CAF_CHECK_EQUAL(document["errors"][1]["detail"].get<std::string>(), "has no command");
}

CAF_TEST(a detail that is no UTF 8 still makes a document) {
  CAF_CHECK(nlohmann::json::accept(problem(ec::internal, "bad \xff byte").body));
}
