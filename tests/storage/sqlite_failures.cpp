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
  CAF_REQUIRE(add(1'000'000).has_value()); // more than the log has had
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

CAF_TEST(only the first operation waits long for a file that is held) {
  store = std::make_unique<sqlite::sqlite_store>(sqlite::open_writer(file, timestamp{1s}, 300ms), "node",
                                                 sqlite_options{300ms});
  SQLite::Database other{file.string(), SQLite::OPEN_READWRITE};
  other.exec("BEGIN IMMEDIATE");
  const auto timed = [&] {
    const auto began = std::chrono::steady_clock::now();
    CAF_CHECK(code_of(add()) == ec::storage_busy);
    return std::chrono::steady_clock::now() - began;
  };
  CAF_CHECK(timed() >= 290ms);
  CAF_CHECK(timed() < 290ms);
  CAF_CHECK(timed() < 290ms);
  other.exec("ROLLBACK");
  CAF_CHECK(add().has_value());
  CAF_CHECK(store->commit().has_value());
  other.exec("BEGIN IMMEDIATE");
  CAF_CHECK(timed() >= 290ms);
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

CAF_TEST(a job that cannot be read fails alone when it is claimed) {
  for (const auto* harm :
       {"UPDATE job_specs SET spec = '{}' WHERE job = 1", "UPDATE job_specs SET spec = '{' WHERE job = 1",
        "UPDATE job_specs SET spec = '{\"command\":\"true\",\"run_at\":\"10000-01-01T00:00:00.000Z\"}' WHERE job = 1",
        "DELETE FROM job_specs WHERE job = 1", "UPDATE jobs SET labels = '{' WHERE id = 1",
        "UPDATE jobs SET labels = '[5]' WHERE id = 1", "INSERT INTO job_secrets VALUES (1, '[]')"}) {
    CAF_MESSAGE(harm);
    fixture here;
    auto& testee = *here.store;
    CAF_REQUIRE(here.add().has_value());
    CAF_REQUIRE(here.add().has_value());
    here.db->execute(harm);
    CAF_CHECK_EQUAL(here.count(), 2u);
    const auto grant = testee.claim({job_id{1}, "node/1", 7}, timestamp{1s});
    CAF_REQUIRE(grant.has_value());
    CAF_REQUIRE(grant->ended.has_value());
    CAF_CHECK(grant->ended->change.state == job_state::failed);
    CAF_CHECK(grant->ended->change.reason == job_reason::spawn_failed);
    CAF_CHECK(code_of(testee.claim({job_id{1}, "node/1", 7}, timestamp{1s})) == ec::not_ready);
    const auto other = testee.claim({job_id{2}, "node/1", 8}, timestamp{1s});
    CAF_CHECK(other && !other->ended);
    CAF_CHECK(testee.commit().has_value());
    auto reader = open_sqlite_reader(here.file);
    const auto page = (*reader)->jobs({});
    CAF_REQUIRE(page.has_value());
    CAF_CHECK_EQUAL(page->items.size(), 2u);
    CAF_CHECK_EQUAL(page->items[1].message.substr(0, 37), "what is stored of it cannot be read: ");
    CAF_CHECK(testee.remove(job_id{1}).has_value());
    CAF_CHECK(testee.commit().has_value());
  }
}

CAF_TEST(a job that cannot be read any more ends with its attempt) {
  auto asked = spec();
  asked.max_attempts = 3;
  CAF_REQUIRE(store->insert({&asked, 1}, timestamp{1s}).has_value());
  CAF_REQUIRE(store->claim({job_id{1}, "node/1", 7}, timestamp{1s}).has_value());
  db->execute("UPDATE job_specs SET spec = '{'");
  const auto ended = store->end_held({}, attempt_outcome::node_restarted, timestamp{2s}, 10, {});
  CAF_REQUIRE(ended.has_value());
  CAF_CHECK(ended->front().change.state == job_state::queued); // it had not begun
  CAF_REQUIRE(store->claim({job_id{1}, "node/1", 8}, timestamp{2s})->ended.has_value());
  CAF_CHECK(store->commit().has_value());
}

CAF_TEST(a waiting job that cannot be read is shown and cancelled but not changed or submitted again) {
  auto later = spec();
  later.run_at = timestamp{1'000s};
  later.name = "later";
  CAF_REQUIRE(store->insert({&later, 1}, timestamp{1s}).has_value());
  db->execute("UPDATE job_specs SET spec = '{'");
  CAF_REQUIRE(store->commit().has_value());
  auto reader = open_sqlite_reader(file);
  const auto seen = (*reader)->job(job_id{1});
  CAF_REQUIRE(seen.has_value());
  CAF_CHECK_EQUAL(seen->spec.name, "later");
  CAF_CHECK_EQUAL(seen->spec.queue, "default");
  CAF_CHECK(seen->message.find("cannot be read") != std::string::npos);
  job_patch patch;
  patch.priority = 3;
  CAF_CHECK(code_of(store->update(job_id{1}, patch, timestamp{2s})) == ec::conflict);
  CAF_CHECK(store->cancel(job_id{1}, "me", timestamp{2s}).has_value());
  CAF_CHECK(code_of(store->retry(job_id{1}, {}, timestamp{3s}, retry_what::any_final)) == ec::conflict);
  CAF_CHECK(store->commit().has_value());
}

CAF_TEST(a job that needs one that cannot be read is moved on or fails alone) {
  CAF_REQUIRE(add().has_value());
  auto after = spec();
  after.needs = {{job_id{1}, {}, need_condition::always}};
  CAF_REQUIRE(store->insert({&after, 1}, timestamp{1s}).has_value());
  db->execute("UPDATE job_specs SET spec = '{' WHERE job = 1");
  CAF_REQUIRE(store->claim({job_id{1}, "node/1", 7}, timestamp{1s})->ended.has_value());
  const auto followed = store->settle(timestamp{1s}, 100);
  CAF_REQUIRE(followed.has_value());
  CAF_REQUIRE(followed->moved.size() == 1u);
  CAF_CHECK(followed->moved[0].change.state == job_state::queued);
  CAF_CHECK(!store->claim({job_id{2}, "node/1", 8}, timestamp{1s})->ended);
  store->rollback();
}

CAF_TEST(a job that needs outputs that cannot be read fails rather than run without them) {
  CAF_REQUIRE(add().has_value());
  auto after = spec();
  after.needs = {{job_id{1}, {}, need_condition::always}};
  CAF_REQUIRE(store->insert({&after, 1}, timestamp{1s}).has_value());
  CAF_REQUIRE(store->claim({job_id{1}, "node/1", 7}, timestamp{1s}).has_value());
  attempt_result done;
  done.key = {job_id{1}, 1};
  done.exit_code = 0;
  done.outputs = {{"version", "1"}};
  CAF_REQUIRE(store->finish(done, timestamp{1s}).has_value());
  CAF_REQUIRE(store->settle(timestamp{1s}, 100).has_value());
  db->execute("UPDATE results SET outputs = '[]'");
  CAF_CHECK(store->claim({job_id{2}, "node/1", 8}, timestamp{1s})->ended.has_value());
  CAF_CHECK(store->commit().has_value());
}

CAF_TEST(a token whose scopes cannot be read has none and keeps no other out) {
  CAF_REQUIRE(store->add_token({"broken", "1", {"read"}, "me", {}, {}}, timestamp{1s}).has_value());
  CAF_REQUIRE(store->add_token({"sound", "2", {"read"}, "me", {}, {}}, timestamp{1s}).has_value());
  db->execute("UPDATE tokens SET scopes = 'read' WHERE id = 1");
  CAF_REQUIRE(store->commit().has_value());
  const auto tokens = (*open_sqlite_reader(file))->tokens();
  CAF_REQUIRE(tokens.has_value());
  CAF_REQUIRE(tokens->size() == 2u);
  CAF_CHECK((*tokens)[0].what.scopes.empty());
  CAF_CHECK_EQUAL((*tokens)[1].what.scopes.size(), 1u);
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
