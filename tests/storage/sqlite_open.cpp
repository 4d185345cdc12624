// Opening a database: new, older, newer, foreign, damaged, and after a process that died.
#define CAF_SUITE sqlite_open
#include "caf/test/unit_test.hpp"
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/schema.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/support/files.hpp"

#include <SQLiteCpp/Database.h>

#include <limits>
#include <sys/wait.h>
#include <unistd.h>

using namespace kcx;
using namespace std::chrono_literals;

namespace {

struct fixture {
  test::temp_dir directory;
  std::filesystem::path file = directory / "kcx.db";

  std::unique_ptr<job_store> open() {
    auto store = open_sqlite_store(file, timestamp{1s});
    if (!store) {
      CAF_FAIL(store.error().message);
    }
    return std::move(*store);
  }

  error refusal() {
    const auto before = test::read_file(file);
    auto store = open_sqlite_store(file, timestamp{1s});
    CAF_REQUIRE(!store.has_value());
    CAF_CHECK(test::read_file(file) == before);
    CAF_MESSAGE(store.error().message);
    return store.error();
  }

  static std::size_t count(job_store& store) { return store.ready_jobs(100'000)->jobs.size(); }

  static void add(job_store& store, std::size_t jobs = 1) {
    job_spec spec;
    spec.command = command_line{true, {"true"}};
    spec.metadata = {{"filler", std::string(500, 'x')}};
    CAF_REQUIRE(store.insert(std::vector(jobs, spec), timestamp{1s}).has_value());
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(opening, fixture)

CAF_TEST(a new database has the newest version and marks of its own) {
  open();
  SQLite::Database raw{file.string()};
  CAF_CHECK_EQUAL(raw.execAndGet("PRAGMA user_version").getUInt(), sqlite::migrations().size());
  CAF_CHECK_EQUAL(raw.execAndGet("PRAGMA application_id").getInt(), sqlite::application_id);
  CAF_CHECK_EQUAL(raw.execAndGet("PRAGMA journal_mode").getString(), "wal");
}

CAF_TEST(an empty file becomes a database) {
  test::write_file(file, "");
  add(*open());
}

CAF_TEST(the identity of a database is made once) {
  const std::string first = open()->node_id();
  const std::string second = open()->node_id();
  CAF_CHECK_EQUAL(first.size(), 32u);
  CAF_CHECK_EQUAL(second, first);
}

CAF_TEST(a database of every earlier version is brought up to date with its jobs) {
  for (std::size_t version = 0; version < sqlite::migrations().size(); ++version) {
    std::filesystem::remove(file);
    {
      SQLite::Database raw{file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
      for (std::size_t i = 0; i < version; ++i)
        raw.exec(sqlite::migrations()[i]);
      if (version > 0)
        raw.exec("INSERT INTO node VALUES (1, 'x', 1); PRAGMA application_id = " +
                 std::to_string(sqlite::application_id) + "; PRAGMA user_version = " + std::to_string(version));
    }
    auto store = open();
    add(*store);
    CAF_CHECK(store->commit().has_value());
    CAF_CHECK_EQUAL(count(*store), 1u);
  }
}

CAF_TEST(a newer database is refused and left as it is) {
  open();
  SQLite::Database{file.string(), SQLite::OPEN_READWRITE}.exec("PRAGMA user_version = 999");
  const auto refused = refusal();
  CAF_CHECK(refused.code == ec::storage_unusable);
  CAF_CHECK(refused.message.find("version 999") != std::string::npos);
}

CAF_TEST(a database that lacks a part of itself is refused by the name of the part) {
  for (const auto& [change, words] :
       {std::pair{"DROP TABLE open_needs", "index open_needs_of is missing"},
        std::pair{"DROP INDEX jobs_ready", "index jobs_ready is missing"},
        std::pair{"DROP TRIGGER jobs_moved; CREATE TRIGGER jobs_moved AFTER DELETE ON jobs BEGIN SELECT 1; END",
                  "trigger jobs_moved was changed"}}) {
    std::filesystem::remove(file);
    open();
    SQLite::Database{file.string(), SQLite::OPEN_READWRITE}.exec(change);
    const auto refused = refusal();
    CAF_CHECK(refused.code == ec::storage_unusable);
    CAF_CHECK_NOT_EQUAL(refused.message.find(words), std::string::npos);
  }
}

CAF_TEST(a file without jobs where jobs have been is refused) {
  sqlite_options options;
  options.used_ids = job_id{7};
  CAF_CHECK(open_sqlite_store(file, timestamp{1s}, options)); // removed: told of by the node
  for (const bool with_header : {false, true}) {
    std::filesystem::remove(file);
    test::write_file(file, "");
    if (with_header)
      SQLite::Database{file.string(), SQLite::OPEN_READWRITE}.exec("CREATE TABLE a (b); DROP TABLE a");
    const auto store = open_sqlite_store(file, timestamp{1s}, options);
    CAF_REQUIRE(!store);
    CAF_CHECK(store.error().code == ec::storage_unusable);
    CAF_CHECK_NOT_EQUAL(store.error().message.find("is empty, though files of job 7 are there"), std::string::npos);
  }
}

CAF_TEST(a write ahead log whose database is emptied or gone is kept and the start refused) {
  const auto log = file.string() + "-wal";
  for (const bool gone : {false, true}) {
    if (gone)
      std::filesystem::remove(file);
    else
      test::write_file(file, "");
    test::write_file(log, "jobs");
    const auto store = open_sqlite_store(file, timestamp{1s});
    CAF_REQUIRE(!store);
    CAF_CHECK(store.error().code == ec::storage_unusable);
    CAF_CHECK_NOT_EQUAL(store.error().message.find(gone ? "is missing" : "is empty"), std::string::npos);
    CAF_CHECK_EQUAL(test::read_file(log), "jobs");
  }
}

CAF_TEST(what is no regular file is refused) {
  std::filesystem::create_directory(file);
  const auto store = open_sqlite_store(file, timestamp{1s});
  CAF_REQUIRE(!store);
  CAF_CHECK_NOT_EQUAL(store.error().message.find("is no regular file"), std::string::npos);
}

CAF_TEST(a version that no program gave is damage) {
  open();
  for (const auto* version : {"-1", "0", "-2147483648"}) {
    SQLite::Database{file.string(), SQLite::OPEN_READWRITE}.exec(std::string{"PRAGMA user_version = "} + version);
    CAF_CHECK_NOT_EQUAL(refusal().message.find(std::string{"schema version "} + version + ". "), std::string::npos);
  }
  std::filesystem::remove(file);
  SQLite::Database{file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE}.exec("PRAGMA user_version = -1");
  CAF_CHECK_NOT_EQUAL(refusal().message.find("schema version -1 and no table"), std::string::npos);
}

CAF_TEST(what a crash left in the log is in the file once it is open again) {
  const auto pid = ::fork();
  if (pid == 0) {
    auto store = open();
    add(*store);
    _exit(store->commit() ? 0 : 1); // without closing it
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  CAF_REQUIRE_EQUAL(status, 0);
  const auto store = open();
  std::filesystem::copy_file(file, directory / "alone.db");
  SQLite::Database alone{(directory / "alone.db").string(), SQLite::OPEN_READWRITE};
  CAF_CHECK_EQUAL(alone.execAndGet("SELECT count(*) FROM jobs").getInt(), 1);
}

CAF_TEST(the database of another program is refused and left as it is) {
  SQLite::Database{file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE}.exec("CREATE TABLE theirs (a)");
  CAF_CHECK(refusal().message.find("another program") != std::string::npos);
}

CAF_TEST(a file that is no database is refused and left as it is) {
  test::write_file(file, std::string(8'192, 'k'));
  CAF_CHECK(refusal().code == ec::storage_unusable);
  test::write_file(file, "short");
  CAF_CHECK(refusal().code == ec::storage_unusable);
}

CAF_TEST(a damaged header or schema is refused and left as it is) {
  {
    auto store = open();
    add(*store, 200);
    CAF_REQUIRE(store->commit().has_value());
  }
  const auto sound = test::read_file(file);
  for (const auto offset : {std::size_t{0}, std::size_t{16}, std::size_t{100}, std::size_t{4'096}}) {
    test::write_file(file, sound);
    test::overwrite_file(file, offset, std::string(300, '\xA5'));
    CAF_CHECK(refusal().code == ec::storage_unusable);
  }
  test::write_file(file, sound.substr(0, sound.size() / 2));
  CAF_CHECK(refusal().code == ec::storage_unusable);
  test::write_file(file, sound);
  CAF_CHECK_EQUAL(count(*open()), 200u);
}

CAF_TEST(a directory that is not there is told by name) {
  file = directory / "missing/kcx.db";
  const auto store = open_sqlite_store(file, timestamp{});
  CAF_REQUIRE(!store.has_value());
  CAF_CHECK(store.error().code == ec::storage_failed);
  CAF_CHECK(store.error().message.find("missing/kcx.db") != std::string::npos);
  CAF_CHECK(!open_sqlite_reader(file).has_value());
}

CAF_TEST(exactly what was committed is there after a process that died) {
  const auto child = fork();
  if (child == 0) {
    auto store = open_sqlite_store(file, timestamp{1s});
    add(**store, 3);
    if (!(*store)->commit())
      _exit(1);
    add(**store, 5);
    _exit(0); // no destructor, no checkpoint: as killed
  }
  auto status = 0;
  CAF_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  CAF_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CAF_CHECK_EQUAL(count(*open()), 3u);
}

CAF_TEST_FIXTURE_SCOPE_END()
