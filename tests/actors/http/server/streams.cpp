// Streamed response bodies: framing, back pressure, and what ends them.
#define CAF_SUITE http_streams
#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/support.hpp"

#include <atomic>
#include <future>
#include <thread>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// `count` pieces of `size` bytes each; remembers how many were asked for.
class pieces : public body_source {
public:
  pieces(std::size_t count, std::size_t bytes, bool sized) : left_{count}, bytes_{bytes}, sized_{sized} {}

  std::optional<std::uint64_t> size() const override {
    return sized_ ? std::optional<std::uint64_t>{left_ * bytes_} : std::nullopt;
  }

  void next(std::size_t max_bytes, chunk_handler done) override {
    ++asked;
    chunk piece;
    piece.bytes.assign(std::min(bytes_, max_bytes), 'x');
    piece.last = --left_ == 0;
    // From another thread, as a reader actor would.
    std::thread{[done = std::move(done), piece = std::move(piece)]() mutable { done(std::move(piece)); }}.detach();
  }

  void cancel() noexcept override { cancelled.set_value(); }

  std::atomic<std::size_t> asked{0};
  std::promise<void> cancelled;

private:
  std::size_t left_;
  std::size_t bytes_;
  bool sized_;
};

response streamed(std::shared_ptr<body_source> source) {
  response result;
  result.stream = std::move(source);
  return result;
}

} // namespace

CAF_TEST(streams come with a length or in chunks) {
  for (bool sized : {true, false}) {
    auto s = started([&](request, responder reply) { reply(streamed(std::make_shared<pieces>(50, 1000, sized))); });
    raw_client client{s->port()};
    client.send(get(*s, "/") + get(*s, "/"));
    for (int i = 0; i < 2; ++i) {
      auto reply = client.read_reply();
      CAF_CHECK_EQUAL(reply.body, std::string(50'000, 'x'));
      CAF_CHECK(holds(reply.head, sized ? "Content-Length: 50000" : "Transfer-Encoding: chunked"));
    }
  }
}

CAF_TEST(a stream to an HTTP 1.0 client ends with the connection) {
  auto s = started([&](request, responder reply) { reply(streamed(std::make_shared<pieces>(3, 10, false))); });
  raw_client client{s->port()};
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto all = client.read_to_end();
  CAF_CHECK(!holds(all, "chunked"));
  CAF_CHECK(holds(all, "\r\n\r\n" + std::string(30, 'x')));
}

CAF_TEST(a stream that breaks cuts the connection instead of looking complete) {
  struct broken : body_source {
    void next(std::size_t, chunk_handler done) override {
      chunk piece;
      piece.bytes = "part";
      piece.failed = asked++ > 0;
      done(std::move(piece));
    }
    int asked = 0;
  };
  auto s = started([&](request, responder reply) { reply(streamed(std::make_shared<broken>())); });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  auto all = client.read_to_end();
  CAF_CHECK(holds(all, "4\r\npart\r\n"));
  CAF_CHECK(!holds(all, "0\r\n\r\n"));
}

CAF_TEST(a stream whose callback is dropped cuts the connection) {
  struct forgetful : body_source {
    void next(std::size_t, chunk_handler) override {}
  };
  auto s = started([&](request, responder reply) { reply(streamed(std::make_shared<forgetful>())); });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  CAF_CHECK(!holds(client.read_to_end(), "0\r\n\r\n"));
}

CAF_TEST(a slow reader is not read ahead for) {
  auto source = std::make_shared<pieces>(100'000, 64 * 1024, true);
  server_options options;
  options.timeouts.write = 200ms;
  auto s = started([&](request, responder reply) { reply(streamed(source)); }, options);
  raw_client client{s->port(), 4096};
  client.send(get(*s, "/"));
  client.read_some(1);
  // The client reads no more: the write times out, which ends the stream.
  CAF_REQUIRE(source->cancelled.get_future().wait_for(10s) == std::future_status::ready);
  // What was pulled fits the kernel's buffers of both ends (about 4 MB at most), far below the 6.5 GB offered.
  CAF_CHECK_LESS(source->asked.load(), 200u);
}

CAF_TEST(a client that resets in the middle of a stream ends it) {
  auto source = std::make_shared<pieces>(100'000, 64 * 1024, true);
  auto s = started([&](request, responder reply) { reply(streamed(source)); });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  client.read_some(100'000);
  client.reset();
  CAF_CHECK(source->cancelled.get_future().wait_for(10s) == std::future_status::ready);
}
