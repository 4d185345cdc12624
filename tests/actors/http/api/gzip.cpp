#define CAF_SUITE http_gzip
#include "actors/http/api/gzip.hpp"

#include "caf/test/unit_test.hpp"

#include <zlib.h>

using namespace kcx::http;

namespace {

std::string unpacked(const std::string& packed) {
  z_stream stream{};
  CAF_REQUIRE_EQUAL(::inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  CAF_CHECK_EQUAL(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  ::inflateEnd(&stream);
  return text;
}

std::string long_text() {
  std::string text = "[";
  for (int i = 0; i < 1'000; ++i)
    text += "{\"id\":" + std::to_string(i) + "},";
  return text + "0]";
}

} // namespace

CAF_TEST(what was packed unpacks to the same) {
  for (const auto& text : {std::string{}, std::string{"{}"}, long_text()})
    CAF_CHECK_EQUAL(unpacked(gzipped(text)), text);
}

CAF_TEST(gzip is accepted by name or by star unless its weight is 0) {
  for (const auto* yes : {"gzip", "GZIP", "deflate, gzip;q=0.5", "*", "br;q=1.0, *;q=0.1", " gzip ; q=1 "})
    CAF_CHECK(accepts_gzip(yes));
  for (const auto* no : {"", "identity", "br, deflate", "gzip;q=0", "*, gzip;q=0.000", "*;q=0", "xgzip"})
    CAF_CHECK(!accepts_gzip(no));
}

CAF_TEST(only long JSON is compressed) {
  auto answer = json_response(200, long_text());
  compress(answer);
  CAF_CHECK_EQUAL(answer.headers.find("Content-Encoding").value_or(""), "gzip");
  CAF_CHECK_EQUAL(answer.headers.find("Vary").value_or(""), "Accept-Encoding");
  CAF_CHECK(answer.body.size() < long_text().size() / 3);
  auto once = answer.body;
  compress(answer);
  CAF_CHECK_EQUAL(answer.body, once);
  for (auto other : {json_response(200, "{}"), text_response(200, long_text())}) {
    const auto body = other.body;
    compress(other);
    CAF_CHECK(other.body == body && !other.headers.find("Content-Encoding"));
  }
}
