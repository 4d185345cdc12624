/// A small synchronous HTTP/1.1 client for the `kcx` command. One connection, used again while the server keeps it.
///
/// Not thread-safe: one thread per client. Bodies of requests and plain responses are held in memory; `stream`
/// hands on pieces as they come.
#pragma once

#include "actors/http/message/message.hpp"
#include "config/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

namespace kcx::http {

struct client_options {
  /// "http://127.0.0.1:7070" or "https://ci.example.org"; a path after the port is ignored.
  std::string url;
  /// To connect, the TLS handshake included.
  std::chrono::milliseconds connect_timeout{5'000};
  /// For https: PEM file of the authorities to trust; empty takes the system's.
  std::string ca_file;
  /// Told where nothing listens at the address: what may be the matter.
  std::string if_refused;
  /// The largest response `request` accepts.
  std::size_t response_bytes = 256 * 1024 * 1024;
  /// Once stop is requested, what is under way fails within a fraction of a second (but for the look-up of a name).
  std::stop_token stop{};
};

/// What to send. `Host`, `Content-Length` and `User-Agent` are the client's.
struct client_request {
  std::string method = "GET";
  /// Path and query, percent-encoded, e.g. "/v1/jobs?limit=10".
  std::string target = "/";
  header_fields headers;
  std::string body;
  /// For the whole exchange; for `stream`, for the header and then between two pieces. Zero means no limit.
  std::chrono::milliseconds timeout{30'000};
  /// The response is wanted without its body: what comes of that is not read, and the connection is closed.
  bool head_only = false;
};

class client {
public:
  /// Checks the URL only; connects with the first request. Fails with ec::invalid_setting.
  static expected<std::unique_ptr<client>> open(client_options options);

  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Sends and waits for the whole response; any status is a success here. Fails with ec::system_failed (the node
  /// cannot be reached, the connection broke: the message says which and whether the request may have been carried
  /// out) or ec::timeout. A request on a connection that turns out to be closed is sent once more on a new one if
  /// its method is idempotent or nothing of it was sent.
  expected<response> request(const client_request& what);

  /// Like request(), but calls `piece` with the bytes of a 2xx body as they come; return false from it to stop (the
  /// connection is closed then, and the call succeeds). Bodies of other statuses are collected into the response.
  /// Fails like request(), also when the body ends early.
  expected<response> stream(const client_request& what, const std::function<bool(std::string_view)>& piece);

  /// Whether there was a connection for the latest request: if it failed, the server may yet have carried it out.
  [[nodiscard]] bool may_have_been_sent() const noexcept;

  /// The URL it was opened with, without a trailing slash.
  [[nodiscard]] const std::string& url() const noexcept;

private:
  class impl;
  explicit client(std::unique_ptr<impl> state);

  std::unique_ptr<impl> impl_;
};

} // namespace kcx::http
