#define CAF_SUITE job_needs
#include "storage/job_needs.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;

namespace {

using needs_of_jobs = std::vector<std::vector<job_need>>;

/// Job 1 is the first one.
std::vector<std::string> endless(const needs_of_jobs& jobs) {
  std::vector<linked_job> linked;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    linked.push_back({job_id{static_cast<std::int64_t>(i + 1)}, i, jobs[i]});
  std::vector<std::string> pointers;
  for (const auto& each : find_endless(linked, true))
    pointers.push_back(each.pointer);
  return pointers;
}

job_need need(std::int64_t job) {
  return {job_id{job}, {}, need_condition::success};
}

} // namespace

CAF_TEST(needs that lead back to their job are told with those that wait for it) {
  const std::vector<std::string> wanted{"/0/needs/1", "/1/needs/0", "/3/needs/0"};
  CAF_CHECK_EQUAL(endless({{need(3), need(2)}, {need(1)}, {}, {need(2), need(99)}}), wanted);
  CAF_CHECK_EQUAL(endless({{need(1)}}), std::vector<std::string>{"/0/needs/0"});
  CAF_CHECK(endless({{need(2), need(3)}, {need(3)}, {need(99)}}).empty());
}

CAF_TEST(a long chain of needs is judged in one pass whatever its direction) {
  // One pass per job would be 10^11 looks.
  constexpr std::int64_t count = 300'000;
  needs_of_jobs up(count);
  needs_of_jobs down(count);
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    up[static_cast<std::size_t>(i)] = {need(i + 2)};
    down[static_cast<std::size_t>(i) + 1] = {need(i + 1)};
  }
  CAF_CHECK(endless(up).empty());
  CAF_CHECK(endless(down).empty());
  up.back() = {need(1)};
  CAF_CHECK_EQUAL(endless(up).size(), 100u);
}

CAF_TEST(one request has fifty thousand needs at the most) {
  std::vector<job_spec> specs(251);
  for (std::size_t i = 0; i < 250; ++i)
    for (std::int64_t n = 1; n <= 200; ++n)
      specs[i].needs.push_back(need(n));
  CAF_CHECK(check_refs(specs, true).has_value());
  specs[250].needs.push_back(need(1));
  const auto refused = check_refs(specs, true);
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().fields.at(0).pointer, "/250/needs");
}
