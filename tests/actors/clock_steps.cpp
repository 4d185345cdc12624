// What happens when somebody sets the wall clock: the database and scheduler actors with a real queue file.
#define CAF_SUITE clock_steps
#include "actors/database/database.hpp"
#include "actors/scheduler.hpp"
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/support/files.hpp"

#include <caf/send.hpp>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

const timestamp noon{1'700'000'000'000ms};

struct fixture : actor_fixture {
  temp_dir dir;
  timestamp wall = noon;
  database_actor db;
  scheduler_actor testee;
  std::unique_ptr<job_reader> reader;

  fixture() {
    database_options options;
    options.clock = [this] { return wall; };
    auto store = open_sqlite_store(dir / "kcx.db", noon);
    CAF_REQUIRE(store.has_value());
    db = sys.spawn<database>(*std::move(store), options);
    scheduler_options times;
    times.clock = options.clock;
    testee = sys.spawn<scheduler>(db, times);
    caf::anon_send(db, subscribe_atom_v, caf::actor_cast<change_listener_actor>(testee));
    consume_messages();
    reader = *open_sqlite_reader(dir / "kcx.db");
  }

  ~fixture() override {
    reader.reset();
    caf::anon_send_exit(testee, caf::exit_reason::kill);
    caf::anon_send_exit(db, caf::exit_reason::kill);
    consume_messages();
  }

  job_id submit(std::optional<timestamp> run_at = {}) {
    job_spec spec;
    spec.command = command_line{false, {"true"}};
    spec.run_at = run_at;
    auto pending = ask(db, enqueue_atom_v, submission{{spec}, true});
    consume_messages();
    return take<expected<accepted_jobs>>(pending).value()->jobs.front().id;
  }

  /// The clock and real time go on by different amounts.
  void pass(std::chrono::milliseconds really, std::chrono::milliseconds on_the_wall) {
    wall += on_the_wall;
    advance_time(really);
    consume_messages();
  }

  job_state state(job_id job) { return reader->job(job)->state; }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(clock_step_tests, fixture)

CAF_TEST(a delayed job runs when the wall clock says so whatever way it got there) {
  const auto job = submit(noon + 2h);
  pass(1s, -1h);
  CAF_CHECK(state(job) == job_state::scheduled);
  pass(1s, 1h);
  CAF_CHECK(state(job) == job_state::scheduled);
  pass(1s, 24h);
  CAF_CHECK(state(job) == job_state::queued);
  CAF_CHECK_EQUAL(reader->job(job)->history.size(), 2u);
}

CAF_TEST(a clock that was a day ahead for a moment starts nothing early afterwards) {
  pass(1s, 24h);
  submit();
  pass(1s, -24h);
  const auto soon = submit(wall + 10min);
  pass(1s, 1s);
  CAF_CHECK(state(soon) == job_state::scheduled);
  pass(1s, 10min);
  CAF_CHECK(state(soon) == job_state::queued);
}

CAF_TEST(jobs keep their order when the clock is set back) {
  const auto first = submit();
  pass(1s, -1h);
  const auto second = submit();
  pass(1s, 1s);
  const auto third = submit();
  const auto one = *reader->job(first);
  const auto two = *reader->job(second);
  const auto three = *reader->job(third);
  CAF_CHECK(one.order_key <= two.order_key && two.order_key <= three.order_key);
  CAF_CHECK(one.created_at <= two.created_at);
}

CAF_TEST(a step of a day starts what is due once and nothing again) {
  std::vector<job_id> jobs;
  for (auto hours = 1; hours <= 48; ++hours)
    jobs.push_back(submit(noon + std::chrono::hours{hours}));
  const auto started = [&] {
    return std::ranges::count_if(jobs, [&](const auto job) { return state(job) == job_state::queued; });
  };
  pass(1s, 24h);
  CAF_CHECK_EQUAL(started(), 24);
  pass(1s, -24h);
  CAF_CHECK_EQUAL(started(), 24);
  pass(1s, 24h);
  CAF_CHECK_EQUAL(started(), 24);
  for (const auto job : jobs)
    CAF_CHECK(reader->job(job)->history.size() <= 2);
}

CAF_TEST(no duration is negative when the clock is set back under a job) {
  const auto job = submit();
  auto claimed = ask(db, claim_atom_v, claim_request{job, "node/1", 7});
  auto started = ask(db, start_atom_v, attempt_key{job, 1});
  consume_messages();
  CAF_REQUIRE(take<expected<job_grant>>(claimed).value());
  CAF_REQUIRE(take<outcome>(started).value());
  pass(1s, -1h);
  auto lost = ask(db, abandon_atom_v, std::string{"node/1"});
  consume_messages();
  CAF_REQUIRE(take<outcome>(lost).value());
  const auto ended = *reader->job(job);
  CAF_CHECK(is_final(ended.state));
  CAF_CHECK(ended.duration.value() >= 0ms);
  CAF_CHECK(ended.finished_at >= ended.started_at);
}

CAF_TEST_FIXTURE_SCOPE_END()
