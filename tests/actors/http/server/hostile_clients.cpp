// The server as clients see it that break rules, are slow, vanish, or are too many.
#define CAF_SUITE http_hostile_clients
#include "actors/http/message/problem.hpp"
#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/support.hpp"

#include <fcntl.h>
#include <fstream>
#include <future>
#include <mutex>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Sends the bytes on a new connection: the answer must be this problem, and the connection must end.
void check_refused(const server& s, std::string_view bytes, unsigned status, std::string_view code) {
  CAF_MESSAGE("sending " << bytes.substr(0, 200));
  raw_client client{s.port()};
  client.try_send(bytes);
  auto reply = client.read_reply();
  CAF_CHECK_EQUAL(reply.status, status);
  CAF_CHECK(holds(reply.head, "Content-Type: application/problem+json\r\n"));
  CAF_CHECK(holds(reply.head, "Connection: close\r\n"));
  CAF_CHECK(holds(reply.body, "\"code\":\"" + std::string{code} + "\""));
  CAF_CHECK(holds(reply.body, "\"status\":" + std::to_string(status)));
  client.half_close();
  CAF_CHECK_EQUAL(client.read_to_end(), "");
}

void check_alive(const server& s) {
  raw_client client{s.port()};
  client.send(get(s, "/alive"));
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /alive 0");
}

std::size_t resident_bytes() {
  std::ifstream file{"/proc/self/statm"};
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace

// -- syntax ------------------------------------------------------------------

CAF_TEST(request smuggling shapes are refused) {
  auto s = started(echo);
  auto with = [&](std::string_view fields) {
    return "POST / HTTP/1.1\r\nHost: " + s->address() + "\r\n" + std::string{fields} + "\r\n";
  };
  for (std::string_view fields : {
         "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
         "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
         "Content-Length: 3\r\nContent-Length: 3\r\n",
         "Content-Length: 3\r\nContent-Length: 4\r\n",
         "Content-Length: 3, 3\r\n",
         "Content-Length: +3\r\n",
         "Content-Length: -1\r\n",
         "Content-Length: 0x3\r\n",
         "Content-Length: 3 3\r\n",
         "Content-Length:\r\n",
         "Content-Length: 99999999999999999999\r\n",
         "Transfer-Encoding: identity\r\n",
         "Transfer-Encoding: xchunked\r\n",
         "Transfer-Encoding: chunked, identity\r\n",
         "Transfer-Encoding: gzip, chunked\r\n",
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
         "Transfer-Encoding : chunked\r\n",
         "Transfer-Encoding: \x0b"
         "chunked\r\n",
         "X: y\r\n folded: z\r\n",
         " Content-Length: 3\r\n",
         "Content-Length\r\n",
         ": empty\r\n",
         "X: a\rb\r\n",
         "X: a\nContent-Length: 3\r\n",
         "X: \x01\r\n",
       })
    check_refused(*s, with(fields), 400, "malformed_request");
  check_refused(*s, with(std::string{"X: a\0b\r\n", 8}), 400, "malformed_request");
  check_refused(*s, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "malformed_request");
  check_alive(*s);
}

CAF_TEST(broken chunked bodies are refused) {
  auto s = started(echo);
  auto head = "POST / HTTP/1.1\r\nHost: " + s->address() + "\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::string_view body :
       {"x\r\n", "-1\r\nabc\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "fffffffffffffffff\r\n"})
    check_refused(*s, head + std::string{body}, 400, "malformed_request");
  check_refused(*s, head + "1;" + std::string(100'000, 'x'), 400, "malformed_request");
  check_alive(*s);
}

CAF_TEST(garbage is refused as soon as it is seen) {
  auto s = started(echo);
  for (std::string_view bytes : {"\x16\x03\x01\x02", "hello\n", "GET\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
                                 "GET / FTP/1.1\r\n\r\n", " / HTTP/1.1\r\n\r\n", "G\xc3\x84T / HTTP/1.1\r\n\r\n",
                                 "GET  / HTTP/1.1\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"})
    check_refused(*s, bytes, 400, "malformed_request");
  check_refused(*s, "GET / HTTP/2.0\r\n\r\n", 505, "unsupported_version");
  check_refused(*s, "GET / HTTP/1.1\r\n\r\n", 400, "malformed_request");
  check_refused(*s, "GET / HTTP/1.1\r\nHost: \r\n\r\n", 400, "malformed_request");
  check_refused(*s, get(*s, "/", "Host: again\r\n"), 400, "malformed_request");
  check_refused(*s, get(*s, "/%"), 400, "malformed_request");
  check_refused(*s, get(*s, "/a%00b"), 400, "malformed_request");
  check_refused(*s, get(*s, "/?x=%zz"), 400, "malformed_request");
  check_refused(*s, get(*s, "/a#b"), 400, "malformed_request");
  check_refused(*s, get(*s, "no-slash"), 400, "malformed_request");
  check_refused(*s, post(*s, "/", "x", "Expect: 200-ok\r\n"), 417, "expectation_failed");
  check_alive(*s);
}

CAF_TEST(random bytes never stop the server) {
  auto s = started(echo);
  unsigned seed = 12345;
  for (int round = 0; round < 200; ++round) {
    auto text = post(*s, "/x", "body") + get(*s, "/y");
    for (int flips = 0; flips < 4; ++flips) {
      seed = seed * 1664525 + 1013904223;
      text[(seed >> 8) % text.size()] = static_cast<char>(seed >> 24);
    }
    raw_client client{s->port()};
    client.try_send(text);
    client.half_close();
    CAF_CHECK(holds(client.read_to_end(), "HTTP/1.1 "));
  }
  check_alive(*s);
}

// -- limits ------------------------------------------------------------------

CAF_TEST(too long and too many header fields are refused) {
  auto s = started(echo);
  check_refused(*s, get(*s, "/", "X: " + std::string(70'000, 'x') + "\r\n"), 431, "header_too_large");
  std::string many;
  for (int i = 0; i < 10'000; ++i)
    many += "a:\r\n";
  check_refused(*s, get(*s, "/", many), 431, "header_too_large");
  for (const auto length : {10'000u, 100'000u})
    check_refused(*s, get(*s, "/" + std::string(length, 'x')), 414, "target_too_long");
  check_alive(*s);
}

CAF_TEST(a client that sends too long a body really receives the 413) {
  server_options options;
  options.limits.body_bytes = 1024;
  auto s = started(echo, options);
  // Far more than the kernel's buffers hold, and the client reads only after it has sent everything.
  check_refused(*s, post(*s, "/", std::string(20'000'000, 'x')), 413, "body_too_large");
  check_refused(*s,
                "POST / HTTP/1.1\r\nHost: " + s->address() + "\r\nTransfer-Encoding: chunked\r\n\r\n1312D00\r\n" +
                  std::string(20'000'000, 'x'),
                413, "body_too_large");
  // No 100 Continue: the client hears the refusal before it sends.
  check_refused(
    *s, "POST / HTTP/1.1\r\nHost: " + s->address() + "\r\nExpect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n",
    413, "body_too_large");
  check_alive(*s);
}

CAF_TEST(what is drained after a refusal is bounded) {
  server_options options;
  options.limits.body_bytes = 1024;
  options.limits.drain_bytes = 1'000'000;
  auto s = started(echo, options);
  raw_client client{s->port()};
  client.send("POST / HTTP/1.1\r\nHost: " + s->address() + "\r\nContent-Length: 9000000000\r\n\r\n");
  std::string block(1'000'000, 'x');
  int blocks = 0;
  while (blocks < 100 && client.try_send(block))
    ++blocks;
  CAF_CHECK_LESS(blocks, 100);
  check_alive(*s);
}

CAF_TEST(a refused admission leaves the body unread) {
  server_options options;
  options.admit = [](const request& what) {
    admission verdict;
    if (!what.headers.find("Authorization"))
      verdict.refusal = problem(ec::unauthorized, "no token");
    else if (what.path == "/big")
      verdict.body_limit = 100'000'000;
    verdict.body_advice = "Send it in pieces.";
    return verdict;
  };
  options.limits.body_bytes = 10;
  auto s = started(echo, options);
  check_refused(*s, post(*s, "/", std::string(5'000'000, 'x')), 401, "unauthorized");
  check_refused(*s, post(*s, "/", std::string(11, 'x'), "Authorization: Bearer t\r\n"), 413, "body_too_large");
  for (const auto* body : {"Content-Length: 11\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nb\r\nxxxxxxxxxxx\r\n"}) {
    raw_client told{s->port()};
    told.send("POST / HTTP/1.1\r\nHost: " + s->address() + "\r\nAuthorization: Bearer t\r\n" + body);
    CAF_CHECK(holds(told.read_reply().body, "longer than 10 bytes. Send it in pieces."));
  }
  raw_client client{s->port()};
  client.send(post(*s, "/big", std::string(50'000'000, 'x'), "Authorization: Bearer t\r\n"));
  CAF_CHECK_EQUAL(client.read_reply().body, "POST /big 50000000");
}

CAF_TEST(a compressed body is refused whatever else it is) {
  auto s = started(echo);
  for (const auto* encoding : {"gzip", "deflate", "x", "identity, gzip"})
    check_refused(*s, post(*s, "/", "body", "Content-Encoding: " + std::string{encoding} + "\r\n"), 415,
                  "unsupported_media_type");
  check_refused(*s, post(*s, "/", "body", "Content-Encoding: identity\r\ncontent-encoding: br\r\n"), 415,
                "unsupported_media_type");
  raw_client client{s->port()};
  client.send(post(*s, "/a", "body", "Content-Encoding: Gzip\r\n"));
  CAF_CHECK(holds(client.read_reply().head, "Accept-Encoding: identity\r\n"));
  raw_client plain{s->port()};
  plain.send(post(*s, "/a", "body", "Content-Encoding: Identity\r\n"));
  CAF_CHECK_EQUAL(plain.read_reply().body, "POST /a 4 body");
}

CAF_TEST(all bodies together have a limit) {
  server_options options;
  options.limits.all_body_bytes = 1000;
  auto s = started(echo, options);
  raw_client first{s->port()};
  first.send("POST /1 HTTP/1.1\r\nHost: " + s->address() + "\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n");
  CAF_CHECK_EQUAL(first.read_reply().status, 100u);
  check_refused(*s, post(*s, "/2", std::string(200, 'x')), 503, "overloaded");
  first.send(std::string(900, 'x'));
  CAF_CHECK_EQUAL(first.read_reply().body, "POST /1 900");
  // The room is free again.
  first.send(post(*s, "/3", std::string(1000, 'x')));
  CAF_CHECK_EQUAL(first.read_reply().body, "POST /3 1000");
}

CAF_TEST(the limit of all bodies holds for chunked ones that are not whole yet) {
  server_options options;
  options.limits.all_body_bytes = 1000;
  auto s = started(echo, options);
  const auto chunked = [&](const char* target) {
    return "POST " + std::string{target} + " HTTP/1.1\r\nHost: " + s->address() +
           "\r\nTransfer-Encoding: chunked\r\n\r\n384\r\n" + std::string(0x384, 'x');
  };
  const auto begun = chunked("/1");
  raw_client first{s->port()};
  first.send(begun);
  while (s->stats().bytes_in < begun.size())
    std::this_thread::yield();
  check_refused(*s, post(*s, "/2", std::string(200, 'x')), 503, "overloaded");
  check_refused(*s, chunked("/3"), 503, "overloaded");
  first.send("\r\n0\r\n\r\n");
  CAF_CHECK_EQUAL(first.read_reply().body, "POST /1 900");
}

CAF_TEST(a body counts as long as somebody holds its request) {
  std::mutex mutex;
  std::vector<std::pair<request, responder>> held;
  std::promise<void> gone;
  server_options options;
  options.limits.all_body_bytes = 1000;
  options.timeouts.idle = 400ms;
  options.abandoned = [&](std::uint64_t, std::uint64_t) { gone.set_value(); };
  auto s = started(
    [&](request what, responder reply) {
      if (what.path != "/held")
        return echo(what, reply);
      const std::lock_guard lock{mutex};
      held.emplace_back(std::move(what), std::move(reply));
    },
    options);
  raw_client leaving{s->port()};
  leaving.send(post(*s, "/held", std::string(900, 'x')));
  for (bool came = false; !came; std::this_thread::yield()) {
    const std::lock_guard lock{mutex};
    came = !held.empty();
  }
  leaving.reset();
  CAF_REQUIRE(gone.get_future().wait_for(10s) == std::future_status::ready);
  check_refused(*s, post(*s, "/2", std::string(200, 'x')), 503, "overloaded");
  {
    const std::lock_guard lock{mutex};
    held.clear();
  }
  raw_client next{s->port()};
  next.send(post(*s, "/3", std::string(1000, 'x')));
  CAF_CHECK_EQUAL(next.read_reply().body.substr(0, 12), "POST /3 1000");
}

CAF_TEST(a connection too many is told so and the others go on) {
  server_options options;
  options.limits.connections = 2;
  auto s = started(echo, options);
  raw_client first{s->port()};
  raw_client second{s->port()};
  for (auto* client : {&first, &second}) {
    client->send(get(*s, "/"));
    CAF_CHECK_EQUAL(client->read_reply().status, 200u);
  }
  check_refused(*s, get(*s, "/"), 503, "overloaded");
  first.send(get(*s, "/again"));
  CAF_CHECK_EQUAL(first.read_reply().body, "GET /again 0");
  CAF_CHECK_EQUAL(s->stats().connections_refused, 1u);
}

// -- time --------------------------------------------------------------------

CAF_TEST(a header that does not come to an end gets 408) {
  server_options options;
  options.timeouts.header = 100ms;
  auto s = started(echo, options);
  check_refused(*s, "GET / HTTP/1.1\r\nHost: ", 408, "request_timeout");
  CAF_CHECK(s->stats().timeouts >= 1);
}

CAF_TEST(a body that stops coming gets 408) {
  server_options options;
  options.timeouts.body = 100ms;
  auto s = started(echo, options);
  check_refused(*s, "POST / HTTP/1.1\r\nHost: " + s->address() + "\r\nContent-Length: 10\r\n\r\nabc", 408,
                "request_timeout");
}

CAF_TEST(idle connections are closed without a word) {
  server_options options;
  options.timeouts.header = 100ms;
  options.timeouts.idle = 100ms;
  auto s = started(echo, options);
  raw_client silent{s->port()};
  raw_client used{s->port()};
  used.send(get(*s, "/"));
  CAF_CHECK_EQUAL(used.read_reply().status, 200u);
  CAF_CHECK_EQUAL(silent.read_to_end(), "");
  CAF_CHECK_EQUAL(used.read_to_end(), "");
}

CAF_TEST(a client that does not read its response is cut) {
  server_options options;
  options.timeouts.write = 100ms;
  std::promise<void> handled;
  auto s = started(
    [&](request, responder reply) {
      reply(text_response(200, std::string(50'000'000, 'x')));
      handled.set_value();
    },
    options);
  raw_client client{s->port(), 4096};
  client.send(get(*s, "/"));
  handled.get_future().get();
  // Reading nothing until the server has given up: its last connection is gone.
  while (s->stats().connections_open > 0)
    std::this_thread::yield();
  CAF_CHECK_LESS(client.read_to_end().size(), 50'000'000u);
}

CAF_TEST(a reset in the middle of a response harms nobody else) {
  auto s = started([](request what, responder reply) {
    if (what.path == "/big")
      reply(text_response(200, std::string(50'000'000, 'x')));
    else
      echo(what, reply);
  });
  for (int i = 0; i < 5; ++i) {
    raw_client client{s->port()};
    client.send(get(*s, "/big"));
    client.read_some(1000);
    client.reset();
  }
  check_alive(*s);
}

// -- who may ask -------------------------------------------------------------

CAF_TEST(a loopback server answers only for loopback names with its port) {
  server_options options;
  options.allowed_hosts = {"ci.example.org"};
  auto s = started(echo, options);
  auto port = std::to_string(s->port());
  auto named = [](std::string_view host) { return "GET / HTTP/1.1\r\nHost: " + std::string{host} + "\r\n\r\n"; };
  for (auto host : {"localhost:" + port, "LOCALHOST:" + port, "127.0.0.1:" + port, "127.1.2.3:" + port, "[::1]:" + port,
                    std::string{"ci.example.org"}, "CI.example.org:" + port}) {
    CAF_MESSAGE(host);
    raw_client client{s->port()};
    client.send(named(host));
    CAF_CHECK_EQUAL(client.read_reply().status, 200u);
  }
  for (auto host :
       {"evil.example:" + port, std::string{"localhost"}, std::string{"localhost:1"}, "localhost.evil.example:" + port,
        "127.0.0.1.evil.example:" + port, "10.0.0.1:" + port, "user@localhost:" + port, "localhost:" + port + "x"})
    check_refused(*s, named(host), 421, "misdirected_request");
  check_refused(*s, "GET http://evil.example/ HTTP/1.1\r\nHost: " + s->address() + "\r\n\r\n", 421,
                "misdirected_request");
  raw_client client{s->port()};
  client.send("GET http://" + s->address() + "/x HTTP/1.1\r\nHost: " + s->address() + "\r\n\r\n");
  CAF_CHECK_EQUAL(client.read_reply().body, "GET /x 0");
}

CAF_TEST(pages of other origins are refused) {
  server_options options;
  options.allowed_origins = {"http://127.0.0.1:7071"};
  auto s = started(echo, options);
  for (auto origin : {"http://" + s->address(), std::string{"http://127.0.0.1:7071"}}) {
    raw_client client{s->port()};
    client.send(get(*s, "/", "Origin: " + origin + "\r\n"));
    CAF_CHECK_EQUAL(client.read_reply().status, 200u);
  }
  for (auto origin : {std::string{"https://evil.example"}, std::string{"null"}, std::string{"http://127.0.0.1"},
                      "https://" + s->address(), std::string{""}})
    check_refused(*s, get(*s, "/", "Origin: " + origin + "\r\n"), 403, "foreign_origin");
}

// -- many --------------------------------------------------------------------

CAF_TEST(two thousand idle connections cost little) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 5000);
  CAF_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto s = started(echo);
  check_alive(*s);
  auto before = resident_bytes();
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 2000; ++i) {
    clients.push_back(std::make_unique<raw_client>(s->port()));
    clients.back()->send(get(*s, "/"));
    clients.back()->read_reply();
  }
  auto each = (resident_bytes() - before) / clients.size();
  CAF_MESSAGE("bytes per idle connection, both ends in this process: " << each);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // 10,000 within 200 MB are 20 KB each. Sanitizers have their own use for memory.
  CAF_CHECK_LESS(each, 20'000u);
#endif
  check_alive(*s);
}

CAF_TEST(running out of descriptors neither spins nor lasts) {
  auto s = started(echo);
  check_alive(*s);
  raw_client old{s->port()};
  old.send(get(*s, "/"));
  CAF_CHECK_EQUAL(old.read_reply().status, 200u);
  // The client's end needs a descriptor too: make it first, then leave none.
  raw_client waiting{s->port()};
  waiting.send(get(*s, "/first"));
  waiting.read_reply();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  CAF_REQUIRE(next >= 0);
  auto low = limit;
  low.rlim_cur = static_cast<rlim_t>(next) + 1;
  ::close(next);
  CAF_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &low), 0);
  // Takes the last descriptor; the server has none left to accept it with.
  raw_client starved{s->port()};
  starved.send(get(*s, "/starved"));
  // A server that spins fails thousands of times in the time of these four tries, which are 100 ms apart.
  auto begin = std::chrono::steady_clock::now();
  while (s->stats().accept_failures < 4 && std::chrono::steady_clock::now() < begin + 10s)
    std::this_thread::yield();
  CAF_CHECK(s->stats().accept_failures >= 4);
  CAF_CHECK(std::chrono::steady_clock::now() - begin >= 250ms);
  old.send(get(*s, "/old"));
  CAF_CHECK_EQUAL(old.read_reply().body, "GET /old 0");
  CAF_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  CAF_CHECK_EQUAL(starved.read_reply().body, "GET /starved 0");
}
