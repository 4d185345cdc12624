/// What the HTTP tests share: a client that speaks raw bytes, so that it can misbehave, and small body sources.
#pragma once

#include "actors/http/server/server.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kcx::http {

/// A blocking TCP connection to 127.0.0.1. Reads give up (throw) after ten seconds, so a missing answer fails a test.
class raw_client {
public:
  struct reply {
    unsigned status = 0;
    /// Status line and fields, without the empty line.
    std::string head;
    std::string body;
  };

  /// `receive_buffer` > 0 makes the kernel take few bytes before the server's writes stall.
  explicit raw_client(std::uint16_t port, int receive_buffer = 0);
  ~raw_client();
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  void send(std::string_view bytes);
  /// Like send, but a closed connection is no failure. Returns whether all was taken.
  bool try_send(std::string_view bytes);
  /// One response with its body by Content-Length or chunks. `head_only` for the reply to HEAD and for 100.
  reply read_reply(bool head_only = false);
  std::string read_some(std::size_t most);
  /// Everything until the server closes; a reset ends it as well.
  std::string read_to_end();
  /// SHUT_WR: nothing more will be sent.
  void half_close();
  /// Closes with a RST.
  void reset();

private:
  bool fill();
  std::string take(std::size_t size);

  int descriptor_;
  std::string buffer_;
};

/// "GET <target>" with a Host field that the server accepts.
std::string get(const server& s, std::string_view target, std::string_view more_fields = {});
std::string post(const server& s, std::string_view target, std::string_view body, std::string_view more_fields = {});

/// Starts a server on a free port; a failure throws.
std::unique_ptr<server> started(handler handle, server_options options = {});

/// Answers with method, path and body size or text: "POST /x 3 abc".
void echo(const request& what, const responder& reply);

} // namespace kcx::http
