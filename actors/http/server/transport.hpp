/// The byte stream below a session: plain TCP or TLS, so that session.cpp is written (and compiled) once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>

namespace kcx::http {

/// Io thread only. One read and one write may be pending at a time.
class transport {
public:
  using result = std::tuple<boost::system::error_code, std::size_t>;
  using buffers = std::array<boost::asio::const_buffer, 2>;

  virtual ~transport() = default;

  /// TLS handshake; at once for plain TCP.
  virtual boost::asio::awaitable<boost::system::error_code> open() = 0;
  virtual boost::asio::awaitable<result> read_some(boost::asio::mutable_buffer to) = 0;
  /// Writes all of it.
  virtual boost::asio::awaitable<result> write(buffers from) = 0;
  /// Writes what the socket takes without waiting; possibly nothing.
  virtual std::size_t write_now(buffers from) noexcept = 0;
  /// Tells the peer that nothing more will come; reading goes on, of bytes that mean nothing any more.
  virtual boost::asio::awaitable<void> finish() = 0;

  /// Ends pending operations with operation_aborted; the connection stays.
  void cancel() noexcept;
  /// Closes the socket now; what was not sent is lost.
  void cut() noexcept;
  /// -1 after cut().
  [[nodiscard]] int descriptor() noexcept;

protected:
  virtual boost::asio::ip::tcp::socket& socket() noexcept = 0;
};

[[nodiscard]] std::unique_ptr<transport> make_plain_transport(boost::asio::ip::tcp::socket socket);
/// The context must outlive nothing: the transport keeps a reference.
[[nodiscard]] std::unique_ptr<transport> make_tls_transport(boost::asio::ip::tcp::socket socket,
                                                            std::shared_ptr<boost::asio::ssl::context> context);

} // namespace kcx::http
