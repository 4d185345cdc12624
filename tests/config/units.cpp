#define CAF_SUITE units
#include "config/units.hpp"

#include "caf/test/unit_test.hpp"

#include <string>
#include <utility>

using namespace kcx;
using namespace std::chrono_literals;

CAF_TEST(a duration is a number with a unit and seconds without one) {
  const std::pair<const char*, std::chrono::milliseconds> cases[] = {
    {"500ms", 500ms}, {"10s", 10s}, {"2m", 2min},   {"1h", 1h},    {"7d", 168h},  {"36500d", 24h * 36'500},
    {"30", 30s},      {"0", 0s},    {"0.3", 300ms}, {"1.5m", 90s}, {"0.001", 1ms}};
  for (const auto& [text, expected_value] : cases) {
    auto value = parse_duration(text);
    CAF_REQUIRE(value.has_value());
    CAF_CHECK_EQUAL(value->count(), expected_value.count());
  }
}

CAF_TEST(what is no duration is refused) {
  for (const char* text : {"", "s", "-1s", "+1s", ".5s", "1.s", "1..5s", "0.5ms", "0.0001", "1 s", "1S", "1sm", "1x",
                           "36501d", "99999999999999999999", "0x1s"})
    CAF_CHECK(!parse_duration(text));
}

CAF_TEST(a duration is written so that it reads back) {
  for (auto value : {0ms, 1ms, 1'500ms, 1'000ms, 90'000ms, 60'000ms, 3'600'000ms, 86'400'000ms})
    CAF_CHECK(parse_duration(format_duration(value)) == value);
  CAF_CHECK_EQUAL(format_duration(90s), "90s");
  CAF_CHECK_EQUAL(format_duration(2min), "2m");
}

CAF_TEST(a size is bytes or a number with a unit of 1024) {
  CAF_CHECK(parse_size("4096") == 4096);
  CAF_CHECK(parse_size("64K") == 65'536);
  CAF_CHECK(parse_size("64KiB") == 65'536);
  CAF_CHECK(parse_size("1G") == 1LL << 30);
  for (const char* text : {"", "K", "-1", "1k", "1.5M", "64KB", "iB", "1iB", "9999999T"})
    CAF_CHECK(!parse_size(text));
  CAF_CHECK_EQUAL(format_size(64LL << 20), "64M");
  CAF_CHECK_EQUAL(format_size(1'000), "1000");
}

CAF_TEST(an endpoint is a numeric address and a port) {
  CAF_CHECK((parse_endpoint("127.0.0.1:7070") == endpoint{"127.0.0.1", 7070}));
  CAF_CHECK((parse_endpoint("[::1]:0") == endpoint{"::1", 0}));
  for (const char* text : {"", ":", "7070", ":7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "localhost:7070", "::1:7070", "[127.0.0.1]:7070", "[]:1", "127.1:80", "127.0.0.1:70 "})
    CAF_CHECK(!parse_endpoint(text));
  CAF_CHECK_EQUAL(to_string(endpoint{"::1", 7070}), "[::1]:7070");
}

CAF_TEST(only addresses of this machine are loopback) {
  for (const char* text : {"127.0.0.1:1", "127.255.1.2:1", "[::1]:1"})
    CAF_CHECK(is_loopback(*parse_endpoint(text)));
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "128.0.0.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"})
    CAF_CHECK(!is_loopback(*parse_endpoint(text)));
}
