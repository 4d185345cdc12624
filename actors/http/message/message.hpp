/// What an HTTP request and its response are to the rest of the node: plain values.
///
/// Neither Beast nor CAF is included here, so both the transport (server.hpp) and the bridge actor can. Who uses it:
/// the server fills a `request` and calls the handler with it and a `responder`; the routes build a `response`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kcx::http {

/// Header fields in the order they came. Names compare without regard to ASCII case. Copies are independent.
/// All text lies in one string, so a request with twenty fields costs two allocations.
class header_fields {
public:
  struct field {
    std::string_view name;
    std::string_view value;
  };

  /// Appends a field. Bytes that would end a header line (CR, LF, NUL) become spaces: a value can never split a
  /// response, whatever it was made from.
  void add(std::string_view name, std::string_view value);

  /// Replaces every field of this name by one.
  void set(std::string_view name, std::string_view value);

  /// The first field's value, without surrounding white space; nothing if there is none. Valid until the next change.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;

  /// How many fields have this name.
  [[nodiscard]] std::size_t count(std::string_view name) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] field at(std::size_t index) const noexcept;

private:
  struct entry {
    std::uint32_t name_at;
    std::uint32_t name_size;
    std::uint32_t value_at;
    std::uint32_t value_size;
  };

  std::string text_;
  std::vector<entry> entries_;
};

/// Query parameters in the order they came, names and values percent-decoded ("+" is a space).
using query_parameters = std::vector<std::pair<std::string, std::string>>;

class incoming_body;
class body_share;

/// One request, read completely (but for a streamed body) and checked: syntax, limits, Host and Origin.
struct request {
  /// Upper case for all known methods, e.g. "GET"; any token otherwise.
  std::string method;
  /// As it came, e.g. "/v1/jobs?state=queued".
  std::string target;
  /// Percent-decoded path, begins with "/" (or is "*" for OPTIONS); holds no NUL.
  std::string path;
  query_parameters query;
  header_fields headers;
  std::string body;
  /// The body's part of the memory that the server has for bodies: taken as long as a copy of the request is there.
  std::shared_ptr<body_share> share = nullptr;
  /// The body of a request that was admitted as streamed; `body` is empty then. Null otherwise.
  std::shared_ptr<incoming_body> incoming;
  /// Numeric address of the peer without its port, e.g. "127.0.0.1".
  std::string remote_address;
  /// The connection. Numbers count up from 1 and are never used again within the process.
  std::uint64_t session_id = 0;
  /// The request, numbered over all connections of the server; fit for logs.
  std::uint64_t id = 0;

  /// The first query parameter of this name; nothing if there is none.
  [[nodiscard]] std::optional<std::string_view> parameter(std::string_view name) const noexcept;
};

/// A piece of a streamed body.
struct chunk {
  /// Never empty unless `last` or `failure` is set, and at most what was asked for.
  std::string bytes;
  /// These bytes (possibly none) are the end of the body.
  bool last = false;
  /// The body cannot go on. The connection is cut so that the client sees an incomplete body, never a short one.
  bool failed = false;
};

/// A response body that the session pulls piece by piece, as fast as the client reads: the next piece is asked for
/// only when the socket has taken the one before, so a slow reader holds one piece in memory.
///
/// The session calls every member on the server's io thread, so none may block or do disk I/O: `next` starts the
/// work elsewhere. The session owns a reference until the body ended or the client went away.
class body_source {
public:
  using chunk_handler = std::function<void(chunk)>;

  virtual ~body_source() = default;

  /// Total bytes where known: sent as Content-Length. Otherwise the body is chunked. The source must deliver exactly
  /// this many, fewer cut the connection.
  [[nodiscard]] virtual std::optional<std::uint64_t> size() const { return std::nullopt; }

  /// Asks for up to `max_bytes`. `done` is called once, on any thread, at once or (for a follower) hours later; it
  /// may also be dropped, which counts as a failure once the source is destroyed. Not called again before `done`.
  virtual void next(std::size_t max_bytes, chunk_handler done) = 0;

  /// The client went away or the server stops: nothing will be asked for any more, a pending `done` goes nowhere.
  /// Called at most once, before the session lets go of the source; not called after the last chunk.
  virtual void cancel() noexcept {}
};

/// Goes with an answer that must not get lost unnoticed: `lost` is called once, on any thread, if the answer is dropped
/// unsent or the client surely did not get it: its connection broke, or it had closed its sending side, as one that is
/// gone does, and then its machine did not take it.
class receipt {
public:
  explicit receipt(std::function<void()> lost) : lost_{std::move(lost)} {}
  receipt(const receipt&) = delete;
  receipt& operator=(const receipt&) = delete;
  ~receipt() {
    if (lost_)
      lost_();
  }

  void delivered() noexcept { lost_ = nullptr; }

private:
  std::function<void()> lost_;
};

/// What to answer. Content-Length, Transfer-Encoding, Connection and Date are the server's: do not set them.
struct response {
  unsigned status = 200;
  header_fields headers;
  std::string body;
  /// When set, `body` is ignored. Not pulled for HEAD, 204 and 304, but its size() is told.
  std::shared_ptr<body_source> stream;
  /// Close the connection after this response.
  bool close = false;
  std::shared_ptr<http::receipt> receipt = {};
};

/// A piece of a streamed request body.
struct incoming_piece {
  /// Empty only at the end.
  std::string bytes;
  /// These bytes (possibly none) are the end of the body.
  bool last = false;
  /// The body ends here although it is not whole: the problem that the client has made. Nothing more will come.
  std::optional<response> broken = std::nullopt;
};

/// A request body that the handler takes piece by piece while it answers, so that it may be longer than memory. Pieces
/// and answer take turns on the connection: while the client does not read the answer, nothing is read of the body.
/// What is left of it when the answer has ended is thrown away, and the connection ends.
class incoming_body {
public:
  using piece_handler = std::function<void(incoming_piece)>;

  virtual ~incoming_body() = default;

  /// Asks for the next piece, of 64 KiB at most. `done` is called once, on the server's io thread, also when the client
  /// goes away; never once the server has stopped. Not to be called again before `done` or after the end. Any thread.
  virtual void next(piece_handler done) = 0;
};

namespace detail {
class answer_slot;
}

/// The way back for one request. Copies share it; the first call wins. Any thread, at any time, also after the server
/// is gone (then the response goes nowhere). When the last copy is dropped without an answer, the client gets a
/// 503 problem `outcome_unknown`, so a lost message never leaves a client waiting.
class responder {
public:
  responder() = default;
  explicit responder(std::shared_ptr<detail::answer_slot> slot) : slot_{std::move(slot)} {}

  /// Sends the response. Returns false if this request was already answered, or its client is known to be gone.
  bool operator()(response answer) const;

  /// True once the client has gone away or was already answered: an answer would be wasted work. A hint.
  [[nodiscard]] bool settled() const noexcept;

private:
  std::shared_ptr<detail::answer_slot> slot_;
};

/// The words of a status code, e.g. "Not Found"; "Unknown" for codes KCX does not use.
[[nodiscard]] std::string_view reason_phrase(unsigned status) noexcept;

/// A JSON response with Content-Type application/json.
[[nodiscard]] response json_response(unsigned status, std::string document);

/// A text/plain response in UTF-8.
[[nodiscard]] response text_response(unsigned status, std::string text);

/// ASCII case-insensitive equality.
[[nodiscard]] bool same_text(std::string_view a, std::string_view b) noexcept;

/// Without leading and trailing spaces and tabs.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Decodes %XX; with `plus_is_space` also "+". Nothing if an escape is broken or yields NUL.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space);

/// Encodes everything but unreserved characters (RFC 3986), for one path segment or query value.
[[nodiscard]] std::string percent_encoded(std::string_view text);

} // namespace kcx::http
