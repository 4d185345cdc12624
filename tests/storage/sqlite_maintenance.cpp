// What tools do with a database beside the node that uses it.
#define CAF_SUITE sqlite_maintenance
#include "caf/test/unit_test.hpp"
#include "storage/sqlite/maintenance.hpp"
#include "storage/sqlite/schema.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/support/files.hpp"

#include <sys/stat.h>

using namespace kcx;
using namespace std::chrono_literals;

namespace {

struct fixture {
  test::temp_dir directory;
  std::filesystem::path file = directory / "kcx.db";
  std::filesystem::path copy = directory / "copy.db";

  std::unique_ptr<job_store> open(const std::filesystem::path& which) {
    auto store = open_sqlite_store(which, timestamp{1s});
    if (!store)
      CAF_FAIL(store.error().message);
    return std::move(*store);
  }

  static void add(job_store& store, std::size_t jobs) {
    job_spec spec;
    spec.command = command_line{true, {"true"}};
    spec.metadata = {{"filler", std::string(500, 'x')}};
    CAF_REQUIRE(store.insert(std::vector(jobs, spec), timestamp{5s}).has_value());
    CAF_REQUIRE(store.commit().has_value());
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(maintenance, fixture)

CAF_TEST(a report tells of a database that is in use) {
  auto store = open(file);
  add(*store, 3);
  const auto report = examine_database(file);
  CAF_REQUIRE(report.has_value());
  CAF_CHECK_EQUAL(report->jobs, 3);
  CAF_CHECK(report->newest == timestamp{5s});
  CAF_CHECK_EQUAL(report->node_id, store->node_id());
  CAF_CHECK(report->damage.empty());
  CAF_CHECK_EQUAL(report->version, report->known_version);
}

CAF_TEST(a copy of a database in use has all that was committed and an id of its own) {
  auto store = open(file);
  add(*store, 500);
  CAF_REQUIRE(copy_database(file, copy).has_value());
  struct stat about {};
  CAF_REQUIRE(::stat(copy.c_str(), &about) == 0);
  CAF_CHECK_EQUAL(about.st_mode & 0777U, 0600U);
  CAF_CHECK(!std::filesystem::exists(copy.string() + "-wal"));
  add(*store, 1); // the original goes on
  auto copied = open(copy);
  CAF_CHECK(copied->node_id() != store->node_id());
  add(*copied, 1);
  const auto report = examine_database(copy);
  CAF_REQUIRE(report.has_value());
  CAF_CHECK_EQUAL(report->jobs, 501);
  const auto attempts = latest_attempts(copy);
  CAF_CHECK(attempts && attempts->empty());
}

CAF_TEST(a copy never replaces a file) {
  open(file);
  test::write_file(copy, "mine");
  const auto refused = copy_database(file, copy);
  CAF_REQUIRE(!refused.has_value());
  CAF_CHECK(refused.error().code == ec::conflict);
  CAF_CHECK_EQUAL(test::read_file(copy), "mine");
}

CAF_TEST(what is no sound database is neither copied nor passed as sound) {
  CAF_CHECK(examine_database(file).error().code == ec::not_found);
  CAF_CHECK(copy_database(file, copy).error().code == ec::not_found);
  {
    auto store = open(file);
    add(*store, 500);
  }
  test::overwrite_file(file, 40'960, std::string(4'096, '\xff'));
  const auto report = examine_database(file);
  CAF_CHECK(!report || !report->damage.empty());
  CAF_CHECK(!copy_database(file, copy).has_value());
  CAF_CHECK(!std::filesystem::exists(copy));
  test::write_file(file, std::string(8'192, 'x'));
  CAF_CHECK(examine_database(file).error().code == ec::storage_unusable);
}

CAF_TEST_FIXTURE_SCOPE_END()
