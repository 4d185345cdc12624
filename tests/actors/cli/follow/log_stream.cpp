#define CAF_SUITE log_stream
#include "actors/cli/follow/log_stream.hpp"

#include "actors/cli/follow/event_reader.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

#include <string>
#include <vector>

using namespace kcx;
using namespace kcx::cli;
using namespace kcx::test;

namespace {

/// What one request for the log of job 7 gives.
struct reading {
  log_result result = log_result::stopped;
  std::string text;
  reply refusal;
};

reading read(fake_node& node, log_place& place) {
  node_client client{{"", "", "", node.data(), ""}};
  reading made;
  made.result = read_log(
    client, place,
    [&](std::string_view bytes) {
      made.text += bytes;
      return true;
    },
    made.refusal);
  return made;
}

} // namespace

CAF_TEST(events are put together however their bytes come) {
  const std::string stream = ": hello\n\nid: 3\ndata: {\"text\":\"a\\n\\nb\"}\n\nid: 4\nevent: end\ndata: {}\n\n";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    std::vector<std::string> seen;
    event_reader reader{[&](const server_event& event) {
      seen.push_back(event.id + '|' + event.name + '|' + event.data);
      return true;
    }};
    for (std::size_t at = 0; at < stream.size(); at += size)
      CAF_CHECK(reader.take(stream.substr(at, size)));
    CAF_CHECK((seen == std::vector<std::string>{"3||{\"text\":\"a\\n\\nb\"}", "4|end|{}"}));
  }
}

CAF_TEST(a log goes on behind what was cut meanwhile and with time stamps and after a tail) {
  fake_node node;
  node.react("GET", "/v1/jobs/7/log", [calls = 0](const http::request&) mutable {
    return ++calls == 1
             ? broken_off("id: 10\ndata: {\"text\":\"head\"}\n\nid: 5000\ndata: {\"text\":\"behind the cut\"}\n\nid")
             : http::text_response(200, "id: 5004\ndata: {\"base64\":\"/wAK\"}\n\nid: 5004\nevent: end\ndata: {}\n\n");
  });
  log_place place{7, 2, true, 5};
  auto first = read(node, place);
  CAF_CHECK(first.result == log_result::broken);
  CAF_CHECK_EQUAL(first.text, "headbehind the cut");
  CAF_CHECK_EQUAL(place.offset, 5000u);
  auto second = read(node, place);
  CAF_CHECK(second.result == log_result::ended);
  CAF_CHECK(second.text == std::string("\xff\0\n", 3));
  CAF_CHECK_EQUAL(std::string{node.seen().at(0).target}, "/v1/jobs/7/log?exact=1&attempt=2&timestamps=1&tail=5");
  CAF_CHECK_EQUAL(std::string{node.seen().at(1).target}, "/v1/jobs/7/log?exact=1&attempt=2&timestamps=1&offset=5000");
}

CAF_TEST(an end without its event is no end) {
  fake_node node;
  node.react("GET", "/v1/jobs/7/log",
             [](const http::request&) { return http::text_response(200, "id: 1\ndata: {\"text\":\"x\"}\n\n"); });
  log_place place{7, 1, false, {}};
  CAF_CHECK(read(node, place).result == log_result::broken);
  CAF_CHECK_EQUAL(place.offset, 1u);
}

CAF_TEST(what is no log is told apart) {
  fake_node node;
  log_place place{7, 1, false, {}};
  CAF_CHECK(read(node, place).result == log_result::missing);
  node.answer("GET", "/v1/jobs/7/log", 410, R"({"title":"Gone"})");
  const auto gone = read(node, place);
  CAF_CHECK(gone.result == log_result::refused);
  CAF_CHECK_EQUAL(gone.refusal.status, 410u);
  node.answer("GET", "/v1/jobs/7/log", 503, "{}");
  CAF_CHECK(read(node, place).result == log_result::broken);
  node.react("GET", "/v1/jobs/7/log",
             [](const http::request&) { return http::text_response(200, "id: x\ndata: {\"text\":\"x\"}\n\n"); });
  CAF_CHECK(read(node, place).result == log_result::broken);
}
