#include "actors/http/api/gzip.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <zlib.h>

namespace kcx::http {

namespace {

/// Below it the header costs more than is won.
constexpr std::size_t smallest = 1'024;

/// JSON shrinks to a fifth at the fastest level already, and the time is that of everybody's actor.
constexpr int level = 1;
constexpr int gzip_window = 15 + 16;

/// A weight of 0 forbids: "q=0", "q=0.000".
bool is_forbidden(std::string_view parameters) noexcept {
  const auto at = parameters.find("q=");
  if (at == std::string_view::npos)
    return false;
  const auto weight = trimmed(parameters.substr(at + 2));
  return weight.starts_with('0') && std::ranges::all_of(weight, [](char c) { return c == '0' || c == '.'; });
}

bool is_json(std::string_view type) noexcept {
  const auto name = trimmed(type.substr(0, type.find(';')));
  return same_text(name, "application/json") || same_text(name, "application/problem+json");
}

} // namespace

bool accepts_gzip(std::string_view accept_encoding) noexcept {
  bool any = false;
  while (!accept_encoding.empty()) {
    const auto comma = std::min(accept_encoding.find(','), accept_encoding.size());
    const auto one = accept_encoding.substr(0, comma);
    accept_encoding.remove_prefix(std::min(comma + 1, accept_encoding.size()));
    const auto semicolon = std::min(one.find(';'), one.size());
    const auto name = trimmed(one.substr(0, semicolon));
    const bool allowed = !is_forbidden(one.substr(semicolon));
    if (same_text(name, "gzip"))
      return allowed;
    any = any || (name == "*" && allowed);
  }
  return any;
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  if (::deflateInit2(&stream, level, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc{};
  // The bound holds for one call, so this needs no loop.
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const auto result = ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (result != Z_STREAM_END)
    throw std::runtime_error{"a body could not be compressed"};
  return packed;
}

void compress(response& answer) {
  if (answer.stream || answer.body.size() < smallest || answer.headers.find("Content-Encoding") ||
      !is_json(answer.headers.find("Content-Type").value_or("")))
    return;
  answer.body = gzipped(answer.body);
  answer.headers.set("Content-Encoding", "gzip");
  answer.headers.set("Vary", "Accept-Encoding");
}

} // namespace kcx::http
