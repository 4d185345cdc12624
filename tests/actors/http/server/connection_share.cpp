#define CAF_SUITE connection_share
#include "actors/http/server/connection_share.hpp"

#include "actors/http/server/server.hpp"
#include "caf/test/unit_test.hpp"

using namespace kcx;
using http::share_connections;

CAF_TEST(connections never take what slots need) {
  for (const std::size_t files : {400U, 1'024U, 4'096U, 65'536U}) {
    const auto share = share_connections(files, 2);
    CAF_REQUIRE(share.has_value());
    CAF_CHECK_GREATER(share->api, share->inspection);
    CAF_CHECK_LESS(share->api + share->inspection + 2 * 8, files);
  }
  const auto few = share_connections(1'024, 2);
  const auto many = share_connections(1'024, 40);
  CAF_CHECK_GREATER(few->api, many->api);
}

CAF_TEST(a generous limit gives each port all that it can serve) {
  const auto share = share_connections(1'048'576, 8);
  CAF_REQUIRE(share.has_value());
  CAF_CHECK_EQUAL(share->api, http::server_limits{}.connections);
  CAF_CHECK_EQUAL(share->inspection, http::server_limits{}.connections);
}

CAF_TEST(a limit that is too small is refused with what is needed) {
  const auto share = share_connections(64, 2);
  CAF_REQUIRE(!share.has_value());
  CAF_CHECK_NOT_EQUAL(share.error().message.find("64 files"), std::string::npos);
  CAF_CHECK_NOT_EQUAL(share.error().message.find("at least 336"), std::string::npos);
}
