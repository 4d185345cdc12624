// libFuzzer: any bytes as a connection's input. The request reader must neither crash nor loop nor take a body that is
// longer than allowed, and must come to the same request however the bytes are cut into pieces.
#include "actors/http/server/request_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using kcx::http::request_reader;

kcx::http::server_limits limits() {
  kcx::http::server_limits small;
  small.header_bytes = 2'048;
  small.header_fields = 16;
  small.body_bytes = 4'096;
  return small;
}

void demand(bool holds) {
  if (!holds)
    std::abort();
}

/// What one connection's bytes lead to, as text.
std::string outcome_of(std::string_view input, std::size_t piece) {
  static const auto bounds = limits();
  request_reader reader{bounds};
  std::string buffer;
  bool in_body = false;
  for (;;) {
    std::size_t used = 0;
    const auto step = in_body ? reader.read_body(buffer, used) : reader.read_head(buffer, used);
    demand(used <= buffer.size());
    buffer.erase(0, used);
    if (step == request_reader::step::refused)
      return "refused " + std::string{reader.why().kind.code};
    if (step == request_reader::step::done && !in_body) {
      if (reader.limit_body(bounds.body_bytes) == request_reader::step::refused)
        return "refused " + std::string{reader.why().kind.code};
      in_body = true;
      if (reader.chunked() || reader.remaining() > 0)
        continue;
    }
    if (step == request_reader::step::done) {
      auto& request = reader.head();
      demand(request.body.size() <= bounds.body_bytes);
      demand(request.path.find('\0') == std::string::npos);
      demand(request.path == "*" || request.path.starts_with("/"));
      demand(request.headers.size() <= bounds.header_fields);
      return request.method + " " + request.path + " " + std::to_string(request.headers.size()) + " " + request.body;
    }
    if (input.empty())
      return "incomplete";
    const auto next = std::min(piece, input.size());
    buffer.append(input.substr(0, next));
    input.remove_prefix(next);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input{reinterpret_cast<const char*>(data), size};
  demand(outcome_of(input, size + 1) == outcome_of(input, 7));
  return 0;
}
