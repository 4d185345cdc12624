// How a request's bytes are cut must not change what becomes of them. tests/fuzz/request.cpp tries many more.
#define CAF_SUITE http_request_reader
#include "actors/http/server/request_reader.hpp"

#include "caf/test/unit_test.hpp"

#include <string>

using namespace kcx::http;

namespace {

/// The code of the refusal of a chunked request that ends in `tail`, sent in pieces; "" if it is accepted.
std::string refusal_of(const std::string& tail, std::size_t piece) {
  server_limits limits;
  limits.header_bytes = 1'024;
  request_reader reader{limits};
  std::string rest = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + tail;
  std::string buffer;
  bool in_body = false;
  for (;;) {
    std::size_t used = 0;
    const auto step = in_body ? reader.read_body(buffer, used) : reader.read_head(buffer, used);
    buffer.erase(0, used);
    if (step == request_reader::step::refused)
      return std::string{reader.why().kind.code};
    if (step == request_reader::step::done && in_body)
      return "";
    if (step == request_reader::step::done) {
      in_body = true;
      continue;
    }
    CAF_REQUIRE(!rest.empty());
    buffer.append(rest, 0, piece);
    rest.erase(0, piece);
  }
}

/// The code of the refusal of this header, sent in pieces; "" if it is accepted, "more" if it has not ended.
std::string head_refusal(std::string rest, std::size_t piece) {
  server_limits limits;
  limits.header_bytes = 1'024;
  request_reader reader{limits};
  std::string buffer;
  for (; !rest.empty(); rest.erase(0, piece)) {
    buffer.append(rest, 0, piece);
    std::size_t used = 0;
    if (const auto step = reader.read_head(buffer, used); step != request_reader::step::more)
      return step == request_reader::step::done ? "" : std::string{reader.why().kind.code};
  }
  return "more";
}

} // namespace

CAF_TEST(a request line that is too long is told as that whatever follows it) {
  // "GET / HTTP/1.1" takes 14 bytes, the line may have 128.
  const auto line = [](std::size_t length) { return "GET /" + std::string(length - 14, 'x') + " HTTP/1.1\r\n"; };
  const std::string host = "Host: a\r\n\r\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{1'000'000}}) {
    CAF_CHECK_EQUAL(head_refusal(line(128) + host, piece), "");
    CAF_CHECK_EQUAL(head_refusal(line(129) + host, piece), "target_too_long");
    CAF_CHECK_EQUAL(head_refusal("\r\n" + line(128) + host, piece), "");
    CAF_CHECK_EQUAL(head_refusal("\r\n" + line(129) + host, piece), "target_too_long");
    CAF_CHECK_EQUAL(head_refusal(line(100'000) + host, piece), "target_too_long");
    CAF_CHECK_EQUAL(head_refusal(line(129) + "X: " + std::string(2'000, 'x') + "\r\n" + host, piece),
                    "target_too_long");
    CAF_CHECK_EQUAL(head_refusal(line(128) + "X: " + std::string(2'000, 'x') + "\r\n" + host, piece),
                    "header_too_large");
    CAF_CHECK_EQUAL(head_refusal(std::string(129, 'x'), piece), "target_too_long");
  }
}

CAF_TEST(a trailer or a chunks first line is too long however it comes) {
  const std::string filler(1'500, 'x');
  for (const std::size_t piece : {std::size_t{7}, std::size_t{1'000}, std::size_t{100'000}}) {
    CAF_CHECK_EQUAL(refusal_of("0\r\nA: b\r\n\r\n", piece), "");
    CAF_CHECK_EQUAL(refusal_of("0\r\nA: " + filler + "\r\n\r\n", piece), "malformed_request");
    CAF_CHECK_EQUAL(refusal_of("1;a=" + filler + "\r\nx\r\n0\r\n\r\n", piece), "malformed_request");
    CAF_CHECK_EQUAL(refusal_of("5dc\r\n" + filler + "\r\n0\r\n\r\n", piece), "");
  }
}

CAF_TEST(two types of one body are refused) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
  CAF_CHECK_EQUAL(head_refusal(start + "\r\n", 1'000), "");
  CAF_CHECK_EQUAL(head_refusal(start + "Content-Type: text/plain\r\n\r\n", 1'000), "malformed_request");
}
