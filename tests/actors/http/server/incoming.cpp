// Request bodies that are taken while they are answered.
#define CAF_SUITE http_incoming
#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/support.hpp"

#include <future>
#include <mutex>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

/// Sends back what comes, piece by piece, in brackets; behind it "." for a whole body, or the status of what broke it.
class echo_stream : public body_source, public std::enable_shared_from_this<echo_stream> {
public:
  explicit echo_stream(std::shared_ptr<incoming_body> from) : from_{std::move(from)} {}

  void next(std::size_t, chunk_handler done) override {
    from_->next([done = std::move(done)](incoming_piece piece) {
      chunk told;
      told.bytes = "[" + piece.bytes + "]";
      told.last = piece.last || piece.broken;
      if (piece.broken)
        told.bytes += std::to_string(piece.broken->status);
      else if (piece.last)
        told.bytes += ".";
      done(std::move(told));
    });
  }

private:
  std::shared_ptr<incoming_body> from_;
};

server_options streaming() {
  server_options options;
  options.admit = [](const request&) {
    admission verdict;
    verdict.streamed = true;
    return verdict;
  };
  return options;
}

void echo_pieces(const request& ask, const responder& reply) {
  response answer;
  answer.stream = std::make_shared<echo_stream>(ask.incoming);
  reply(std::move(answer));
}

std::string head(const server& s, std::string_view fields) {
  return "POST / HTTP/1.1\r\nHost: " + s.address() + "\r\n" + std::string{fields} + "\r\n";
}

/// The next chunk of a chunked answer, without its frame.
std::string take_chunk(raw_client& client) {
  std::string text;
  while (text.size() < 2 || !text.ends_with("]\r\n"))
    text += client.read_some(1);
  return text.substr(text.find("\r\n") + 2, text.size() - text.find("\r\n") - 4);
}

void skip_head(raw_client& client) {
  std::string text;
  while (!text.ends_with("\r\n\r\n"))
    text += client.read_some(1);
}

} // namespace

CAF_TEST(the answer begins before the body has come) {
  auto s = started(echo_pieces, streaming());
  raw_client client{s->port()};
  client.send(head(*s, "Content-Length: 6\r\n"));
  skip_head(client);
  client.send("abc");
  CAF_CHECK_EQUAL(take_chunk(client), "[abc]");
  client.send("def");
  CAF_CHECK_EQUAL(client.read_some(9), "6\r\n[def].");
}

CAF_TEST(a connection is used again after a body that was taken whole) {
  auto s = started(echo_pieces, streaming());
  raw_client client{s->port()};
  const auto chunked = head(*s, "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  client.send(chunked + head(*s, "Content-Length: 2\r\n") + "xy" + head(*s, ""));
  CAF_CHECK_EQUAL(client.read_reply().body, "[abcde].");
  CAF_CHECK_EQUAL(client.read_reply().body, "[xy].");
  CAF_CHECK_EQUAL(client.read_reply().body, "[].");
}

CAF_TEST(a client that waits to be asked for its body is asked) {
  auto s = started(echo_pieces, streaming());
  raw_client client{s->port()};
  client.send(head(*s, "Content-Length: 2\r\nExpect: 100-continue\r\n"));
  CAF_CHECK_EQUAL(client.read_reply(true).status, 100u);
  client.send("ab");
  CAF_CHECK_EQUAL(client.read_reply().body, "[ab].");
}

CAF_TEST(a body far beyond every limit passes through) {
  auto options = streaming();
  options.limits.body_bytes = 1000;
  options.limits.all_body_bytes = 1000;
  struct counting : body_source {
    explicit counting(std::shared_ptr<incoming_body> f) : from{std::move(f)} {}
    void next(std::size_t, chunk_handler done) override {
      from->next([this, done = std::move(done)](incoming_piece piece) mutable {
        size += piece.bytes.size();
        largest = std::max(largest, piece.bytes.size());
        if (!piece.last)
          return next(0, std::move(done));
        chunk told;
        told.bytes = std::to_string(size) + (largest <= 64 * 1024 ? " in small pieces" : " in large pieces");
        told.last = true;
        done(std::move(told));
      });
    }
    std::shared_ptr<incoming_body> from;
    std::size_t size = 0;
    std::size_t largest = 0;
  };
  auto s = started(
    [](const request& ask, const responder& reply) {
      response answer;
      answer.stream = std::make_shared<counting>(ask.incoming);
      reply(std::move(answer));
    },
    options);
  raw_client client{s->port()};
  client.send(head(*s, "Content-Length: 20000000\r\n"));
  for (int i = 0; i < 20; ++i)
    client.send(std::string(1'000'000, 'x'));
  CAF_CHECK_EQUAL(client.read_reply().body, "20000000 in small pieces");
}

CAF_TEST(a body that is malformed or too slow or ends early breaks with its problem) {
  auto options = streaming();
  options.timeouts.body = 100ms;
  auto s = started(echo_pieces, options);
  for (const auto& [sent, told] : {std::pair{"zz\r\n", "[]400"}, {"1\r\na\r\n", "[a]"}}) {
    raw_client client{s->port()};
    client.send(head(*s, "Transfer-Encoding: chunked\r\n") + sent);
    skip_head(client);
    const auto all = client.read_to_end();
    CAF_CHECK(all.find(told) != std::string::npos);
    CAF_CHECK_EQUAL(all.find("[]408") != std::string::npos, std::string_view{told} == "[a]");
  }
  raw_client client{s->port()};
  client.send(head(*s, "Content-Length: 5\r\n") + "ab");
  client.half_close();
  CAF_CHECK(client.read_to_end().find("[]400") != std::string::npos);
}

CAF_TEST(whoever waits for a piece hears when the client goes away) {
  std::promise<unsigned> broken;
  std::promise<void> begun;
  auto s = started(
    [&](const request& ask, const responder& reply) {
      ask.incoming->next(
        [&, reply](const incoming_piece& piece) { broken.set_value(piece.broken ? piece.broken->status : 0); });
      begun.set_value();
    },
    streaming());
  {
    raw_client client{s->port()};
    client.send(head(*s, "Content-Length: 5\r\n"));
    begun.get_future().wait();
    client.reset();
  }
  CAF_CHECK_EQUAL(broken.get_future().get(), 400u);
}

CAF_TEST(an answer that needs not the whole body ends the connection) {
  auto s = started([](const request&, const responder& reply) { reply(text_response(200, "enough")); }, streaming());
  raw_client client{s->port()};
  client.send(head(*s, "Content-Length: 1000\r\n") + "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  CAF_CHECK_EQUAL(client.read_reply().body, "enough");
  client.half_close();
  CAF_CHECK_EQUAL(client.read_to_end(), "");
}
