// The conformance suite on SQLite, and what only SQLite's store has: triggers, secrets in a table of their own.
#define CAF_SUITE sqlite_store
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/reader_statements.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/support/files.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace {

class stores_under_test {
public:
  stores_under_test() { reopen(); }

  kcx::job_store& store() { return *store_; }
  kcx::job_reader& reader() { return *reader_; }

  void reopen(const kcx::sqlite_options& options = {}) {
    reader_.reset();
    store_.reset();
    store_ = opened(kcx::open_sqlite_store(file(), kcx::timestamp{}, options));
    reader_ = opened(kcx::open_sqlite_reader(file()));
  }

  [[nodiscard]] std::filesystem::path file() const { return directory_ / "kcx.db"; }

private:
  template <class T>
  static T opened(kcx::expected<T> result) {
    if (!result)
      throw std::runtime_error{result.error().message};
    return std::move(*result);
  }

  kcx::test::temp_dir directory_;
  std::unique_ptr<kcx::job_store> store_;
  std::unique_ptr<kcx::job_reader> reader_;
};

} // namespace

#include "tests/storage/job_store_suite.inc"

// Behind the fixture that they use.
#include "tests/storage/job_store_api_suite.inc"
#include "tests/storage/job_store_group_suite.inc"
#include "tests/storage/job_store_lease_suite.inc"
#include "tests/storage/job_store_needs_suite.inc"
#include "tests/storage/job_store_once_suite.inc"
#include "tests/storage/job_store_unique_suite.inc"
#include "tests/storage/job_store_upkeep_suite.inc"
#include "tests/storage/job_store_webhook_suite.inc"

CAF_TEST_FIXTURE_SCOPE(sqlite_store_only, fixture)

namespace {

/// Columns that meet the schema's CHECKs for a state.
std::string row_in(job_state state) {
  return "UPDATE jobs SET state = '" + std::string{to_string(state)} +
         "', version = version + 1, run_at = 1, attempt = 1, worker = 'w', claimed_at = 1, nonce = " +
         (is_held(state) ? "1" : "NULL") + ", finished_at = " + (is_final(state) ? "1" : "NULL");
}

bool runs(SQLite::Database& raw, const std::string& sql) {
  try {
    raw.exec(sql);
    return true;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

/// Whether the database lets a job move from one state to another. Leaves no trace.
bool database_permits(SQLite::Database& raw, job_state from, job_state to) {
  const auto trigger = raw.execAndGet("SELECT sql FROM sqlite_schema WHERE name = 'jobs_moved_illegally'").getString();
  raw.exec("BEGIN; DROP TRIGGER jobs_moved_illegally;" + row_in(from) + ";" + trigger);
  const auto permitted = runs(raw, row_in(to));
  raw.exec("ROLLBACK");
  return permitted;
}

} // namespace

CAF_TEST(the trigger permits exactly the moves of the model) {
  add();
  must(store().commit());
  SQLite::Database raw{file().string(), SQLite::OPEN_READWRITE};
  for (auto from = 0; from <= static_cast<int>(job_state::skipped); ++from)
    for (auto to = 0; to <= static_cast<int>(job_state::skipped); ++to) {
      const auto was = static_cast<job_state>(from);
      const auto becomes = static_cast<job_state>(to);
      CAF_MESSAGE(to_string(was) << " to " << to_string(becomes));
      CAF_CHECK_EQUAL(database_permits(raw, was, becomes), is_permitted(was, becomes));
    }
}

CAF_TEST(the schema refuses rows that contradict themselves) {
  add();
  must(store().commit());
  SQLite::Database raw{file().string(), SQLite::OPEN_READWRITE};
  for (const auto* change :
       {"state = 'asleep'", "finished_at = 1", "nonce = 1", "state = 'running', version = 1", "weight = 0",
        "attempt = -1", "uncounted = 1", "duration_ms = -1", "state = 'succeeded', version = 1", "log_bytes = -1"}) {
    CAF_MESSAGE(change);
    CAF_CHECK(!runs(raw, std::string{"UPDATE jobs SET "} + change));
  }
}

CAF_TEST(secrets of ended jobs are in neither file after a checkpoint and without them the log stays) {
  const auto log = file().string() + "-wal";
  must(store().checkpoint()); // of what an earlier life left
  add();
  must(store().commit());
  CAF_CHECK_EQUAL(must(store().checkpoint()), 0);
  CAF_CHECK_GREATER(std::filesystem::file_size(log), 0u);
  reopen();
  auto one = spec();
  one.secrets = {{"TOKEN", "s3cr3t-never-seen"}};
  const auto ended = add(one);
  must(store().commit());
  const auto holds = [&](const std::string& path) {
    return test::read_file(path).find("s3cr3t-never-seen") != std::string::npos;
  };
  CAF_REQUIRE(holds(log));
  must(store().cancel(ended, "me", noon));
  must(store().commit());
  CAF_CHECK(holds(log));
  {
    SQLite::Database slow{file().string(), SQLite::OPEN_READONLY};
    slow.exec("BEGIN");
    slow.execAndGet("SELECT count(*) FROM jobs").getInt();
    must(store().checkpoint()); // not now, and nobody waits
    CAF_CHECK(holds(log));
  }
  CAF_CHECK_EQUAL(must(store().checkpoint()), 0);
  CAF_CHECK(!holds(log));
  CAF_CHECK(!holds(file().string()));
}

CAF_TEST(secrets of superseded jobs are in neither file after a checkpoint) {
  sqlite_options options;
  options.log_emptying_interval = 0ms;
  reopen(options);
  must(store().checkpoint()); // of what an earlier life left
  auto one = spec();
  one.secrets = {{"TOKEN", "s3cr3t-never-seen"}};
  one.group = "main";
  one.supersede = supersede_policy::queued;
  add(one);
  must(store().commit());
  one.secrets.clear();
  add(one);
  must(store().commit());
  must(store().checkpoint());
  for (const auto& path : {file().string(), file().string() + "-wal"})
    CAF_CHECK_EQUAL(test::read_file(path).find("s3cr3t-never-seen"), std::string::npos);
}

CAF_TEST(secrets stand in one place and leave it with the end of their job) {
  auto one = spec();
  one.secrets = {{"TOKEN", "s3cr3t"}};
  const auto ran = add(one);
  const auto cancelled = add(one);
  must(store().commit());
  SQLite::Database raw{file().string(), SQLite::OPEN_READONLY};
  const auto kept = [&] { return raw.execAndGet("SELECT count(*) FROM job_secrets").getInt(); };
  CAF_CHECK_EQUAL(kept(), 2);
  CAF_CHECK_EQUAL(raw.execAndGet("SELECT count(*) FROM job_specs WHERE spec LIKE '%s3cr3t%'").getInt(), 0);
  const auto key = start(ran);
  must(store().cancel(cancelled, "me", noon));
  must(store().commit());
  CAF_CHECK_EQUAL(kept(), 1);
  finish(exited(key, 0));
  must(store().commit());
  CAF_CHECK_EQUAL(kept(), 0);
}

CAF_TEST(secrets of jobs that are superseded or replaced are erased unless they still run) {
  auto one = spec();
  one.secrets = {{"TOKEN", "s3cr3t"}};
  one.group = "deploy";
  one.group_limit = 2;
  start(add(one));
  add(one);
  auto keyed = spec();
  keyed.unique_key = "key";
  keyed.on_conflict = conflict_policy::replace;
  keyed.secrets = one.secrets;
  add(keyed);
  keyed.secrets.clear();
  auto newest = spec();
  newest.group = "deploy";
  newest.supersede = supersede_policy::running;
  must(store().submit({{newest, keyed}, true}, noon));
  must(store().commit());
  SQLite::Database raw{file().string(), SQLite::OPEN_READONLY};
  CAF_CHECK_EQUAL(raw.execAndGet("SELECT group_concat(job) FROM job_secrets").getString(), "1");
}

namespace {

/// Queued jobs, more of them than could be submitted in the time that a test has. Their group and key are SQL.
void fill(const std::filesystem::path& file, int number, const std::string& group, const std::string& key) {
  SQLite::Database raw{file.string(), SQLite::OPEN_READWRITE};
  raw.exec("WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < " +
           std::to_string(number) +
           ") INSERT INTO jobs (state, name, project, queue, labels, order_key, weight, plain, created_at, "
           "changed_at, grp, unique_key) SELECT 'queued', '', 'p', 'q', '[]', n, 1, 1, 0, 0, " +
           group + ", " + key + " FROM count");
}

} // namespace

// Both would last for minutes if each statement took time in proportion to those before it.
CAF_TEST(one job supersedes any number of others in linear time) {
  fill(file(), 60'000, "'deploy'", "NULL");
  auto newest = spec();
  newest.group = "deploy";
  newest.supersede = supersede_policy::queued;
  const auto accepted = must(store().submit({{newest}, false}, noon));
  CAF_CHECK_EQUAL(accepted.others.size(), 60'000u);
  CAF_CHECK_EQUAL(ready_ids(), ids{accepted.jobs[0].id.value});
}

CAF_TEST(an array replaces any number of jobs in linear time) {
  constexpr auto number = 30'000;
  fill(file(), number, "NULL", "'key ' || n");
  std::vector<job_spec> specs(number, spec());
  for (auto i = 0; i < number; ++i) {
    auto& each = specs[static_cast<std::size_t>(i)];
    each.unique_key = "key " + std::to_string(i + 1);
    each.on_conflict = conflict_policy::replace;
  }
  const auto accepted = must(store().submit({specs, true}, noon));
  CAF_CHECK_EQUAL(accepted.others.size(), specs.size());
  CAF_CHECK_EQUAL(ready_ids().size(), 1'000u);
  CAF_CHECK(seen(job_id{number}).state == job_state::cancelled);
  CAF_CHECK(seen(accepted.jobs.back().id).state == job_state::queued);
}

CAF_TEST(every statement of the queue is served by an index) {
  add();
  must(store().commit());
  SQLite::Database raw{file().string(), SQLite::OPEN_READONLY};
  const auto plan = [&](const std::string& sql) {
    SQLite::Statement rows{raw, "EXPLAIN QUERY PLAN " + sql};
    std::string text;
    while (rows.executeStep())
      text += rows.getColumn(3).getString() + "; ";
    return text;
  };
  using namespace kcx::sqlite;
  for (const auto& [sql, index] :
       {std::pair{sql::select_ready, "jobs_ready"},
        {sql::select_due, "jobs_scheduled"},
        {sql::select_next_due, "jobs_scheduled"},
        {sql::select_held, "jobs_held"},
        {sql::select_held_by, "jobs_held"},
        {sql::select_by_nonce, "jobs_held"},
        {sql::count_final, "COVERING INDEX jobs_final"},
        {sql::count_queued, "COVERING INDEX jobs_ready"},
        {sql::count_scheduled, "jobs_scheduled"},
        {sql::count_held, "jobs_held"},
        {sql::select_leased, "jobs_held"},
        {sql::select_next_lane, "COVERING INDEX jobs_ready (state=? AND (project,queue,labels)>"},
        {sql::select_lane_head, "jobs_ready (state=? AND project=? AND queue=? AND labels=?)"},
        {sql::select_latest_retry, "jobs_retries"},
        {sql::select_open_needs, "open_needs_of"},
        {sql::select_impatient, "jobs_impatient"},
        {sql::select_next_impatient, "jobs_impatient"},
        {sql::select_final, "jobs_final"},
        {sql::forget_answers, "answers_by_age"},
        {sql::select_oldest_answer, "answers_by_age"},
        {sql::select_held_by_key, "jobs_held_keys (unique_key=?)"},
        {sql::select_dependents, "PRIMARY KEY"},
        {sql::has_open_needs, "open_needs_of"},
        {sql::count_blocked, "COVERING INDEX jobs_blocked"},
        {sql::select_group, "jobs_group"},
        {sql::select_head, "jobs_group"},
        {sql::select_followers, "jobs_group"},
        {sql::select_older_waiting, "jobs_group"},
        {sql::select_older_running, "jobs_group"},
        {sql::select_by_key, "jobs_unique"},
        {sql::select_beyond, "COVERING INDEX jobs_final"},
        {sql::count_queued_by_queue, "COVERING INDEX jobs_ready"},
        {sql::count_lane, "COVERING INDEX jobs_ready (state=? AND project=? AND queue=? AND labels=?)"},
        {sql::count_held_of_queue, "jobs_held"},
        {sql::select_due_deliveries, "deliveries_due"},
        {sql::select_undelivered, "deliveries_undelivered (state=? AND rowid<?)"},
        {sql::count_held_by_queue, "jobs_held"}}) {
    const auto text = plan(sql);
    CAF_MESSAGE(sql << ": " << text);
    CAF_CHECK(text.find(index) != std::string::npos);
  }
  for (const auto* sql : {sql::select_ready, sql::count_queued_by_queue, sql::select_undelivered})
    CAF_CHECK_EQUAL(plan(sql).find("TEMP B-TREE"), std::string::npos);
}

CAF_TEST(a count may take longer than another query and is kept for a while then) {
  fill(file(), 200'000, "NULL", "NULL");
  const auto began = std::chrono::steady_clock::now();
  CAF_CHECK_EQUAL(std::int64_t{must(reader().stats()).jobs_by_state[job_state::queued]}, 200'000);
  const auto took = std::chrono::steady_clock::now() - began;
  // A limit that the count passes.
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(took / 2);
  auto impatient = must(open_sqlite_reader(file(), std::max(limit, 1ms)));
  CAF_CHECK_EQUAL(std::int64_t{must(impatient->stats()).jobs_by_state[job_state::queued]}, 200'000);
  add();
  must(store().commit());
  CAF_CHECK_EQUAL(std::int64_t{must(impatient->stats()).jobs_by_state[job_state::queued]}, 200'000);
}

CAF_TEST(what failed is found among any number of deliveries) {
  {
    SQLite::Database raw{file().string(), SQLite::OPEN_READWRITE};
    raw.exec("WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 300000) "
             "INSERT INTO deliveries (job, event, version, name, project, queue, reason, message, attempt, url, "
             "created_at, state) SELECT n, 'failed', 1, '', 'p', 'q', 'none', '', 1, 'http://a', 0, "
             "iif(n = 1, 'failed', 'delivered') FROM count");
  }
  auto impatient = must(open_sqlite_reader(file(), 10ms));
  CAF_CHECK_EQUAL(must(impatient->deliveries({{}, delivery_state::failed})).items.size(), 1u);
}

CAF_TEST(a filtered search over many jobs ends in bounded pages and finds the rare one) {
  const auto rare = add(spec("rare"));
  const std::vector specs(1'000, spec());
  for (auto i = 0; i < 45; ++i)
    must(store().insert(specs, noon));
  must(store().commit());
  job_filter filter{.name = "rare"};
  std::vector<std::int64_t> found;
  for (auto more = true; more;) {
    const auto page = must(reader().jobs(filter));
    for (const auto& job : page.items)
      found.push_back(job.id.value);
    filter.before = page.next;
    more = page.next.has_value();
  }
  CAF_CHECK_EQUAL(found, ids{rare.value});
}

CAF_TEST(a page that takes long to read is short and the next one goes on) {
  constexpr std::size_t number = 60; // on a machine that is busy with other things, each is a page of its own
  job_spec heavy;
  heavy.command = command_line{true, {"true"}};
  heavy.metadata = {{"filler", std::vector<int>(20'000, 7)}};
  must(store().insert(std::vector(number, heavy), timestamp{}));
  must(store().commit());
  auto impatient = must(open_sqlite_reader(file(), std::chrono::milliseconds{40}));
  std::size_t seen = 0;
  std::size_t pages = 0;
  job_filter filter;
  filter.limit = 1'000;
  do {
    const auto page = must(impatient->jobs(filter));
    CAF_REQUIRE(!page.items.empty());
    seen += page.items.size();
    ++pages;
    filter.before = page.next;
  } while (filter.before);
  CAF_CHECK_EQUAL(seen, number);
  CAF_CHECK_GREATER(pages, 1u);
}

CAF_TEST(the write ahead log begins anew while readers are always busy) {
  sqlite_options options;
  options.largest_log = 1 << 20;
  options.reader_patience = 200ms;
  options.reader_pause = 0ms;
  reopen(options);
  std::atomic<bool> stop{false};
  // Two readers whose transactions overlap: there is never none.
  std::thread busy{[&] {
    std::array<SQLite::Database, 2> readers{SQLite::Database{file().string(), SQLite::OPEN_READONLY},
                                            SQLite::Database{file().string(), SQLite::OPEN_READONLY}};
    const auto begin = [](SQLite::Database& reader) {
      reader.exec("BEGIN");
      reader.execAndGet("SELECT count(*) FROM node").getInt();
    };
    begin(readers[0]);
    for (std::size_t next = 1; !stop; ++next) {
      begin(readers[next % 2]);
      std::this_thread::sleep_for(20ms);
      readers[(next + 1) % 2].exec("COMMIT");
    }
  }};
  auto filler = spec();
  filler.metadata = {{"filler", std::string(20'000, 'x')}};
  // The salt in its header is another one each time the log begins anew.
  const auto salt = [this] { return test::read_file(file().string() + "-wal").substr(16, 8); };
  std::string first;
  for (auto i = 0; i < 100 && (i < 2 || salt() == first); ++i) {
    must(store().insert(std::vector(10, filler), noon));
    must(store().commit());
    if (i == 0)
      first = salt();
    must(store().checkpoint());
  }
  CAF_CHECK(salt() != first);
  stop = true;
  busy.join();
}

CAF_TEST_FIXTURE_SCOPE_END()
