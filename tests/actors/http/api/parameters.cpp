#define CAF_SUITE parameters
#include "actors/http/api/parameters.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

std::int64_t wait_of(std::string_view text) {
  const auto read = parse_wait(text);
  return read ? read->count() : -1;
}

} // namespace

CAF_TEST(waits are read in their units) {
  CAF_CHECK_EQUAL(wait_of("500ms"), 500);
  CAF_CHECK_EQUAL(wait_of("30s"), 30'000);
  CAF_CHECK_EQUAL(wait_of("2m"), 120'000);
  CAF_CHECK_EQUAL(wait_of("7"), 7'000);
  CAF_CHECK_EQUAL(wait_of("0"), 0);
  CAF_CHECK_EQUAL(wait_of("5m"), 300'000);
  for (const auto* wrong : {"", "s", "301", "6m", "-1s", "1.5s", "1 s", "9223372036854775807m"})
    CAF_CHECK_EQUAL(wait_of(wrong), -1);
}

CAF_TEST(a filter that was not set is refused rather than left out) {
  for (const auto* name : {"project", "queue", "name", "label", "group"}) {
    request ask;
    ask.query = {{name, ""}};
    const auto filter = parse_filter(ask);
    CAF_REQUIRE(!filter);
    CAF_CHECK_NOT_EQUAL(filter.error().message.find(std::string{"parameter "} + name), std::string::npos);
  }
}

CAF_TEST(ranges that are not one range of bytes are ignored) {
  for (const auto* wrong : {"", "bytes", "bytes=", "bytes=-", "lines=1-2", "bytes=1-2,5-6", "bytes=3-2", "bytes=a-b"})
    CAF_CHECK(!parse_range(wrong));
  CAF_CHECK(parse_range("bytes=0-0").has_value());
}

CAF_TEST(a range that no number holds is one behind the end of everything) {
  const std::string huge = "99999999999999999999999";
  CAF_CHECK(!resolve(parse_range("bytes=" + huge + "-").value(), 10));
  CAF_CHECK(resolve(parse_range("bytes=0-" + huge).value(), 10) == std::pair<std::uint64_t, std::uint64_t>(0, 10));
  CAF_CHECK(resolve(parse_range("bytes=-" + huge).value(), 10) == std::pair<std::uint64_t, std::uint64_t>(0, 10));
  CAF_CHECK(!parse_range("bytes=+1-2"));
}

CAF_TEST(the case of the unit of a range does not count) {
  CAF_CHECK(parse_range("BYTES=0-0").has_value());
}

CAF_TEST(a parameter that is given twice is refused by its name) {
  request ask;
  ask.query = {{"attempt", "1"}, {"tail", "1"}, {"attempt", "2"}};
  const auto once = refuse_repeated(ask);
  CAF_REQUIRE(!once);
  CAF_CHECK_EQUAL(once.error().message, "parameter attempt is given more than once; give it once");
  ask.query.pop_back();
  CAF_CHECK(refuse_repeated(ask).has_value());
}

CAF_TEST(a log is not sent from its beginning for a position that is none) {
  for (const auto* wrong : {"x", "-1", "1x", "99999999999999999999999"}) {
    request ask;
    ask.headers.add("Accept", "text/event-stream");
    ask.headers.add("Last-Event-ID", wrong);
    const auto query = parse_log_query(ask);
    CAF_REQUIRE(!query);
    CAF_CHECK_EQUAL(query.error().message, "the position (offset, or Last-Event-ID) is \"" + std::string{wrong} +
                                             "\", allowed is a number from 0");
  }
}

CAF_TEST(ranges are resolved against the size) {
  using pair = std::pair<std::uint64_t, std::uint64_t>;
  CAF_CHECK(resolve({0, 0}, 10) == pair(0, 1));
  CAF_CHECK(resolve({5, std::nullopt}, 10) == pair(5, 10));
  CAF_CHECK(resolve({5, 100}, 10) == pair(5, 10));
  CAF_CHECK(resolve({std::nullopt, 3}, 10) == pair(7, 10));
  CAF_CHECK(resolve({std::nullopt, 30}, 10) == pair(0, 10));
  CAF_CHECK(!resolve({std::nullopt, 0}, 10));
  CAF_CHECK(!resolve({10, std::nullopt}, 10));
  CAF_CHECK(!resolve({0, std::nullopt}, 0));
}

CAF_TEST(events ask to follow and take the offset from the last event) {
  request ask;
  ask.headers.add("Accept", "text/event-stream");
  ask.headers.add("Last-Event-ID", "17");
  ask.query = {{"tail", "3"}};
  const auto query = parse_log_query(ask);
  CAF_REQUIRE(query.has_value());
  CAF_CHECK(query->follow);
  CAF_CHECK(query->events);
  CAF_CHECK_EQUAL(query->offset, 17u);
  CAF_CHECK(!query->tail);
}

CAF_TEST(the parameters of a log are checked) {
  for (const auto& [name, value] : query_parameters{{"attempt", "0"},
                                                    {"attempt", "x"},
                                                    {"follow", "2"},
                                                    {"tail", "-1"},
                                                    {"timestamps", "maybe"},
                                                    {"offset", "x"}}) {
    request ask;
    ask.query = {{name, value}};
    CAF_CHECK(!parse_log_query(ask));
  }
}
