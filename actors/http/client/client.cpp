#include "actors/http/client/client.hpp"

#include "actors/http/message/host_policy.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <poll.h>
#include <utility>

namespace kcx::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using clock = std::chrono::steady_clock;

namespace {

using plain_stream = beast::tcp_stream;
using tls_stream = asio::ssl::stream<beast::tcp_stream>;

struct target_address {
  std::string url;
  std::string host;
  std::string port;
  std::string authority;
  bool tls = false;
};

expected<target_address> parsed_url(std::string_view url) {
  target_address result;
  std::string_view rest = url;
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!same_text(rest.substr(0, scheme.size()), scheme))
      continue;
    result.tls = scheme == "https://";
    result.authority = rest.substr(scheme.size(), rest.find_first_of("/?", scheme.size()) - scheme.size());
    result.url = scheme;
  }
  auto parts = split_authority(result.authority);
  if (!parts)
    return error{ec::invalid_setting,
                 "\"" + std::string{url} + "\" is no URL of a node; write it as http://HOST:PORT or https://HOST:PORT",
                 {}};
  result.url += result.authority;
  result.host = parts->name;
  result.port = std::to_string(parts->port.value_or(result.tls ? 443 : 80));
  return result;
}

bool is_idempotent(std::string_view method) {
  return method != "POST" && method != "PATCH";
}

} // namespace

class client::impl {
public:
  impl(client_options o, target_address t) : options{std::move(o)}, to{std::move(t)} {}

  using piece_handler = std::function<bool(std::string_view)>;

  expected<response> exchange(const client_request& what, const piece_handler* piece);

  client_options options;
  target_address to;
  /// Of the latest request: a connection was there to send it on.
  bool tried = false;

private:
  struct attempt {
    std::optional<error> failure;
    /// The request did not reach the handler: sending it again is safe whatever its method.
    bool unsent = false;
    /// Not one byte of the response came.
    bool unanswered = true;
  };

  std::optional<error> connect();
  std::optional<error> handshake(error_code& ec);
  bool usable();
  void close();
  attempt try_once(const client_request& what, const piece_handler* piece, response& into);
  attempt read_response(const client_request& what, const piece_handler* piece, response& into);
  std::string serialized(const client_request& what) const;
  error broken(const client_request& what, error_code ec) const;

  /// Runs one asynchronous operation to its end; `start` gets the stream and a callback.
  template <class Start>
  error_code run(std::chrono::milliseconds limit, Start start);
  void limit_time(std::chrono::milliseconds limit);
  /// Runs what was started to its end.
  void spin();
  beast::tcp_stream& lowest() { return tls_ ? tls_->next_layer() : *plain_; }

  asio::io_context io_{1};
  std::optional<asio::ssl::context> context_;
  std::optional<plain_stream> plain_;
  std::unique_ptr<tls_stream> tls_;
  beast::flat_buffer buffer_;
  bool reused_ = false;
  /// When the exchange must have ended as a whole.
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

// -- operations --------------------------------------------------------------

void client::impl::limit_time(std::chrono::milliseconds limit) {
  if (deadline_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - clock::now());
    limit = std::max(std::min(limit, left), std::chrono::milliseconds{1});
  }
  if (limit.count() > 0)
    lowest().expires_after(limit);
  else
    lowest().expires_never();
}

template <class Start>
error_code client::impl::run(std::chrono::milliseconds limit, Start start) {
  error_code result = asio::error::would_block;
  auto done = [&result](error_code ec, auto&&...) { result = ec; };
  limit_time(limit);
  if (tls_)
    start(*tls_, done);
  else
    start(*plain_, done);
  spin();
  return result;
}

void client::impl::spin() {
  constexpr std::chrono::milliseconds look{100};
  io_.restart();
  if (!options.stop.stop_possible()) {
    io_.run();
    return;
  }
  while (!io_.stopped()) {
    if (options.stop.stop_requested())
      lowest().cancel();
    io_.run_for(look);
  }
}

// -- connection --------------------------------------------------------------

std::optional<error> client::impl::connect() {
  close();
  reused_ = false;
  auto unreachable = [this](error_code ec) {
    if (ec.category() == asio::error::get_ssl_category() &&
        ERR_GET_REASON(static_cast<unsigned long>(ec.value())) == SSL_R_WRONG_VERSION_NUMBER)
      return error{ec::system_failed, "cannot reach " + to.url + ": the port does not speak TLS; try http://", {}};
    const auto& hint = options.if_refused;
    const bool nobody = ec == asio::error::connection_refused;
    return error{ec == beast::error::timeout ? ec::timeout : ec::system_failed,
                 "cannot reach " + to.url + ": " + ec.message() + (nobody && !hint.empty() ? "; " + hint : ""),
                 {}};
  };
  error_code ec;
  tcp::resolver resolver{io_};
  auto addresses = resolver.resolve(to.host, to.port, ec);
  if (ec)
    return unreachable(ec);
  plain_.emplace(io_);
  limit_time(options.connect_timeout);
  ec = asio::error::would_block;
  plain_->async_connect(addresses, [&ec](error_code result, const tcp::endpoint&) { ec = result; });
  spin();
  if (!ec)
    plain_->socket().set_option(tcp::no_delay{true}, ec);
  if (!ec && to.tls)
    if (auto failure = handshake(ec))
      return failure;
  if (!ec)
    return std::nullopt;
  close();
  return unreachable(ec);
}

std::optional<error> client::impl::handshake(error_code& ec) {
  context_.emplace(asio::ssl::context::tls_client);
  ::SSL_CTX_set_min_proto_version(context_->native_handle(), TLS1_2_VERSION);
  if (options.ca_file.empty())
    context_->set_default_verify_paths(ec);
  else
    context_->load_verify_file(options.ca_file, ec);
  if (ec)
    return error{
      ec::invalid_setting, "cannot read the authorities in \"" + options.ca_file + "\": " + ec.message(), {}};
  tls_ = std::make_unique<tls_stream>(std::move(*plain_), *context_);
  plain_.reset();
  ::SSL_set_tlsext_host_name(tls_->native_handle(), to.host.c_str());
  tls_->set_verify_mode(asio::ssl::verify_peer);
  tls_->set_verify_callback(asio::ssl::host_name_verification{to.host});
  limit_time(options.connect_timeout);
  tls_->async_handshake(asio::ssl::stream_base::client, [&ec](error_code result) { ec = result; });
  spin();
  return std::nullopt;
}

// An idle connection that became readable was closed by the server (or is out of step): not to be used again.
bool client::impl::usable() {
  if (!plain_ && !tls_)
    return false;
  pollfd state{lowest().socket().native_handle(), POLLIN, 0};
  return ::poll(&state, 1, 0) == 0;
}

void client::impl::close() {
  tls_.reset();
  plain_.reset();
  buffer_.clear();
}

// -- exchange ----------------------------------------------------------------

std::string client::impl::serialized(const client_request& what) const {
  std::string text = what.method + " " + what.target + " HTTP/1.1\r\nHost: " + to.authority + "\r\n";
  if (!what.headers.find("User-Agent"))
    text += "User-Agent: kcx/" KCX_VERSION "\r\n";
  for (std::size_t i = 0; i < what.headers.size(); ++i) {
    auto field = what.headers.at(i);
    text.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  if (!what.body.empty() || what.method == "POST" || what.method == "PUT" || what.method == "PATCH")
    text += "Content-Length: " + std::to_string(what.body.size()) + "\r\n";
  return text + "\r\n";
}

error client::impl::broken(const client_request& what, error_code ec) const {
  if (ec == beast::error::timeout)
    return {ec::timeout, to.url + " did not answer " + what.method + " " + what.target + " in time", {}};
  std::string message = "the connection to " + to.url + " broke: " + ec.message();
  if (!is_idempotent(what.method))
    message += "; the request may or may not have been carried out";
  return {ec::system_failed, std::move(message), {}};
}

expected<response> client::impl::exchange(const client_request& what, const piece_handler* piece) {
  tried = false;
  deadline_.reset();
  if (piece == nullptr && what.timeout.count() > 0)
    deadline_ = clock::now() + what.timeout;
  for (;;) {
    reused_ = usable();
    if (!reused_)
      if (auto failure = connect())
        return std::move(*failure);
    tried = true;
    response result;
    auto outcome = try_once(what, piece, result);
    if (!outcome.failure)
      return result;
    close();
    // The server may have closed the idle connection just as the request was on its way.
    bool again = reused_ && outcome.unanswered && outcome.failure->code != ec::timeout &&
                 (outcome.unsent || is_idempotent(what.method));
    if (!again)
      return std::move(*outcome.failure);
  }
}

client::impl::attempt client::impl::try_once(const client_request& what, const piece_handler* piece, response& into) {
  auto head = serialized(what);
  std::array<asio::const_buffer, 2> bytes{asio::buffer(head), asio::buffer(what.body)};
  std::size_t sent = 0;
  auto failed = run(what.timeout, [&](auto& stream, auto done) {
    asio::async_write(stream, bytes, [&sent, done](error_code ec, std::size_t size) mutable {
      sent = size;
      done(ec);
    });
  });
  // A server that refuses a body answers before it has read it all: its answer is worth more than the broken pipe.
  auto result = read_response(what, piece, into);
  if (failed && result.failure)
    result = {broken(what, failed), sent < head.size(), true};
  return result;
}

client::impl::attempt client::impl::read_response(const client_request& what, const piece_handler* piece,
                                                  response& into) {
  std::optional<bhttp::response_parser<bhttp::buffer_body>> parser;
  do { // interim responses (1xx) come before the real one
    parser.emplace();
    parser->body_limit(boost::none);
    parser->header_limit(256 * 1024);
    parser->skip(what.method == "HEAD");
    auto ec =
      run(what.timeout, [&](auto& stream, auto done) { bhttp::async_read_header(stream, buffer_, *parser, done); });
    if (ec)
      return {broken(what, ec), false, !parser->got_some() && buffer_.size() == 0};
  } while (parser->get().result_int() / 100 == 1);
  into.status = parser->get().result_int();
  for (const auto& field : parser->get())
    into.headers.add({field.name_string().data(), field.name_string().size()},
                     {field.value().data(), field.value().size()});
  if (what.head_only) {
    close();
    return {std::nullopt, false, false};
  }
  bool handed_on = piece != nullptr && into.status / 100 == 2;
  std::array<char, 64 * 1024> part;
  while (!parser->is_done()) {
    auto& body = parser->get().body();
    body.data = part.data();
    body.size = part.size();
    auto ec =
      run(what.timeout, [&](auto& stream, auto done) { bhttp::async_read_some(stream, buffer_, *parser, done); });
    if (ec && ec != bhttp::error::need_buffer)
      return {broken(what, ec), false, false};
    std::string_view bytes{part.data(), part.size() - body.size};
    if (handed_on && !bytes.empty() && !(*piece)(bytes)) {
      close();
      return {std::nullopt, false, false};
    }
    if (!handed_on)
      into.body.append(bytes);
    if (into.body.size() > options.response_bytes)
      return {error{ec::system_failed, "the response of " + to.url + " is too long", {}}, false, false};
  }
  if (!parser->keep_alive())
    close();
  return {std::nullopt, false, false};
}

// -- client ------------------------------------------------------------------

client::client(std::unique_ptr<impl> state) : impl_{std::move(state)} {}
client::~client() = default;

expected<std::unique_ptr<client>> client::open(client_options options) {
  auto to = parsed_url(options.url);
  if (!to)
    return std::move(to).error();
  return std::unique_ptr<client>{new client{std::make_unique<impl>(std::move(options), std::move(*to))}};
}

expected<response> client::request(const client_request& what) {
  return impl_->exchange(what, nullptr);
}

expected<response> client::stream(const client_request& what, const std::function<bool(std::string_view)>& piece) {
  return impl_->exchange(what, &piece);
}

bool client::may_have_been_sent() const noexcept {
  return impl_->tried;
}

const std::string& client::url() const noexcept {
  return impl_->to.url;
}

} // namespace kcx::http
