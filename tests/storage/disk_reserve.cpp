#define CAF_SUITE disk_reserve

#include "storage/disk_reserve.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <limits>
#include <sys/stat.h>

using namespace kcx;

namespace {

struct fixture {
  test::temp_dir directory;
  std::filesystem::path file = directory / "reserve";

  [[nodiscard]] std::int64_t taken() const {
    struct stat about {};
    return ::stat(file.c_str(), &about) == 0 ? static_cast<std::int64_t>(about.st_blocks) * 512 : 0;
  }
};

constexpr auto endless = std::numeric_limits<std::int64_t>::max();

} // namespace

CAF_TEST_FIXTURE_SCOPE(disk_reserve_tests, fixture)

CAF_TEST(a reserve takes its space and is private) {
  disk_reserve reserve{file};
  CAF_CHECK_EQUAL(reserve.missing(), disk_reserve::whole);
  CAF_CHECK(!reserve.make_room(endless));
  reserve.fill();
  CAF_CHECK_EQUAL(reserve.missing(), 0);
  CAF_CHECK_GREATER_OR_EQUAL(taken(), disk_reserve::whole);
  struct stat about {};
  CAF_REQUIRE_EQUAL(::stat(file.c_str(), &about), 0);
  CAF_CHECK_EQUAL(about.st_mode & 0777, 0600u);
}

CAF_TEST(a reserve gives up what is missing and only then) {
  disk_reserve reserve{file};
  reserve.fill();
  CAF_CHECK(!reserve.make_room(1));
  CAF_CHECK_EQUAL(reserve.missing(), 0);
  CAF_CHECK(reserve.make_room(endless));
  CAF_CHECK_EQUAL(reserve.missing(), disk_reserve::whole);
  CAF_CHECK(!std::filesystem::exists(file));
  CAF_CHECK(!reserve.make_room(endless));
}

CAF_TEST(a reserve goes in pieces and becomes whole again) {
  {
    disk_reserve reserve{file};
    reserve.fill();
    CAF_CHECK(reserve.give_up(1 << 20));
    CAF_CHECK(reserve.give_up(1 << 20));
  }
  disk_reserve reserve{file}; // as after a restart
  CAF_CHECK_EQUAL(reserve.missing(), 2 << 20);
  CAF_CHECK_LESS(taken(), 3 << 20);
  reserve.fill();
  CAF_CHECK_EQUAL(reserve.missing(), 0);
  CAF_CHECK_GREATER_OR_EQUAL(taken(), disk_reserve::whole);
}

CAF_TEST(a reserve that was removed gives nothing) {
  disk_reserve reserve{file};
  reserve.fill();
  std::filesystem::remove(file);
  CAF_CHECK(!reserve.give_up(1));
  reserve.fill();
  CAF_CHECK(std::filesystem::exists(file));
}

CAF_TEST_FIXTURE_SCOPE_END()
