#define CAF_SUITE disk_guard

#include "storage/disk_guard.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

using namespace kcx;
using test::temp_dir;
using namespace std::chrono_literals;

CAF_TEST(a disk with enough space takes new work) {
  temp_dir dir;
  CAF_CHECK((disk_guard{dir / ".", 1}.check().has_value()));
}

CAF_TEST(a disk with too little space refuses with both figures) {
  temp_dir dir;
  const auto checked = disk_guard{dir / ".", std::int64_t{1} << 60}.check();
  CAF_REQUIRE(!checked.has_value());
  CAF_CHECK(checked.error().code == ec::storage_full);
  CAF_CHECK_NOT_EQUAL(checked.error().message.find(std::to_string(std::int64_t{1} << 60)), std::string::npos);
  CAF_CHECK_NOT_EQUAL(checked.error().message.find("min-free"), std::string::npos);
}

CAF_TEST(a guard that is switched off or cannot ask refuses nothing) {
  CAF_CHECK((disk_guard{"/", 0}.check().has_value()));
  CAF_CHECK((disk_guard{"/no/such/directory", std::int64_t{1} << 60}.check().has_value()));
}
