// The server as well-behaved clients see it: responses, order, keep-alive, streams, stopping.
#define CAF_SUITE http_server
#include "actors/http/server/server.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/actors/http/support.hpp"

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Hands responders to the test.
class desk {
public:
  void put(responder reply) {
    std::lock_guard lock{mutex_};
    waiting_.push_back(std::move(reply));
    changed_.notify_all();
  }

  responder take() {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, 10s, [this] { return !waiting_.empty(); }))
      throw std::runtime_error{"no request came"};
    auto result = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return result;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<responder> waiting_;
};

} // namespace

CAF_TEST(one connection carries many requests) {
  auto s = started(echo);
  raw_client client{s->port()};
  for (int i = 0; i < 3; ++i) {
    client.send(get(*s, "/a"));
    CAF_CHECK_EQUAL(client.read_reply().body, "GET /a 0");
    client.send(post(*s, "/b", "xyz"));
    CAF_CHECK_EQUAL(client.read_reply().body, "POST /b 3 xyz");
  }
  CAF_CHECK_EQUAL(s->stats().connections_accepted, 1u);
  CAF_CHECK_EQUAL(s->stats().requests, 6u);
}

CAF_TEST(pipelined requests are answered in order) {
  desk waiting;
  auto s = started([&](request what, responder reply) {
    if (what.path == "/slow")
      waiting.put(std::move(reply));
    else
      echo(what, reply);
  });
  raw_client client{s->port()};
  client.send(get(*s, "/slow") + get(*s, "/1") + post(*s, "/2", "b") + get(*s, "/3"));
  waiting.take()(text_response(200, "slow"));
  CAF_CHECK_EQUAL(client.read_reply().body, "slow");
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /1 0");
  CAF_CHECK_EQUAL(client.read_reply().body, "POST /2 1 b");
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /3 0");
}

CAF_TEST(a request that came byte by byte is understood) {
  auto s = started(echo);
  raw_client client{s->port()};
  for (char c : post(*s, "/slow?x=1", "body"))
    client.send({&c, 1});
  CAF_CHECK_EQUAL(client.read_reply().body, "POST /slow 4 body");
}

CAF_TEST(path and query arrive decoded) {
  std::promise<request> seen;
  auto s = started([&](request what, responder reply) {
    seen.set_value(what);
    reply(response{});
  });
  raw_client client{s->port()};
  client.send(get(*s, "/a%20b?x=1%2B1&y=a+b&x=2&flag", "X-Test:  some value \r\n"));
  CAF_CHECK_EQUAL(client.read_reply().status, 200u);
  auto what = seen.get_future().get();
  CAF_CHECK_EQUAL(what.path, "/a b");
  CAF_CHECK_EQUAL(what.query.size(), 4u);
  CAF_CHECK(what.parameter("x") == "1+1");
  CAF_CHECK(what.parameter("y") == "a b");
  CAF_CHECK(what.parameter("flag") == "");
  CAF_CHECK(!what.parameter("z"));
  CAF_CHECK(what.headers.find("x-test") == "some value");
  CAF_CHECK_EQUAL(what.remote_address, "127.0.0.1");
  CAF_CHECK_EQUAL(what.session_id, 1u);
}

CAF_TEST(Connection close and HTTP 1.0 end the connection after the reply) {
  auto s = started(echo);
  for (auto text : {get(*s, "/", "Connection: close\r\n"), std::string{"GET / HTTP/1.0\r\n\r\n"}}) {
    raw_client client{s->port()};
    client.send(text);
    auto all = client.read_to_end();
    CAF_CHECK(holds(all, "HTTP/1.1 200 OK\r\n"));
    CAF_CHECK(holds(all, "Connection: close\r\n"));
    CAF_CHECK(holds(all, "GET / 0"));
  }
  raw_client client{s->port()};
  client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CAF_CHECK(holds(client.read_reply().head, "Connection: keep-alive"));
  client.send(get(*s, "/b"));
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /b 0");
}

CAF_TEST(HEAD gets the header of GET and no body) {
  auto s = started(echo);
  raw_client client{s->port()};
  client.send("HEAD /a HTTP/1.1\r\nHost: " + s->address() + "\r\n\r\n" + get(*s, "/b"));
  CAF_CHECK(holds(client.read_reply(true).head, "Content-Length: 9\r\n"));
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /b 0");
}

CAF_TEST(100 continue is sent before the body is) {
  auto s = started(echo);
  raw_client client{s->port()};
  client.send("POST /a HTTP/1.1\r\nHost: " + s->address() + "\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CAF_CHECK_EQUAL(client.read_reply().status, 100u);
  client.send("ok");
  CAF_CHECK_EQUAL(client.read_reply().body, "POST /a 2 ok");
}

CAF_TEST(a chunked request body arrives whole and its trailer is not a header) {
  std::promise<request> seen;
  auto s = started([&](request what, responder reply) {
    seen.set_value(what);
    echo(what, reply);
  });
  raw_client client{s->port()};
  client.send("POST /a HTTP/1.1\r\nHost: " + s->address() + "\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("3\r\nabc\r\n4;name=value\r\ndefg\r\n0\r\nAuthorization: Bearer no\r\n\r\n");
  client.send(get(*s, "/next"));
  CAF_CHECK_EQUAL(client.read_reply().body, "POST /a 7 abcdefg");
  CAF_CHECK(!seen.get_future().get().headers.find("Authorization"));
}

CAF_TEST(a half closed client gets its asynchronous reply) {
  desk waiting;
  auto s = started([&](request, responder reply) { waiting.put(std::move(reply)); });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  client.half_close();
  auto reply = waiting.take();
  std::promise<void> turned;
  s->post([&] { turned.set_value(); });
  turned.get_future().get();
  CAF_CHECK(!reply.settled());
  reply(text_response(200, "late"));
  CAF_CHECK_EQUAL(client.read_reply().body, "late");
  CAF_CHECK_EQUAL(client.read_to_end(), "");
}

CAF_TEST(an answer that its client does not get is told as lost) {
  desk waiting;
  auto s = started([&](request, responder reply) { waiting.put(std::move(reply)); });
  // Whether the answer of so many bytes to a client that sent no more, and did `then`, was lost.
  const auto lost = [&](std::size_t size, auto then) {
    auto client = std::make_unique<raw_client>(s->port());
    client->send(get(*s, "/"));
    auto reply = waiting.take();
    then(client);
    bool told = false;
    std::promise<void> settled;
    auto answer = text_response(200, std::string(size, 'x'));
    answer.receipt = {new receipt{[&] { told = true; }}, [&](receipt* done) {
                        delete done;
                        settled.set_value();
                      }};
    CAF_CHECK(reply(std::move(answer)));
    if (client)
      CAF_CHECK_EQUAL(client->read_reply().body.size(), size);
    if (settled.get_future().wait_for(10s) != std::future_status::ready)
      throw std::runtime_error{"nothing becomes of the answer"};
    return told;
  };
  for (const std::size_t size : {10, 10'000'000}) {
    CAF_CHECK(!lost(size, [](auto&) {}));
    CAF_CHECK(!lost(size, [](auto& client) { client->half_close(); }));
    CAF_CHECK(lost(size, [](auto& client) { client.reset(); }));
  }
}

CAF_TEST(a dropped responder is answered for with outcome unknown) {
  auto s = started([](request, responder) {});
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  auto reply = client.read_reply();
  CAF_CHECK_EQUAL(reply.status, 503u);
  CAF_CHECK(holds(reply.head, "application/problem+json"));
  CAF_CHECK(holds(reply.head, "Retry-After: 1"));
  CAF_CHECK(holds(reply.body, "\"code\":\"outcome_unknown\""));
}

CAF_TEST(only the first answer counts) {
  std::promise<bool> second;
  auto s = started([&](request, responder reply) {
    auto copy = reply;
    reply(text_response(200, "first"));
    second.set_value(copy(text_response(200, "second")));
  });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  CAF_CHECK_EQUAL(client.read_reply().body, "first");
  CAF_CHECK(!second.get_future().get());
}

CAF_TEST(a handler that throws answers 500 and the connection goes on) {
  auto s = started([](request what, responder reply) {
    if (what.path == "/bad")
      throw std::runtime_error{"bad"};
    echo(what, reply);
  });
  raw_client client{s->port()};
  client.send(get(*s, "/bad") + get(*s, "/good"));
  CAF_CHECK_EQUAL(client.read_reply().status, 500u);
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /good 0");
}

CAF_TEST(what one turn of the loop parsed can go onward as one batch) {
  std::vector<responder> batch;
  std::atomic<std::size_t> flushes{0};
  server_options options;
  options.turn_ended = [&] {
    ++flushes;
    for (auto& reply : std::exchange(batch, {}))
      reply(text_response(200, "batched"));
  };
  auto s = started([&](request, responder reply) { batch.push_back(std::move(reply)); }, options);
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 8; ++i)
    clients.push_back(std::make_unique<raw_client>(s->port()));
  for (auto& client : clients)
    client->send(get(*s, "/"));
  for (auto& client : clients)
    CAF_CHECK_EQUAL(client->read_reply().body, "batched");
  CAF_CHECK(flushes >= 1 && flushes <= 8);
}

CAF_TEST(a header value cannot split a response) {
  auto s = started([](request, responder reply) {
    response r;
    r.headers.add("Location", "/x\r\nEvil: yes");
    reply(std::move(r));
  });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  CAF_CHECK(holds(client.read_reply().head, "Location: /x  Evil: yes\r\n"));
}

// -- vanishing ---------------------------------------------------------------

CAF_TEST(a client that resets while it waits is noticed) {
  desk waiting;
  std::promise<std::uint64_t> gone;
  server_options options;
  options.timeouts.idle = 400ms;
  options.abandoned = [&](std::uint64_t, std::uint64_t id) { gone.set_value(id); };
  auto s = started([&](request, responder reply) { waiting.put(std::move(reply)); }, options);
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  auto reply = waiting.take();
  client.reset();
  auto told = gone.get_future();
  CAF_REQUIRE(told.wait_for(10s) == std::future_status::ready);
  CAF_CHECK_EQUAL(told.get(), 1u);
  s->stop(10s);
  // The answer has nowhere to go, which is told.
  CAF_CHECK(!reply(text_response(200, "late")));
}

CAF_TEST(a client that closes its sending side is told of once and still answered) {
  desk waiting;
  std::promise<std::uint64_t> told;
  std::atomic<int> times{0};
  server_options options;
  options.timeouts.idle = 40ms;
  options.abandoned = [&](std::uint64_t, std::uint64_t id) {
    if (++times == 1)
      told.set_value(id);
  };
  auto s = started([&](request, responder reply) { waiting.put(std::move(reply)); }, options);
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  auto reply = waiting.take();
  client.half_close();
  auto id = told.get_future();
  CAF_REQUIRE(id.wait_for(10s) == std::future_status::ready);
  CAF_CHECK_EQUAL(id.get(), 1u);
  // Several looks at all clients later.
  std::this_thread::sleep_for(60ms);
  CAF_CHECK(reply(text_response(200, "yes")));
  CAF_CHECK_EQUAL(client.read_reply().body, "yes");
  CAF_CHECK_EQUAL(times.load(), 1);
}

// -- stopping ----------------------------------------------------------------

CAF_TEST(a graceful stop finishes what is in flight and closes the rest) {
  desk waiting;
  auto s = started([&](request, responder reply) { waiting.put(std::move(reply)); });
  raw_client idle{s->port()};
  raw_client busy{s->port()};
  busy.send(get(*s, "/"));
  auto reply = waiting.take();
  s->stop_listening();
  CAF_CHECK_EQUAL(idle.read_to_end(), "");
  std::thread stopper{[&] { s->stop(10s); }};
  reply(text_response(200, "finished"));
  auto got = busy.read_reply();
  CAF_CHECK_EQUAL(got.body, "finished");
  CAF_CHECK(holds(got.head, "Connection: close"));
  CAF_CHECK_EQUAL(busy.read_to_end(), "");
  stopper.join();
  CAF_CHECK_EQUAL(s->stats().connections_open, 0u);
}

CAF_TEST(after the grace a stop cuts what is left) {
  desk waiting;
  auto s = started([&](request, responder reply) { waiting.put(std::move(reply)); });
  raw_client client{s->port()};
  client.send(get(*s, "/"));
  auto reply = waiting.take();
  s->stop(1ms);
  CAF_CHECK_EQUAL(client.read_to_end(), "");
  // An answer after the server's end goes nowhere.
  s.reset();
  reply(text_response(200, "late"));
}

CAF_TEST(a taken port is told by its number) {
  auto s = started(echo);
  server_options options;
  options.port = s->port();
  auto second = server::start(options, echo);
  CAF_REQUIRE(!second);
  CAF_CHECK(second.error().code == ec::system_failed);
  CAF_CHECK(holds(second.error().message, s->address()));
  options.address = "localhost";
  CAF_CHECK(server::start(options, echo).error().code == ec::invalid_setting);
}
