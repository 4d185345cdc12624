/// Turns the bytes of a connection into one request: syntax, framing and limits. Does no input of its own, so it is
/// tested and fuzzed without sockets. Used by session.cpp only.
///
/// Stricter than Beast's parser, which it uses: whatever two HTTP readers could understand differently (request
/// smuggling) is refused: several or unclean Content-Length fields, Transfer-Encoding other than exactly "chunked" or
/// beside a Content-Length, folded lines, bare CR or LF, control characters.
#pragma once

#include "actors/http/message/message.hpp"
#include "actors/http/message/problem.hpp"
#include "actors/http/server/server.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::http {

/// Why a request is not accepted. The connection cannot be used further.
struct refusal {
  problem_kind kind;
  std::string detail;
};

class request_reader {
public:
  enum class step { more, done, refused };

  explicit request_reader(const server_limits& limits) : limits_{limits}, body_limit_{limits.body_bytes} {}

  /// Looks at all bytes received and not consumed so far, which begin with the request. `done`: the header was
  /// consumed (`used` bytes) and head() is complete but for its body, which no limit was applied to yet. `more`: call
  /// again with more bytes.
  step read_head(std::string_view input, std::size_t& used);

  /// Consumes `used` bytes of body. Call after read_head() was done, until done.
  step read_body(std::string_view input, std::size_t& used);

  /// Replaces the body's limit (by default server_limits::body_bytes) and applies it; between header and body. The
  /// advice is said to whoever goes beyond it.
  step limit_body(std::size_t bytes, std::string advice = {});

  /// Instead of limit_body(): the body is taken away (take_body()) while it is read, and may have any size.
  void stream_body() noexcept;
  [[nodiscard]] bool streamed() const noexcept { return streamed_; }
  /// How much of the body is held here.
  [[nodiscard]] std::size_t body_size() const noexcept;
  /// What read_body() got since the last call.
  [[nodiscard]] std::string take_body();

  [[nodiscard]] request& head() noexcept { return request_; }
  /// The name the client thinks it talks to: the Host field, or the authority of an absolute target.
  [[nodiscard]] std::string_view authority() const noexcept { return authority_; }
  [[nodiscard]] const refusal& why() const noexcept { return *refusal_; }
  [[nodiscard]] bool keep_alive() const noexcept { return keep_alive_; }
  [[nodiscard]] bool is_http_1_0() const noexcept { return http_1_0_; }
  [[nodiscard]] bool expects_continue() const noexcept { return expects_continue_; }
  [[nodiscard]] bool chunked() const noexcept { return chunked_; }
  /// Bytes of a Content-Length body that are still to come.
  [[nodiscard]] std::uint64_t remaining() const noexcept { return remaining_; }
  /// A Content-Length body's whole size, 0 otherwise.
  [[nodiscard]] std::uint64_t content_length() const noexcept { return content_length_; }

private:
  step refuse(const problem_kind& kind, std::string detail);
  step scan(std::string_view input, std::size_t& end);
  step parse(std::string_view head);
  step take_fields();
  step take_framing();
  step take_target();
  step take_host();
  step check_type();
  step read_chunks(std::string_view input, std::size_t& used);
  step refuse_body();

  const server_limits& limits_;
  std::size_t body_limit_;
  std::string body_advice_;
  request request_;
  std::string authority_;
  std::optional<refusal> refusal_;
  // Beast's parser stays for chunked bodies; plain ones are copied here.
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::size_t scanned_ = 0;
  std::size_t line_start_ = 0;
  std::size_t skipped_ = 0;
  std::uint64_t content_length_ = 0;
  std::uint64_t remaining_ = 0;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool expects_continue_ = false;
  bool chunked_ = false;
  bool streamed_ = false;
};

} // namespace kcx::http
