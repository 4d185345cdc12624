#define CAF_SUITE http_client
#include "actors/http/client/client.hpp"

#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/support.hpp"

#include <future>
#include <thread>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<client> opened(std::string url) {
  client_options options;
  options.url = std::move(url);
  auto result = client::open(std::move(options));
  if (!result)
    throw std::runtime_error{result.error().message};
  return std::move(*result);
}

client_request asking(std::string method, std::string target, std::string body = {}) {
  client_request what;
  what.method = std::move(method);
  what.target = std::move(target);
  what.body = std::move(body);
  return what;
}

/// Counts to `last`, a piece per number.
class numbers : public body_source {
public:
  explicit numbers(int last) : last_{last} {}
  void next(std::size_t, chunk_handler done) override {
    chunk piece;
    piece.bytes = std::to_string(++at_) + "\n";
    piece.last = at_ == last_;
    done(std::move(piece));
  }
  void cancel() noexcept override { cancelled.set_value(); }
  std::promise<void> cancelled;

private:
  int last_;
  int at_ = 0;
};

} // namespace

CAF_TEST(requests share one connection) {
  auto s = started(echo);
  auto c = opened(s->url() + "/ignored");
  CAF_CHECK_EQUAL(c->url(), s->url());
  for (int i = 0; i < 3; ++i) {
    auto reply = c->request(asking("POST", "/a", "abc"));
    CAF_REQUIRE(reply);
    CAF_CHECK_EQUAL(reply->status, 200u);
    CAF_CHECK_EQUAL(reply->body, "POST /a 3 abc");
    CAF_CHECK(reply->headers.find("content-type") == "text/plain; charset=utf-8");
  }
  CAF_REQUIRE(c->request(asking("HEAD", "/a")));
  CAF_CHECK_EQUAL(s->stats().connections_accepted, 1u);
}

CAF_TEST(a connection the server has closed is replaced) {
  server_options options;
  options.timeouts.idle = 40ms;
  auto s = started(echo, options);
  auto c = opened(s->url());
  CAF_REQUIRE(c->request(asking("POST", "/a")));
  while (s->stats().connections_open > 0)
    std::this_thread::yield();
  auto reply = c->request(asking("POST", "/b"));
  CAF_REQUIRE(reply);
  CAF_CHECK_EQUAL(reply->body, "POST /b 0");
  CAF_CHECK_EQUAL(s->stats().connections_accepted, 2u);
}

CAF_TEST(a stream is handed on piece by piece and can be stopped) {
  auto source = std::make_shared<numbers>(1000);
  auto s = started([&](request what, responder reply) {
    response r;
    if (what.path == "/endless")
      source = std::make_shared<numbers>(-1);
    r.stream = source;
    reply(std::move(r));
  });
  auto c = opened(s->url());
  std::string all;
  CAF_REQUIRE(c->stream(asking("GET", "/"), [&](std::string_view piece) {
    all += piece;
    return true;
  }));
  CAF_CHECK_EQUAL(std::count(all.begin(), all.end(), '\n'), 1000);
  CAF_CHECK(all.substr(all.size() - 5) == "1000\n");
  int seen = 0;
  CAF_REQUIRE(c->stream(asking("GET", "/endless"), [&](std::string_view) { return ++seen < 3; }));
  CAF_CHECK_EQUAL(seen, 3);
  CAF_CHECK(source->cancelled.get_future().wait_for(10s) == std::future_status::ready);
}

CAF_TEST(a refused stream tells the problem instead) {
  auto s = started([](request, responder) {});
  auto c = opened(s->url());
  auto reply = c->stream(asking("GET", "/"), [](std::string_view) { return true; });
  CAF_REQUIRE(reply);
  CAF_CHECK_EQUAL(reply->status, 503u);
  CAF_CHECK(reply->body.find("outcome_unknown") != std::string::npos);
}

CAF_TEST(a refusal is read although the body could not be sent) {
  server_options options;
  options.limits.body_bytes = 10;
  options.limits.drain_bytes = 100'000;
  auto s = started(echo, options);
  auto c = opened(s->url());
  auto reply = c->request(asking("POST", "/", std::string(20'000'000, 'x')));
  // Beyond the drained bytes the reset may overtake the answer; either way the call ends and says so.
  if (reply)
    CAF_CHECK_EQUAL(reply->status, 413u);
  else
    CAF_CHECK(reply.error().message.find("may or may not") != std::string::npos);
}

CAF_TEST(errors name the node and the cause) {
  auto s = started([](request, responder reply) {
    static std::vector<responder> kept;
    kept.push_back(std::move(reply));
  });
  auto url = s->url();
  auto c = opened(url);
  auto slow = asking("GET", "/");
  slow.timeout = 50ms;
  auto late = c->request(slow);
  CAF_REQUIRE(!late);
  CAF_CHECK(late.error().code == ec::timeout);
  s->stop(0ms);
  auto refused = c->request(asking("GET", "/"));
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.error().code == ec::system_failed);
  CAF_CHECK_EQUAL(refused.error().message, "cannot reach " + url + ": Connection refused");
  client_options options;
  options.url = url;
  options.if_refused = "is it there?";
  const auto asked = (*client::open(options))->request({});
  CAF_REQUIRE(!asked);
  CAF_CHECK_EQUAL(asked.error().message, "cannot reach " + url + ": Connection refused; is it there?");
  for (auto bad : {"", "127.0.0.1:7070", "ftp://x", "http://", "http://a:b"}) {
    options.url = bad;
    CAF_CHECK(client::open(options).error().code == ec::invalid_setting);
  }
}

CAF_TEST(a body that ends early is an error) {
  struct broken : body_source {
    std::optional<std::uint64_t> size() const override { return 10; }
    void next(std::size_t, chunk_handler done) override {
      chunk piece;
      piece.bytes = "abc";
      piece.last = true;
      done(std::move(piece));
    }
  };
  auto s = started([](request, responder reply) {
    response r;
    r.stream = std::make_shared<broken>();
    reply(std::move(r));
  });
  auto reply = opened(s->url())->request(asking("GET", "/"));
  CAF_REQUIRE(!reply);
  CAF_CHECK(reply.error().code == ec::system_failed);
}
