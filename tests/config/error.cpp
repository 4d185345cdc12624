#define CAF_SUITE error
#include "config/error.hpp"

#include "caf/test/unit_test.hpp"

#include <memory>
#include <set>
#include <string>

using namespace kcx;

namespace {

constexpr auto last_code = ec::idempotency_conflict;

expected<int> half_of(int number) {
  if (number % 2 != 0)
    return error{ec::invalid_input, "odd", {{"/number", "must be even"}}};
  return number / 2;
}

} // namespace

CAF_TEST(every code has a name of its own) {
  std::set<std::string_view> names;
  for (unsigned number = 0; number <= static_cast<unsigned>(last_code); ++number) {
    auto name = to_string(static_cast<ec>(number));
    CAF_CHECK_NOT_EQUAL(std::string{name}, "unknown");
    names.insert(name);
  }
  CAF_CHECK_EQUAL(names.size(), static_cast<std::size_t>(last_code) + 1);
}

CAF_TEST(a number that is no code is called unknown) {
  CAF_CHECK_EQUAL(std::string{to_string(static_cast<ec>(255))}, "unknown");
}

CAF_TEST(an expected holds the value of a success) {
  auto result = half_of(8);
  CAF_REQUIRE(result.has_value());
  CAF_CHECK(static_cast<bool>(result));
  CAF_CHECK_EQUAL(*result, 4);
}

CAF_TEST(an expected holds the code and the fields of a failure) {
  auto result = half_of(7);
  CAF_REQUIRE(!result.has_value());
  CAF_CHECK_EQUAL(std::string{to_string(result.error().code)}, "invalid_input");
  CAF_CHECK_EQUAL(result.error().message, "odd");
  CAF_REQUIRE_EQUAL(result.error().fields.size(), 1u);
  CAF_CHECK_EQUAL(result.error().fields.front().pointer, "/number");
}

CAF_TEST(an expected hands out a value that can only be moved) {
  expected<std::unique_ptr<int>> result{std::make_unique<int>(5)};
  std::unique_ptr<int> taken = *std::move(result);
  CAF_REQUIRE(taken != nullptr);
  CAF_CHECK_EQUAL(*taken, 5);
}

CAF_TEST(an outcome tells done from failed) {
  outcome good{done{}};
  outcome bad{error{ec::timeout, "no answer", {}}};
  CAF_CHECK(good.has_value());
  CAF_CHECK(!bad.has_value());
}
