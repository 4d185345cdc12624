// The small documents about jobs that exist: filters, changes, secrets for a retry.
#define CAF_SUITE job_requests
#include "storage/job_requests.hpp"

#include "caf/test/unit_test.hpp"

#include <string>

using namespace kcx;
using nlohmann::json;

namespace {

/// Whether it is refused for this field, and for no other.
template <class T>
bool refuses(const expected<T>& result, const std::string& pointer) {
  return !result && result.error().code == ec::invalid_input && result.error().fields.size() == 1 &&
         result.error().fields.front().pointer == pointer;
}

} // namespace

CAF_TEST(a filter takes its fields) {
  const auto filter = parse_filter_document({{"state", {"queued", "running"}}, {"project", "web"}, {"label", "gpu"}});
  CAF_REQUIRE(filter);
  CAF_CHECK_EQUAL(filter->states.size(), 2u);
  CAF_CHECK_EQUAL(filter->project.value_or(""), "web");
  CAF_CHECK_EQUAL(filter->label.value_or(""), "gpu");
  CAF_CHECK(parse_filter_document(json::object()));
}

CAF_TEST(a filter that was not set is refused rather than left out) {
  for (const auto* field : {"state", "project", "queue", "name", "label", "group"})
    CAF_CHECK(refuses(parse_filter_document({{field, nullptr}}), std::string{"/"} + field));
  CAF_CHECK(refuses(parse_filter_document({{"project", ""}}), "/project"));
  CAF_CHECK(refuses(parse_filter_document({{"state", json::array()}}), "/state"));
}

CAF_TEST(a field that there is not is refused also without a value) {
  for (const auto& value : {json(1), json(nullptr)}) {
    CAF_CHECK(refuses(parse_patch({{"priority", 1}, {"prio", value}}), "/prio"));
    CAF_CHECK(refuses(parse_retry({{"secret", value}}), "/secret"));
  }
  CAF_CHECK(!parse_filter_document({{"projekt", nullptr}}));
}

CAF_TEST(what is no object at all is told so) {
  const auto filter = parse_filter_document(1);
  CAF_REQUIRE(!filter);
  CAF_CHECK_EQUAL(filter.error().message, "the document must be an object");
}

CAF_TEST(a change without a value is none except that of the start time) {
  const auto now = parse_patch({{"run_at", nullptr}, {"labels", nullptr}});
  CAF_REQUIRE(now);
  CAF_CHECK(now->run_at && !now->run_at->has_value());
  CAF_CHECK(!now->labels);
  CAF_CHECK(refuses(parse_patch({{"priority", nullptr}}), ""));
  CAF_CHECK(parse_retry({{"secrets", nullptr}}));
}
