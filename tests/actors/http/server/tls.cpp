// TLS on the server and in the client: the same sessions above another transport.
#define CAF_SUITE http_tls
#include "actors/http/client/client.hpp"
#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/server/certificate.hpp"
#include "tests/actors/http/support.hpp"
#include "tests/support/files.hpp"

#include <fstream>
#include <future>

using namespace kcx;
using namespace kcx::http;
using namespace std::chrono_literals;

namespace {

struct fixture {
  fixture() { write_certificate(certificate, key, "first"); }

  server_options with_tls() const {
    server_options options;
    options.tls = tls_options{certificate, key};
    return options;
  }

  std::unique_ptr<client> trusting(const server& s, const std::string& ca_file) {
    client_options options;
    options.url = s.url();
    options.ca_file = ca_file;
    options.if_refused = "is it running?";
    return std::move(*client::open(options));
  }

  kcx::test::temp_dir directory;
  std::string certificate = directory / "certificate.pem";
  std::string key = directory / "key.pem";
};

class letters : public body_source {
public:
  void next(std::size_t max_bytes, chunk_handler done) override {
    chunk piece;
    piece.bytes.assign(max_bytes, 'x');
    piece.last = ++asked_ == 20;
    done(std::move(piece));
  }

private:
  int asked_ = 0;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(tls_tests, fixture)

CAF_TEST(requests and streams work over TLS) {
  auto s = started(
    [](request what, responder reply) {
      if (what.path != "/stream")
        return echo(what, reply);
      response r;
      r.stream = std::make_shared<letters>();
      reply(std::move(r));
    },
    with_tls());
  CAF_CHECK(s->url().substr(0, 8) == "https://");
  auto c = trusting(*s, certificate);
  for (int i = 0; i < 2; ++i) {
    client_request what;
    what.method = "POST";
    what.body.assign(1'000'000, 'x');
    auto reply = c->request(what);
    CAF_REQUIRE(reply);
    CAF_CHECK_EQUAL(reply->body, "POST / 1000000");
  }
  client_request what;
  what.target = "/stream";
  std::size_t seen = 0;
  CAF_REQUIRE(c->stream(what, [&](std::string_view piece) {
    seen += piece.size();
    return true;
  }));
  CAF_CHECK_EQUAL(seen, 20u * 64 * 1024);
  CAF_CHECK_EQUAL(s->stats().connections_accepted, 1u);
}

CAF_TEST(a refused body is answered over TLS) {
  auto options = with_tls();
  options.limits.body_bytes = 1000;
  auto s = started(echo, options);
  client_request what;
  what.method = "POST";
  what.body.assign(20'000'000, 'x');
  auto reply = trusting(*s, certificate)->request(what);
  CAF_REQUIRE(reply);
  CAF_CHECK_EQUAL(reply->status, 413u);
}

CAF_TEST(a certificate that is not trusted is not talked to) {
  auto s = started(echo, with_tls());
  auto other = directory / "other.pem";
  write_certificate(other, directory / "other_key.pem", "other");
  auto reply = trusting(*s, other)->request({});
  CAF_REQUIRE(!reply);
  CAF_CHECK(reply.error().message.find("certificate verify failed") != std::string::npos);
  // Somebody did answer.
  CAF_CHECK(reply.error().message.find("is it running?") == std::string::npos);
}

CAF_TEST(plain HTTP on a TLS port is told so and a silent handshake times out) {
  auto options = with_tls();
  options.timeouts.header = 100ms;
  auto s = started(echo, options);
  raw_client plain{s->port()};
  plain.send(get(*s, "/"));
  const auto told = plain.read_to_end();
  CAF_CHECK(told.starts_with("HTTP/1.1 400 "));
  const auto text = told.substr(told.find("\r\n\r\n") + 4);
  CAF_CHECK_EQUAL(text, "this port speaks TLS: write https:// where http:// is\n");
  CAF_CHECK(told.find("Content-Length: " + std::to_string(text.size()) + "\r\n") != std::string::npos);
  raw_client other{s->port()};
  other.send("no request\r\n\r\n");
  CAF_CHECK(other.read_to_end().find("HTTP/1.1") == std::string::npos);
  raw_client silent{s->port()};
  CAF_CHECK_EQUAL(silent.read_to_end(), "");
  CAF_CHECK(trusting(*s, certificate)->request({}));
}

CAF_TEST(reloaded certificates serve new connections) {
  auto s = started(echo, with_tls());
  auto old = trusting(*s, certificate);
  CAF_REQUIRE(old->request({}));
  auto kept = directory / "kept.pem";
  std::filesystem::copy_file(certificate, kept);
  write_certificate(certificate, key, "second");
  CAF_REQUIRE(s->reload_tls());
  CAF_CHECK(old->request({}));
  CAF_CHECK(trusting(*s, certificate)->request({}));
  CAF_CHECK(!trusting(*s, kept)->request({}));
  // What cannot be used changes nothing.
  std::ofstream{certificate} << "broken";
  auto failed = s->reload_tls();
  CAF_REQUIRE(!failed);
  CAF_CHECK(failed.error().code == ec::invalid_setting);
  CAF_CHECK(failed.error().message.find(certificate) != std::string::npos);
  CAF_CHECK(old->request({}));
  CAF_CHECK(!server::start(with_tls(), echo));
}

CAF_TEST(a certificate or key that cannot be used is told by setting file and cause) {
  const std::string missing = directory / "missing.pem";
  const std::string text = directory / "text.pem";
  const std::string locked = directory / "locked.pem";
  const std::string other_key = directory / "other_key.pem";
  write_certificate(directory / "other.pem", other_key, "other");
  std::ofstream{text} << "no certificate";
  write_encrypted_key(locked, "secret");
  const auto refusal = [](const std::string& chain, const std::string& secret) {
    server_options options;
    options.tls = tls_options{chain, secret};
    const auto refused = server::start(std::move(options), echo);
    return refused ? std::string{"accepted"} : refused.error().message;
  };
  const auto bad_chain = [](const std::string& file, const std::string& cause) {
    return "tls-certificate: cannot use \"" + file + "\": " + cause;
  };
  const auto bad_key = [](const std::string& file, const std::string& cause) {
    return "tls-key: cannot use \"" + file + "\": " + cause;
  };
  CAF_CHECK_EQUAL(refusal(missing, key), bad_chain(missing, "No such file or directory"));
  CAF_CHECK_EQUAL(refusal(certificate, missing), bad_key(missing, "No such file or directory"));
  CAF_CHECK_EQUAL(refusal(directory.path(), key), bad_chain(directory.path(), "Is a directory"));
  for (const auto& wrong : {text, key})
    CAF_CHECK_EQUAL(refusal(wrong, key), bad_chain(wrong, "it holds no certificate in PEM form"));
  for (const auto& wrong : {text, certificate})
    CAF_CHECK_EQUAL(refusal(certificate, wrong), bad_key(wrong, "it holds no private key in PEM form"));
  CAF_CHECK_EQUAL(refusal(certificate, other_key),
                  bad_key(other_key, "it is not the key of the certificate in \"" + certificate + '"'));
  CAF_CHECK_EQUAL(refusal(certificate, locked), bad_key(locked, "it is encrypted; take a key without a passphrase"));
}

CAF_TEST_FIXTURE_SCOPE_END()
