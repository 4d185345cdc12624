#include "actors/http/server/transport.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <openssl/err.h>
#include <openssl/sslerr.h>

#include <string_view>
#include <utility>

namespace kcx::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

/// What whoever wrote http:// for https:// can read; the connection ends with it.
constexpr std::string_view speaks_tls = "HTTP/1.1 400 Bad Request\r\n"
                                        "Content-Type: text/plain; charset=utf-8\r\n"
                                        "Content-Length: 54\r\n"
                                        "Connection: close\r\n\r\n"
                                        "this port speaks TLS: write https:// where http:// is\n";

/// OpenSSL knows the beginnings of the usual requests.
bool is_plain_http(const error_code& failed) noexcept {
  return failed.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(failed.value())) == SSL_R_HTTP_REQUEST;
}

class plain_transport final : public transport {
public:
  explicit plain_transport(tcp::socket socket) : socket_{std::move(socket)} {
    error_code ignored;
    socket_.non_blocking(true, ignored);
  }

  asio::awaitable<error_code> open() override { co_return error_code{}; }

  asio::awaitable<result> read_some(asio::mutable_buffer to) override { return socket_.async_read_some(to, as_result); }

  asio::awaitable<result> write(buffers from) override { return asio::async_write(socket_, from, as_result); }

  std::size_t write_now(buffers from) noexcept override {
    error_code ec;
    return socket_.write_some(from, ec);
  }

  asio::awaitable<void> finish() override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    co_return;
  }

private:
  tcp::socket& socket() noexcept override { return socket_; }

  tcp::socket socket_;
};

class tls_transport final : public transport {
public:
  tls_transport(tcp::socket socket, std::shared_ptr<asio::ssl::context> context)
    : context_{std::move(context)}, stream_{std::move(socket), *context_} {}

  asio::awaitable<error_code> open() override {
    auto [ec] = co_await stream_.async_handshake(asio::ssl::stream_base::server, as_result);
    if (is_plain_http(ec))
      co_await asio::async_write(socket(), asio::buffer(speaks_tls), as_result);
    co_return ec;
  }

  asio::awaitable<result> read_some(asio::mutable_buffer to) override {
    if (finished_)
      return socket().async_read_some(to, as_result);
    return stream_.async_read_some(to, as_result);
  }

  asio::awaitable<result> write(buffers from) override { return asio::async_write(stream_, from, as_result); }

  std::size_t write_now(buffers) noexcept override { return 0; }

  // Sends close_notify without waiting for the peer's. TLS takes the stream for ended from here on: what the peer still
  // sends is read, to be thrown away, as it comes over the wire.
  asio::awaitable<void> finish() override {
    finished_ = true;
    ::SSL_set_shutdown(stream_.native_handle(), SSL_RECEIVED_SHUTDOWN);
    co_await stream_.async_shutdown(as_result);
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

private:
  tcp::socket& socket() noexcept override { return stream_.next_layer(); }

  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<tcp::socket> stream_;
  bool finished_ = false;
};

} // namespace

void transport::cancel() noexcept {
  error_code ignored;
  socket().cancel(ignored);
}

void transport::cut() noexcept {
  error_code ignored;
  socket().close(ignored);
}

int transport::descriptor() noexcept {
  return socket().is_open() ? socket().native_handle() : -1;
}

std::unique_ptr<transport> make_plain_transport(tcp::socket socket) {
  return std::make_unique<plain_transport>(std::move(socket));
}

std::unique_ptr<transport> make_tls_transport(tcp::socket socket, std::shared_ptr<asio::ssl::context> context) {
  return std::make_unique<tls_transport>(std::move(socket), std::move(context));
}

} // namespace kcx::http
