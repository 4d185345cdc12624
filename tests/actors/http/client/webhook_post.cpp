#define CAF_SUITE http_webhook_post
#include "actors/http/client/webhook_post.hpp"

#include "actors/http/message/auth.hpp"
#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/support.hpp"

#include <future>
#include <thread>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

constexpr timestamp then{1'767'268'800'123ms};

delivery message(const server& to, const std::string& target) {
  delivery what;
  what.id = 17;
  what.event = job_state::failed;
  what.url = to.url() + target;
  what.secret = "s3cret";
  what.body = R"({"event":"job.failed"})";
  return what;
}

} // namespace

CAF_TEST(a signature is that of time and body) {
  // RFC 4231, test case 2, by way of the plain function.
  CAF_CHECK_EQUAL(hmac_sha256("Jefe", "what do ya want for nothing?"),
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CAF_CHECK_EQUAL(webhook_signature("k", then, "{}"), "t=1767268800,v1=" + hmac_sha256("k", "1767268800.{}"));
}

CAF_TEST(a delivery is a signed POST that says what it is) {
  std::promise<request> got;
  auto s = started([&](request ask, const responder& reply) {
    got.set_value(std::move(ask));
    reply(text_response(202, "thanks"));
  });
  const auto result = post_webhook(message(*s, "/hook?from=kcx"), then, {});
  CAF_CHECK(result.id == 17 && result.status == 202 && result.failure.empty());
  const auto ask = got.get_future().get();
  CAF_CHECK_EQUAL(ask.method, "POST");
  CAF_CHECK_EQUAL(ask.target, "/hook?from=kcx");
  CAF_CHECK_EQUAL(ask.body, R"({"event":"job.failed"})");
  CAF_CHECK_EQUAL(ask.headers.find("Content-Type").value_or(""), "application/json");
  CAF_CHECK_EQUAL(ask.headers.find("Kcx-Event").value_or(""), "job.failed");
  CAF_CHECK_EQUAL(ask.headers.find("Kcx-Delivery").value_or(""), "17");
  CAF_CHECK_EQUAL(ask.headers.find("Kcx-Signature").value_or(""), webhook_signature("s3cret", then, ask.body));
}

CAF_TEST(without a secret nothing is signed and without a path it goes to the root) {
  std::promise<request> got;
  auto s = started([&](request ask, const responder& reply) {
    got.set_value(std::move(ask));
    reply(text_response(500, "no"));
  });
  auto what = message(*s, "");
  what.secret.clear();
  CAF_CHECK(post_webhook(what, then, {}).status == 500);
  const auto ask = got.get_future().get();
  CAF_CHECK_EQUAL(ask.target, "/");
  CAF_CHECK(!ask.headers.find("Kcx-Signature"));
}

CAF_TEST(the status of a receiver counts however long and slow the rest of its answer is) {
  struct dripping : body_source {
    void next(std::size_t, chunk_handler done) override {
      std::thread{[done = std::move(done)] {
        std::this_thread::sleep_for(20ms);
        chunk piece;
        piece.bytes = "x";
        done(std::move(piece));
      }}.detach();
    }
  };
  auto s = started([](const request&, const responder& reply) {
    response answer;
    answer.stream = std::make_shared<dripping>();
    reply(std::move(answer));
  });
  const auto result = post_webhook(message(*s, "/"), then, {});
  CAF_CHECK(result.status == 200 && result.failure.empty());
}

CAF_TEST(a receiver that does not answer is left when its time is up) {
  std::vector<responder> kept;
  auto s = started([&](const request&, const responder& reply) { kept.push_back(reply); });
  webhook_limits limits;
  limits.timeout = 300ms;
  const auto result = post_webhook(message(*s, "/"), then, limits);
  CAF_CHECK(!result.status && !result.failure.empty());
}

CAF_TEST(a node that stops does not wait for a receiver) {
  std::promise<void> asked;
  std::vector<responder> kept;
  auto s = started([&](const request&, const responder& reply) {
    kept.push_back(reply);
    asked.set_value();
  });
  std::stop_source stop;
  webhook_limits limits;
  limits.timeout = 60s;
  limits.stop = stop.get_token();
  auto result = std::async(std::launch::async, [&] { return post_webhook(message(*s, "/"), then, limits); });
  asked.get_future().wait();
  stop.request_stop();
  CAF_CHECK(result.wait_for(10s) == std::future_status::ready);
  CAF_CHECK(!result.get().status);
}

CAF_TEST(nobody at the address is told in words) {
  delivery what;
  what.url = "http://127.0.0.1:1/x";
  const auto result = post_webhook(what, then, {});
  CAF_CHECK(!result.status);
  CAF_CHECK_EQUAL(result.failure, "cannot reach http://127.0.0.1:1: Connection refused");
}

CAF_TEST(a stored address that nothing can be sent to is told as one) {
  delivery what;
  what.url = "http://127.0.0.1:99999/";
  const auto result = post_webhook(what, then, {});
  CAF_CHECK_EQUAL(result.failure, "\"http://127.0.0.1:99999/\" is no address that anything can be sent to");
}
