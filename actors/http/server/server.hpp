/// The HTTP/1.1 server: listener, sessions and limits on one io thread of its own (Asio and Beast, hidden here).
///
/// It knows no route, no actor and no JSON beyond its own problem documents. The inspection port and the API are two
/// servers. What it promises, whatever a client does: bounded memory, every accepted request gets exactly one
/// response or a closed connection, responses in the order of the requests, and no work for a client that is gone.
///
/// Requests of one connection are handled one after the other (RFC 9112 §9.3.2): a pipelining client's further
/// requests wait in the connection's input buffer and the kernel, never in the handler.
#pragma once

#include "actors/http/message/message.hpp"
#include "config/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::http {

/// Sizes in bytes. Whoever goes beyond one gets a problem document and loses the connection.
struct server_limits {
  /// Request line and header fields together: 431. The request line alone may take an eighth of it: 414.
  std::size_t header_bytes = 64 * 1024;
  /// Number of header fields: 431.
  std::size_t header_fields = 128;
  /// One request body: 413. `admission::body_limit` overrides it per request.
  std::size_t body_bytes = 32 * 1024 * 1024;
  /// All request bodies being read, and those of requests that somebody still holds: 503.
  std::size_t all_body_bytes = 256 * 1024 * 1024;
  /// Open connections: 503.
  std::size_t connections = 16 * 1024;
  /// What is read and thrown away after a refusal so that the client, still sending, gets to see it.
  std::size_t drain_bytes = 64 * 1024 * 1024;
  /// The most one streamed response holds in memory; also the unit of write_timeout.
  std::size_t output_bytes = 64 * 1024;
};

/// All are at least enforced within a quarter more (or 10 ms).
struct server_timeouts {
  /// From a request's first byte to the end of its header: 408. On a new connection also the time to the first byte.
  std::chrono::milliseconds header{10'000};
  /// For each 64 KiB of a body: 408.
  std::chrono::milliseconds body{30'000};
  /// Between requests: the connection is closed.
  std::chrono::milliseconds idle{75'000};
  /// For each `output_bytes` of a response that the client does not read: the connection is reset.
  std::chrono::milliseconds write{30'000};
  /// Between a refusal and the end of reading what the client still sends.
  std::chrono::milliseconds linger{5'000};
};

/// Certificate and key as PEM files, read when the server starts and at each reload_tls().
struct tls_options {
  std::string certificate_file;
  std::string private_key_file;
};

/// Decided from the header alone, before the body is read.
struct admission {
  /// Answer this instead of reading the body (401, 415 …).
  std::optional<response> refusal;
  /// Overrides server_limits::body_bytes.
  std::optional<std::size_t> body_limit;
  /// The handler is called at once and takes the body by request::incoming. No limit of its size holds, only that of
  /// the time for each piece.
  bool streamed = false;
  /// Said to whoever sends too long a body (413): what to do instead. A sentence; empty: nothing.
  std::string body_advice{};
};

struct server_options {
  /// Numeric IPv4 or IPv6 address.
  std::string address = "127.0.0.1";
  /// 0 takes a free one.
  std::uint16_t port = 0;
  server_limits limits;
  server_timeouts timeouts;
  /// Host names accepted besides the loopback ones, "name" (any port) or "name:port". A server bound to loopback
  /// accepts only loopback names with its own port and these (421 otherwise), so that a web page cannot reach it
  /// through a name of its own (DNS rebinding). A server bound elsewhere accepts every name while this is empty.
  std::vector<std::string> allowed_hosts;
  /// Origins a browser may send requests from besides the server's own, e.g. "http://127.0.0.1:7071". Others: 403.
  std::vector<std::string> allowed_origins;
  /// Speaks TLS (1.2 or later) when set.
  std::optional<tls_options> tls;

  /// Called on the io thread with a request whose body is not read yet. Must not block. Empty: all are admitted.
  std::function<admission(const request&)> admit;
  /// Called on the io thread once at the end of each turn of the loop in which the handler was called: what the
  /// handler gathered can go onward as one batch. Empty: nothing happens.
  std::function<void()> turn_ended;
  /// Called on the io thread when a client goes away before its request (session_id, id) was answered, or closes its
  /// sending side, as one that is gone does and one that still reads may. Once per request.
  std::function<void(std::uint64_t session, std::uint64_t request)> abandoned;
  /// Called on the io thread with a sentence for the log, at most once a second (e.g. out of file descriptors).
  std::function<void(std::string_view)> warn;
};

/// Called on the io thread with each request. Must not block and do no disk I/O. If it throws, the client gets 500.
using handler = std::function<void(request, responder)>;

/// Counters since start; any thread, each on its own exact.
struct server_stats {
  std::uint64_t connections_open = 0;
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t accept_failures = 0;
  std::uint64_t requests = 0;
  std::uint64_t responses_4xx = 0;
  std::uint64_t responses_5xx = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

class server {
public:
  /// Binds, listens and starts the io thread. Fails with ec::invalid_setting (address, certificate) or
  /// ec::system_failed (port taken …), naming the address and the cause.
  static expected<std::unique_ptr<server>> start(server_options options, handler handle);

  /// Like stop() without grace.
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// "127.0.0.1:7070" or "[::1]:7070", with the real port.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint16_t port() const;
  /// "http://127.0.0.1:7070" or https.
  [[nodiscard]] std::string url() const;

  /// Closes the listener and the idle connections; requests in flight go on, each is its connection's last. Returns
  /// at once. Any thread.
  void stop_listening();

  /// stop_listening(), then waits until the requests in flight are answered and sent, at most `grace`; what is left
  /// is cut. Returns when the io thread has ended. Not from the io thread.
  void stop(std::chrono::milliseconds grace);

  /// Uses the certificate files as they are now for new connections. Fails with ec::invalid_setting and keeps the
  /// old ones if they cannot be used.
  outcome reload_tls();

  [[nodiscard]] server_stats stats() const;

  /// Runs `work` on the io thread. Any thread; goes nowhere once the server has stopped.
  void post(std::function<void()> work);

private:
  class impl;
  explicit server(std::shared_ptr<impl> state);

  std::shared_ptr<impl> impl_;
};

} // namespace kcx::http
