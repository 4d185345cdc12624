// What SQLite's store does when SQLite fails: real failures of a real file.
#define CAF_SUITE sqlite_failures
#include "caf/test/unit_test.hpp"
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/schema.hpp"
#include "storage/sqlite/sqlite_store.hpp"
#include "tests/support/files.hpp"

#include <csignal>
#include <limits>
#include <sqlite3.h>
#include <sys/resource.h>

using namespace kcx;
using namespace std::chrono_literals;

namespace {

/// A store whose connection the test can reach.
struct fixture {
  fixture() {
    auto writer = sqlite::open_writer(file, timestamp{1s}, 20ms);
    db = writer.get();
    store = std::make_unique<sqlite::sqlite_store>(std::move(writer), "node", sqlite_options{});
  }

  static job_spec spec(std::size_t bytes = 10) {
    job_spec made;
    made.command = command_line{true, {"true"}};
    made.metadata = {{"filler", std::string(bytes, 'x')}};
    return made;
  }

  expected<std::vector<job_record>> add(std::size_t bytes = 10) {
    const auto one = spec(bytes);
    return store->insert({&one, 1}, timestamp{1s});
  }

  std::size_t count() {
    auto ready = store->ready_jobs(100'000);
    CAF_REQUIRE(ready.has_value());
    return ready->jobs.size();
  }

  test::temp_dir directory;
  std::filesystem::path file = directory / "kcx.db";
  sqlite::connection* db = nullptr;
  std::unique_ptr<sqlite::sqlite_store> store;
};

template <class T>
ec code_of(const expected<T>& result) {
  return result ? ec::none : result.error().code;
}

/// Lets no file of this process grow beyond `bytes` while it lives; writing on fails with EFBIG instead of a signal.
class file_size_limit {
public:
  explicit file_size_limit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~file_size_limit() { setrlimit(RLIMIT_FSIZE, &before_); }

private:
  rlimit before_{};
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(failures, fixture)

CAF_TEST(a full disk undoes the whole transaction and the store goes on once there is space) {
  CAF_REQUIRE(add().has_value());
  CAF_REQUIRE(store->commit().has_value());
  const auto pages = db->database().execAndGet("PRAGMA page_count").getInt64();
  db->execute("PRAGMA max_page_count = " + std::to_string(pages + 2));
  CAF_REQUIRE(add().has_value());
  const auto failed = add(100'000);
  CAF_CHECK(code_of(failed) == ec::storage_full);
  CAF_CHECK(!store->in_transaction());
  CAF_CHECK_EQUAL(count(), 1u);
  db->execute("PRAGMA max_page_count = 1073741823");
  CAF_CHECK(add(100'000).has_value());
  CAF_CHECK(store->commit().has_value());
  CAF_CHECK_EQUAL(count(), 2u);
}

CAF_TEST(a commit that fails loses its transaction and nothing before it) {
  CAF_REQUIRE(add().has_value());
  CAF_REQUIRE(store->commit().has_value());
  CAF_REQUIRE(add(50'000).has_value());
  {
    const file_size_limit limit{std::filesystem::file_size(file.string() + "-wal") + 1'000};
    const auto result = store->commit();
    CAF_CHECK(code_of(result) == ec::storage_failed);
    CAF_MESSAGE(result.error().message);
  }
  CAF_CHECK(!store->in_transaction());
  CAF_CHECK_EQUAL(count(), 1u);
  CAF_CHECK(add().has_value());
  CAF_CHECK(store->commit().has_value());
  CAF_CHECK_EQUAL(count(), 2u);
}

CAF_TEST(a file held by another process is busy and later is not ) {
  SQLite::Database other{file.string(), SQLite::OPEN_READWRITE};
  other.exec("BEGIN IMMEDIATE");
  const auto held = add();
  CAF_CHECK(code_of(held) == ec::storage_busy);
  CAF_CHECK_EQUAL(held.error().message.find("locked"), std::string::npos);
  CAF_CHECK(!store->in_transaction());
  other.exec("ROLLBACK");
  CAF_CHECK(add().has_value());
  CAF_CHECK(store->commit().has_value());
}

CAF_TEST(a file that is held for a moment is waited for) {
  sqlite3_busy_timeout(db->handle(), 5'000);
  SQLite::Database other{file.string(), SQLite::OPEN_READWRITE};
  other.exec("BEGIN IMMEDIATE");
  // Ends the other's transaction from inside the wait: the busy handler of this connection runs until it returns 0.
  sqlite3_busy_handler(
    db->handle(),
    [](void* that, int) {
      static_cast<SQLite::Database*>(that)->exec("ROLLBACK");
      return 1;
    },
    &other);
  CAF_CHECK(add().has_value());
  CAF_CHECK(store->commit().has_value());
}

CAF_TEST(damage met later ends every further write with the same error) {
  CAF_REQUIRE(store->insert(std::vector(2'000, spec(500)), timestamp{1s}).has_value());
  CAF_REQUIRE(store->commit().has_value());
  CAF_REQUIRE(store->checkpoint().has_value());
  const auto bytes = std::filesystem::file_size(file);
  for (std::size_t page = 10 * 4'096; page + 4'096 <= bytes; page += 4'096)
    test::overwrite_file(file, page, std::string(4'096, '\xA5'));
  sqlite3_db_release_memory(db->handle()); // the cache holds sound pages
  auto failed = ec::none;
  for (auto id = std::int64_t{1}; id <= 2'000 && failed == ec::none; id += 100)
    failed = code_of(store->claim({job_id{id}, "node/1", 7}, timestamp{1s}));
  CAF_CHECK(failed == ec::storage_unusable);
  CAF_CHECK(!store->in_transaction());
  CAF_CHECK(code_of(add()) == ec::storage_unusable);
  CAF_CHECK(code_of(store->commit()) == ec::storage_unusable);
  CAF_CHECK(code_of(store->checkpoint()) == ec::storage_unusable);
  CAF_CHECK(code_of(store->ready_jobs(1)) == ec::storage_unusable);
}

CAF_TEST(a spec that no version has written is damage) {
  CAF_REQUIRE(add().has_value());
  db->execute("UPDATE job_specs SET spec = '{}'");
  CAF_CHECK(code_of(store->claim({job_id{1}, "node/1", 7}, timestamp{1s})) == ec::storage_unusable);
  CAF_CHECK(code_of(store->commit()) == ec::storage_unusable);
}

CAF_TEST(a failing part undoes its whole operation and leaves the transaction) {
  CAF_REQUIRE(add().has_value());
  db->execute("CREATE TEMP TRIGGER no_spec BEFORE INSERT ON job_specs WHEN NEW.job = 2 "
              "BEGIN SELECT RAISE(ABORT, 'refused'); END");
  CAF_CHECK(code_of(add()) == ec::internal);
  CAF_CHECK(store->in_transaction());
  db->execute("DROP TRIGGER no_spec");
  CAF_CHECK(store->commit().has_value());
  CAF_CHECK_EQUAL(count(), 1u);
  CAF_CHECK_EQUAL(db->database().execAndGet("SELECT count(*) FROM jobs").getInt(), 1);
  CAF_CHECK_EQUAL(db->database().execAndGet("SELECT count(*) FROM history").getInt(), 1);
}

CAF_TEST(a long reader delays no write and is told that it took too long) {
  CAF_REQUIRE(store->insert(std::vector(2'000, spec()), timestamp{1s}).has_value());
  CAF_REQUIRE(store->commit().has_value());
  auto reader = open_sqlite_reader(file);
  CAF_REQUIRE(reader.has_value());
  // A read transaction that stays open while the writer commits and checkpoints.
  SQLite::Database slow{file.string(), SQLite::OPEN_READONLY};
  slow.exec("BEGIN");
  slow.execAndGet("SELECT count(*) FROM jobs").getInt();
  CAF_CHECK(add().has_value());
  CAF_CHECK(store->commit().has_value());
  CAF_CHECK(store->checkpoint().has_value());
  CAF_CHECK((*reader)->job(job_id{2'001}).has_value());
  slow.exec("COMMIT");
  auto impatient = open_sqlite_reader(file, -1ms);
  CAF_REQUIRE(impatient.has_value());
  CAF_CHECK(code_of((*impatient)->stats()) == ec::timeout);
}

CAF_TEST(a reader cannot write) {
  sqlite::connection read_only{file, SQLite::OPEN_READONLY, 10ms};
  const auto result = sqlite::guarded(read_only, [&]() -> outcome {
    read_only.execute("DELETE FROM jobs");
    return done{};
  });
  CAF_CHECK(code_of(result) == ec::storage_failed);
}

CAF_TEST_FIXTURE_SCOPE_END()
