#define CAF_SUITE bridge_lines
#include "actors/http/message/problem.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

#include <deque>

using namespace kcx;
using namespace kcx::test;

namespace {

/// A request body that comes in these pieces; behind the last one comes what was put later, or nothing.
class pieces : public http::incoming_body {
public:
  pieces(std::string_view all, std::size_t size) {
    for (std::size_t at = 0; at < all.size(); at += size)
      put({std::string{all.substr(at, size)}, false, {}});
    put({"", true, {}});
  }
  explicit pieces(std::vector<http::incoming_piece> script) {
    for (auto& each : script)
      put(std::move(each));
  }

  void put(http::incoming_piece piece) {
    script_.push_back(std::move(piece));
    hand_over();
  }

  void next(piece_handler done) override {
    ++asked;
    waiting_ = std::move(done);
    hand_over();
  }

  int asked = 0;

private:
  void hand_over() {
    if (!waiting_ || script_.empty())
      return;
    auto piece = std::move(script_.front());
    script_.pop_front();
    std::exchange(waiting_, nullptr)(std::move(piece));
  }

  std::deque<http::incoming_piece> script_;
  piece_handler waiting_;
};

std::shared_ptr<bridge_answer> send_pieces(bridge_harness& bridge, std::shared_ptr<pieces> body) {
  return bridge.ask("POST", "/v1/jobs", {"", {{"Content-Type", "application/x-ndjson"}}, true, {}, std::move(body)});
}

std::shared_ptr<bridge_answer> send_lines(bridge_harness& bridge, const std::string& body, std::size_t size = 1'000) {
  return send_pieces(bridge, std::make_shared<pieces>(body, size));
}

/// Every line of the answer, with the client reading as fast as it can.
std::vector<nlohmann::json> lines_of(bridge_harness& bridge, bridge_answer& result) {
  CAF_REQUIRE_EQUAL(result.status(), 200u);
  body_reader body{*result.answer};
  std::string text;
  for (int i = 0; i < 100 && !body.ended() && !body.failed(); ++i) {
    text += body.take();
    bridge.advance(std::chrono::milliseconds{1});
  }
  text += body.take();
  CAF_CHECK(body.ended());
  std::vector<nlohmann::json> lines;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    lines.push_back(nlohmann::json::parse(text.substr(at, text.find('\n', at) - at)));
  return lines;
}

} // namespace

CAF_TEST(each line is a job and has a result) {
  bridge_harness bridge;
  const auto answer = send_lines(bridge, "{\"command\":\"a\"}\n\n{\"command\":\"b\"}\r\n{\"command\":\"c\"}");
  CAF_CHECK_EQUAL(answer->header("Content-Type"), "application/x-ndjson");
  const auto lines = lines_of(bridge, *answer);
  CAF_REQUIRE_EQUAL(lines.size(), 4u);
  CAF_CHECK_EQUAL(lines[0], (nlohmann::json{{"line", 1}, {"id", 1}}));
  CAF_CHECK_EQUAL(lines[1], (nlohmann::json{{"line", 3}, {"id", 2}}));
  CAF_CHECK_EQUAL(lines[2], (nlohmann::json{{"line", 4}, {"id", 3}}));
  CAF_CHECK_EQUAL(lines[3], (nlohmann::json{{"accepted", 3}, {"refused", 0}, {"lines_read", 4}, {"complete", true}}));
  CAF_CHECK_EQUAL(bridge.node.enqueued.size(), 3u);
}

CAF_TEST(a wrong line is told and stops no other) {
  bridge_harness bridge;
  const auto answer = send_lines(bridge, "{\"command\":\"a\"}\n{broken\n{\"priority\":1}\n{\"command\":\"b\"}\n");
  const auto lines = lines_of(bridge, *answer);
  CAF_REQUIRE_EQUAL(lines.size(), 5u);
  CAF_CHECK_EQUAL(lines[1]["error"]["code"], "malformed_body");
  CAF_CHECK_EQUAL(lines[2]["error"]["errors"][0]["pointer"], "/command");
  CAF_CHECK_EQUAL(lines[3], (nlohmann::json{{"line", 4}, {"id", 2}}));
  CAF_CHECK_EQUAL(lines[4]["refused"], 2);
}

CAF_TEST(a line that is no JSON tells its column) {
  bridge_harness bridge;
  const auto lines = lines_of(bridge, *send_lines(bridge, "\n\n  {broken\n"));
  CAF_REQUIRE_EQUAL(lines.size(), 2u);
  CAF_CHECK_EQUAL(lines[0]["line"], 3);
  CAF_CHECK_EQUAL(lines[0]["error"]["status"], 400);
  const auto detail = lines[0]["error"]["detail"].get<std::string>();
  CAF_CHECK_EQUAL(detail.substr(0, detail.find(':')), "parse error at column 4");
}

CAF_TEST(lines are cut right wherever the pieces of the body end) {
  for (std::size_t size : {1, 2, 3, 7, 100}) {
    bridge_harness bridge;
    const auto lines = lines_of(bridge, *send_lines(bridge, "{\"command\":\"a\"}\r\n\n{\"command\":\"b\"}\n", size));
    CAF_REQUIRE_EQUAL(lines.size(), 3u);
    CAF_CHECK_EQUAL(lines[1], (nlohmann::json{{"line", 3}, {"id", 2}}));
  }
}

CAF_TEST(a submission that the store refuses is told with its line and stops no other) {
  bridge_harness bridge;
  const auto body = "{\"command\":\"a\"}\n{\"command\":\"b\",\"unique_key\":\"k\"}\n{\"command\":\"c\"}\n";
  const auto lines = lines_of(bridge, *send_lines(bridge, body));
  CAF_REQUIRE_EQUAL(lines.size(), 4u);
  CAF_CHECK_EQUAL(lines[1]["line"], 2);
  CAF_CHECK_EQUAL(lines[1]["error"]["errors"][0]["pointer"], "/unique_key");
  CAF_CHECK_EQUAL(lines[2]["id"], 2);
  CAF_CHECK_EQUAL(lines[3], (nlohmann::json{{"accepted", 2}, {"refused", 1}, {"lines_read", 3}, {"complete", true}}));
  CAF_CHECK_EQUAL(bridge.node.chunks, std::vector<std::size_t>{3});
}

CAF_TEST(a long body is read only as fast as the client takes the results) {
  bridge_harness bridge;
  std::string body;
  for (int i = 0; i < 1'200; ++i)
    body += "{\"command\":\"x\"}\n";
  const auto source = std::make_shared<pieces>(body, 4'000);
  const auto answer = send_pieces(bridge, source);
  CAF_CHECK_EQUAL(source->asked, 0);
  body_reader reader{*answer->answer};
  reader.take();
  bridge.advance(std::chrono::milliseconds{1});
  CAF_CHECK_EQUAL(bridge.node.enqueued.size(), 250u);
  CAF_CHECK_EQUAL(source->asked, 1);
  const auto lines = lines_of(bridge, *send_lines(bridge, body, 20'000));
  CAF_CHECK_EQUAL(lines.size(), 1'201u);
  CAF_CHECK_EQUAL(lines.back()["accepted"], 1'200);
  for (const auto each : bridge.node.chunks)
    CAF_CHECK(each <= 500);
}

CAF_TEST(a line that arrives alone is stored without waiting for more) {
  bridge_harness bridge;
  const auto source = std::make_shared<pieces>(std::vector<http::incoming_piece>{});
  const auto answer = send_pieces(bridge, source);
  body_reader reader{*answer->answer};
  reader.take();
  source->put({"{\"command\":\"a\"}\n{\"comm", false, {}});
  bridge.advance(std::chrono::milliseconds{1});
  CAF_CHECK_EQUAL(reader.take(), "{\"line\":1,\"id\":1}\n");
}

CAF_TEST(of a body that breaks off the whole lines are stored and the end is told) {
  bridge_harness bridge;
  const auto source = std::make_shared<pieces>(
    std::vector<http::incoming_piece>{{"{\"command\":\"a\"}\n{\"command\":\"b\"", false, {}},
                                      {"}", false, http::problem(http::kinds::request_timeout, "too slow")}});
  const auto lines = lines_of(bridge, *send_pieces(bridge, source));
  CAF_REQUIRE_EQUAL(lines.size(), 2u);
  CAF_CHECK_EQUAL(lines[0]["id"], 1);
  CAF_CHECK_EQUAL(lines[1]["complete"], false);
  CAF_CHECK_EQUAL(lines[1]["error"]["code"], "request_timeout");
  CAF_CHECK_EQUAL(bridge.node.enqueued.size(), 1u);
}

CAF_TEST(a line longer than a mebibyte is refused and not held) {
  bridge_harness bridge;
  const auto body = std::string(3 << 20, 'x') + "\n{\"command\":\"b\"}\n";
  const auto lines = lines_of(bridge, *send_lines(bridge, body, 100'000));
  CAF_REQUIRE_EQUAL(lines.size(), 3u);
  CAF_CHECK_EQUAL(lines[0]["error"]["code"], "body_too_large");
  CAF_CHECK_EQUAL(lines[1], (nlohmann::json{{"line", 2}, {"id", 1}}));
}

CAF_TEST(lines do not go with an idempotency key) {
  bridge_harness bridge;
  const auto answer =
    bridge.ask("POST", "/v1/jobs",
               {"", {{"Idempotency-Key", "k"}}, true, {}, std::make_shared<pieces>("{\"command\":\"a\"}", 10)});
  CAF_CHECK_EQUAL(answer->status(), 400u);
}

CAF_TEST(a chunk that cannot be stored ends the stream and says so) {
  bridge_harness bridge;
  bridge.node.enqueue_failure = error{ec::storage_full, "no room", {}};
  const auto lines = lines_of(bridge, *send_lines(bridge, "{\"command\":\"a\"}\n"));
  CAF_REQUIRE_EQUAL(lines.size(), 2u);
  CAF_CHECK_EQUAL(lines[0]["error"]["code"], "storage_full");
  CAF_CHECK_EQUAL(lines[1]["complete"], false);
}

CAF_TEST(a client that goes away ends its upload) {
  bridge_harness bridge;
  const auto answer = send_lines(bridge, "{\"command\":\"a\"}\n");
  body_reader body{*answer->answer};
  body.hang_up();
  bridge.advance(std::chrono::milliseconds{1});
  CAF_CHECK_EQUAL(bridge.status("uploads"), 0);
}

CAF_TEST(nothing is stored of lines that come when their token was revoked) {
  bridge_harness bridge;
  const auto source = std::make_shared<pieces>(std::vector<http::incoming_piece>{});
  const auto token = bridge.make_token("submit");
  const auto answer =
    bridge.ask("POST", "/v1/jobs", {"", {{"Content-Type", "application/x-ndjson"}}, true, token, source});
  body_reader reader{*answer->answer};
  reader.take();
  source->put({"{\"command\":\"a\"}\n", false, {}});
  bridge.advance(std::chrono::milliseconds{1});
  CAF_CHECK_EQUAL(reader.take(), "{\"line\":1,\"id\":1}\n");
  bridge.advance(std::chrono::milliseconds{1});
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  source->put({"{\"command\":\"b\"}\n{broken\n{\"command\":\"c\"}\n", false, {}});
  bridge.advance(std::chrono::milliseconds{1});
  const auto text = reader.take();
  CAF_CHECK(reader.ended());
  CAF_CHECK_EQUAL(bridge.node.enqueued.size(), 1u);
  const auto first = nlohmann::json::parse(text.substr(0, text.find('\n')));
  CAF_CHECK_EQUAL(first["error"]["code"], "unauthorized");
  const auto last = text.rfind('\n', text.size() - 2);
  CAF_CHECK_EQUAL(nlohmann::json::parse(text.substr(last)),
                  (nlohmann::json{{"accepted", 1}, {"refused", 3}, {"lines_read", 4}, {"complete", false}}));
}
