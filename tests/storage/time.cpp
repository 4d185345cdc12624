#define CAF_SUITE time
#include "storage/time.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace std::chrono_literals;

namespace {

const timestamp sample = std::chrono::sys_days{std::chrono::year{2026} / 1 / 31} + 12h + 34min + 56s + 789ms;

} // namespace

CAF_TEST(an instant is written with milliseconds in UTC) {
  CAF_CHECK_EQUAL(to_rfc3339(sample), "2026-01-31T12:34:56.789Z");
  CAF_CHECK_EQUAL(to_rfc3339(timestamp{}), "1970-01-01T00:00:00.000Z");
  CAF_CHECK_EQUAL(to_rfc3339(timestamp{-1ms}), "1969-12-31T23:59:59.999Z");
}

CAF_TEST(what is written is read again) {
  CAF_CHECK(parse_rfc3339(to_rfc3339(sample)) == sample);
  CAF_CHECK(parse_rfc3339(to_rfc3339(timestamp{-1ms})) == timestamp{-1ms});
}

CAF_TEST(offsets and fractions of any length are understood) {
  CAF_CHECK(parse_rfc3339("2026-01-31T14:34:56.789+02:00") == sample);
  CAF_CHECK(parse_rfc3339("2026-01-31T07:04:56.789-05:30") == sample);
  CAF_CHECK(parse_rfc3339("2026-01-31T12:34:56.7899999Z") == sample);
  CAF_CHECK(parse_rfc3339("2026-01-31t12:34:56z") == sample - 789ms);
  CAF_CHECK(parse_rfc3339("2026-01-31 12:34:56.7Z") == sample - 89ms);
  CAF_CHECK(parse_rfc3339("2016-12-31T23:59:60Z") == parse_rfc3339("2017-01-01T00:00:00Z"));
}

CAF_TEST(a malformed time is nothing) {
  for (const auto* text :
       {"", "now", "2026-01-31", "2026-01-31T12:34:56", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31T12:34:61Z", "2026-01-31T12:34:56.Z",
        "2026-01-31T12:34:56Z ", "2026-01-31T12:34:56+2:00", "2026-01-31T12:34:56+24:00", "26-01-31T12:34:56Z",
        "2026-01-31T12:34:56.789", "-026-01-31T12:34:56Z"}) {
    CAF_MESSAGE(text);
    CAF_CHECK(!parse_rfc3339(text));
  }
}

CAF_TEST(a time that could not be written again is nothing) {
  for (const char* text :
       {"9999-12-31T23:59:60Z", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+00:01", "0000-01-01T00:00:00+23:59"})
    CAF_CHECK(!parse_rfc3339(text));
  for (const char* text : {"9999-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z"})
    CAF_CHECK_EQUAL(to_rfc3339(*parse_rfc3339(text)), text);
}

CAF_TEST(a time with a NUL or cut anywhere is nothing) {
  const std::string whole = "2026-01-31T12:34:56.789Z";
  for (std::size_t length = 0; length < whole.size(); ++length)
    CAF_CHECK(!parse_rfc3339(whole.substr(0, length)));
  CAF_CHECK(!parse_rfc3339(whole + '\0'));
}
