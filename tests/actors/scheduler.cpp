#define CAF_SUITE scheduler
#include "actors/scheduler.hpp"

#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/fake_database.hpp"

#include <caf/send.hpp>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

struct fixture : actor_fixture {
  std::shared_ptr<database_record> database = std::make_shared<database_record>();
  database_actor database_handle = sys.spawn<fake_database>(database);
  timestamp wall{1'000'000'000ms};
  scheduler_actor testee;

  fixture() {
    scheduler_options options;
    options.clock = [this] { return wall; };
    testee = sys.spawn<scheduler>(database_handle, options);
    settle();
  }

  ~fixture() override {
    caf::anon_send_exit(testee, caf::exit_reason::kill);
    caf::anon_send_exit(database_handle, caf::exit_reason::kill);
    settle();
  }

  void settle() { consume_messages(); }

  void pass(std::chrono::milliseconds span) {
    wall += span;
    advance_time(span);
    settle();
  }

  void promoted(std::optional<timestamp> next_due) {
    CAF_REQUIRE_EQUAL(database->promotes.size(), 1u);
    next(database->promotes).answer(next_due);
    settle();
  }

  /// One that removes what succeeded an hour ago; its first look at that is on its way.
  scheduler_actor start_keeper(std::vector<job_id>& files) {
    scheduler_options options;
    options.clock = [this] { return wall; };
    options.retention[job_state::succeeded].age = 1h;
    options.remove_files = [&files](const std::vector<removed_job>& jobs) {
      for (const auto& each : jobs)
        files.push_back(each.id);
    };
    auto keeper = sys.spawn<scheduler>(database_handle, options);
    settle();
    pass(20ms);
    return keeper;
  }

  void changed(job_state state) {
    job_change change;
    change.id = {1};
    change.state = state;
    caf::anon_send(testee, changed_atom_v, std::make_shared<const std::vector<job_change>>(1, change));
    settle();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(scheduler_tests, fixture)

CAF_TEST(it promotes when it starts and when the next job is due) {
  promoted(wall + 300ms);
  pass(299ms);
  CAF_CHECK(database->promotes.empty());
  pass(1ms);
  promoted(std::nullopt);
}

CAF_TEST(while a job waits it looks every second because the clock may be set) {
  promoted(wall + 1h);
  pass(1s);
  promoted(wall + 1h);
  pass(999ms);
  CAF_CHECK(database->promotes.empty());
  pass(1ms);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(while none waits it looks rarely) {
  promoted(std::nullopt);
  pass(9s);
  CAF_CHECK(database->promotes.empty());
  pass(1s);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(a job that became scheduled is looked at in this moment) {
  promoted(std::nullopt);
  changed(job_state::queued);
  CAF_CHECK(database->promotes.empty());
  changed(job_state::scheduled);
  promoted(wall + 50ms);
  pass(50ms);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(a job that became scheduled while the question was open is not missed) {
  changed(job_state::scheduled);
  promoted(std::nullopt);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(an earlier plan does not add wake ups) {
  promoted(wall + 1h); // would wake in 1 s
  for (int i = 0; i < 5; ++i) {
    pass(100ms);
    changed(job_state::scheduled);
    promoted(wall + 1h);
  }
  pass(600ms); // the first plan's time
  CAF_CHECK(database->promotes.empty());
  pass(400ms);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(more that is due at once is promoted after a short pause) {
  promoted(wall - 5s);
  CAF_CHECK(database->promotes.empty());
  pass(10ms);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(a promotion that is not answered is asked for again soon) {
  CAF_REQUIRE_EQUAL(database->promotes.size(), 1u);
  pass(10s);
  pass(1s);
  CAF_CHECK_EQUAL(database->promotes.size(), 2u);
}

CAF_TEST(a failed promotion is tried again) {
  next(database->promotes).answer(error{ec::storage_busy, "busy", {}});
  settle();
  pass(1s);
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(the write ahead log is copied regularly and one copy at a time) {
  promoted(std::nullopt);
  pass(30s);
  CAF_REQUIRE_EQUAL(database->checkpoints.size(), 1u);
  next(database->checkpoints).answer(std::int64_t{4'096});
  settle();
  pass(30s);
  CAF_REQUIRE_EQUAL(database->checkpoints.size(), 1u);
  next(database->checkpoints).answer(error{ec::storage_busy, "busy", {}});
  settle();
  auto pending = ask(testee, status_atom_v);
  settle();
  CAF_CHECK_EQUAL(take<actor_status>(pending).value().at("wal_bytes").get<std::int64_t>(), 4'096);
}

CAF_TEST(a new database is asked at once) {
  promoted(std::nullopt);
  auto fresh = std::make_shared<database_record>();
  const database_actor restarted = sys.spawn<fake_database>(fresh);
  caf::anon_send(testee, rewire_atom_v, restarted);
  settle();
  CAF_CHECK_EQUAL(fresh->promotes.size(), 1u);
  caf::anon_send_exit(restarted, caf::exit_reason::kill);
}

CAF_TEST(a job with a wait limit is looked at in this moment) {
  promoted(std::nullopt);
  job_change change;
  change.id = {1};
  change.timed = true;
  caf::anon_send(testee, changed_atom_v, std::make_shared<const std::vector<job_change>>(1, change));
  settle();
  CAF_CHECK_EQUAL(database->promotes.size(), 1u);
}

CAF_TEST(what need not be kept is removed in rounds with pauses) {
  std::vector<job_id> files;
  const auto keeper = start_keeper(files);
  CAF_REQUIRE_EQUAL(database->removals.size(), 1u);
  auto first = next(database->removals);
  CAF_CHECK(first.asked.at(job_state::succeeded).age == 1h);
  first.answer(std::vector<removed_job>{{{3}, 1}, {{4}, 2}});
  settle();
  CAF_CHECK((files == std::vector<job_id>{{3}, {4}}));
  CAF_CHECK(database->removals.empty());
  pass(20ms);
  CAF_REQUIRE_EQUAL(database->removals.size(), 1u);
  next(database->removals).answer(std::vector<removed_job>{});
  settle();
  pass(59s);
  CAF_CHECK(database->removals.empty());
  pass(1s);
  CAF_REQUIRE_EQUAL(database->removals.size(), 1u);
  next(database->removals).answer(error{ec::storage_busy, "busy", {}});
  settle();
  pass(60s);
  CAF_CHECK_EQUAL(database->removals.size(), 1u);
  caf::anon_send_exit(keeper, caf::exit_reason::kill);
}

CAF_TEST(files of removed jobs go although the database was slow to answer) {
  std::vector<job_id> files;
  const auto keeper = start_keeper(files);
  CAF_REQUIRE_EQUAL(database->removals.size(), 1u);
  auto slow = next(database->removals);
  pass(10min);
  slow.answer(std::vector<removed_job>{{{3}, 1}});
  settle();
  CAF_CHECK((files == std::vector<job_id>{{3}}));
  caf::anon_send_exit(keeper, caf::exit_reason::kill);
}

CAF_TEST(a new retention holds from the next look on and short times are looked at more often) {
  scheduler_options options;
  options.clock = [this] { return wall; };
  const scheduler_actor keeper = sys.spawn<scheduler>(database_handle, options);
  settle();
  pass(60s);
  CAF_CHECK(database->removals.empty()); // everything is kept
  caf::anon_send(keeper, update_atom_v, retention_policy{{job_state::failed, {2s, std::nullopt}}});
  settle();
  pass(60s);
  CAF_REQUIRE_EQUAL(database->removals.size(), 1u);
  auto look = next(database->removals);
  CAF_CHECK(look.asked.at(job_state::failed).age == 2s);
  look.answer(std::vector<removed_job>{});
  settle();
  pass(1s);
  CAF_CHECK_EQUAL(database->removals.size(), 1u);
  caf::anon_send_exit(keeper, caf::exit_reason::kill);
}

CAF_TEST_FIXTURE_SCOPE_END()
