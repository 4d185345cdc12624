#include "tests/actors/http/support.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace kcx::http {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error{what + ": " + std::strerror(errno)};
}

} // namespace

raw_client::raw_client(std::uint16_t port, int receive_buffer)
  : descriptor_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
  if (descriptor_ < 0)
    fail("socket");
  timeval limit{10, 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (receive_buffer > 0)
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    fail("connect");
}

raw_client::~raw_client() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void raw_client::send(std::string_view bytes) {
  if (!try_send(bytes))
    fail("send");
}

bool raw_client::try_send(std::string_view bytes) {
  while (!bytes.empty()) {
    auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool raw_client::fill() {
  char bytes[16 * 1024];
  auto size = ::recv(descriptor_, bytes, sizeof bytes, 0);
  if (size < 0 && errno != ECONNRESET)
    fail("recv");
  if (size <= 0)
    return false;
  buffer_.append(bytes, static_cast<std::size_t>(size));
  return true;
}

std::string raw_client::take(std::size_t size) {
  while (buffer_.size() < size)
    if (!fill())
      throw std::runtime_error{"the connection ended early, after: " + buffer_};
  auto result = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return result;
}

raw_client::reply raw_client::read_reply(bool head_only) {
  reply result;
  while (buffer_.find("\r\n\r\n") == std::string::npos)
    if (!fill())
      throw std::runtime_error{"the connection ended before a whole reply: \"" + buffer_ + "\""};
  result.head = take(buffer_.find("\r\n\r\n") + 2);
  take(2);
  result.status = static_cast<unsigned>(std::stoul(result.head.substr(9, 3)));
  if (head_only || result.status == 100)
    return result;
  if (result.head.find("Transfer-Encoding: chunked") != std::string::npos) {
    for (;;) {
      while (buffer_.find("\r\n") == std::string::npos)
        if (!fill())
          throw std::runtime_error{"the chunked body ended early"};
      auto line = take(buffer_.find("\r\n") + 2);
      auto size = std::stoul(line, nullptr, 16);
      result.body += take(size);
      take(2);
      if (size == 0)
        return result;
    }
  }
  if (auto at = result.head.find("Content-Length: "); at != std::string::npos)
    result.body = take(std::stoul(result.head.substr(at + 16)));
  return result;
}

std::string raw_client::read_some(std::size_t most) {
  if (buffer_.empty() && !fill())
    return {};
  return take(std::min(most, buffer_.size()));
}

std::string raw_client::read_to_end() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

void raw_client::half_close() {
  ::shutdown(descriptor_, SHUT_WR);
}

void raw_client::reset() {
  linger hard{1, 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  ::close(descriptor_);
  descriptor_ = -1;
}

std::string get(const server& s, std::string_view target, std::string_view more_fields) {
  return "GET " + std::string{target} + " HTTP/1.1\r\nHost: " + s.address() + "\r\n" + std::string{more_fields} +
         "\r\n";
}

std::string post(const server& s, std::string_view target, std::string_view body, std::string_view more_fields) {
  return "POST " + std::string{target} + " HTTP/1.1\r\nHost: " + s.address() + "\r\n" + std::string{more_fields} +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string{body};
}

std::unique_ptr<server> started(handler handle, server_options options) {
  auto result = server::start(std::move(options), std::move(handle));
  if (!result)
    throw std::runtime_error{result.error().message};
  return std::move(*result);
}

void echo(const request& what, const responder& reply) {
  auto text = what.method + " " + what.path + " " + std::to_string(what.body.size());
  if (!what.body.empty() && what.body.size() < 100)
    text += " " + what.body;
  reply(text_response(200, std::move(text)));
}

} // namespace kcx::http
