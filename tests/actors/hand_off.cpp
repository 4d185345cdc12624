// Workers that wait are lent to the database: a real database and dispatcher on a real store.
#define CAF_SUITE hand_off
#include "actors/database/database.hpp"
#include "actors/dispatcher/dispatcher.hpp"
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/support/files.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

constexpr timestamp noon{std::chrono::milliseconds{1'767'268'800'000}};

using grant_slot = std::shared_ptr<std::optional<expected<job_grant>>>;
using exchange_slot = std::shared_ptr<std::optional<expected<exchange_result>>>;

struct fixture : actor_fixture {
  temp_dir directory;
  database_actor db;
  dispatcher_actor testee;
  attempt_holder_actor holder = new_holder();

  fixture() { start(); }

  ~fixture() override { stop(); }

  attempt_holder_actor new_holder() {
    return sys.spawn([](attempt_holder_actor::pointer me) -> attempt_holder_actor::behavior_type {
      return {[me](cancel_atom, attempt_key) { me->quit(); }};
    });
  }

  std::filesystem::path file() const { return directory / "kcx.db"; }

  void start() {
    auto store = open_sqlite_store(file(), noon);
    CAF_REQUIRE(store.has_value());
    // As a node that starts does.
    CAF_REQUIRE((*store)->end_held(std::nullopt, attempt_outcome::node_restarted, noon, 100).has_value());
    CAF_REQUIRE((*store)->commit().has_value());
    database_options options;
    options.clock = [] { return noon; };
    options.boot_clock = [] { return std::chrono::nanoseconds{1h}; };
    db = sys.spawn<database>(*std::move(store), options);
    testee = sys.spawn<dispatcher>(db);
    consume_messages();
    anon_send(testee, fleet_atom_v, fleet{4, {}});
    consume_messages();
  }

  void stop() {
    anon_send_exit(testee, caf::exit_reason::kill);
    anon_send_exit(db, caf::exit_reason::kill);
    consume_messages();
  }

  /// Dies with what stands in the mailboxes.
  void die() {
    for (const auto& each : {caf::actor_cast<caf::actor>(testee), caf::actor_cast<caf::actor>(db)})
      caf::anon_send<caf::message_priority::high>(each, caf::exit_msg{each.address(), caf::exit_reason::kill});
    consume_messages();
  }

  grant_slot ask_for_work(const std::string& worker, std::uint64_t nonce, std::vector<std::string> labels = {},
                          bool repeat = false) {
    auto slot = std::make_shared<std::optional<expected<job_grant>>>();
    work_request wanted{worker, std::move(labels), nonce, repeat};
    sys.spawn([slot, wanted, to = testee, from = holder](caf::event_based_actor* asker) {
      asker->request(to, caf::infinite, claim_atom_v, wanted, from)
        .then([slot](expected<job_grant>& answer) { *slot = std::move(answer); }, [](caf::error&) {});
    });
    consume_messages();
    return slot;
  }

  exchange_slot ask_from_afar(remote_request wanted) {
    auto slot = std::make_shared<std::optional<expected<exchange_result>>>();
    sys.spawn([slot, wanted, to = testee](caf::event_based_actor* asker) {
      asker->request(to, caf::infinite, exchange_atom_v, wanted)
        .then([slot](expected<exchange_result>& answer) { *slot = std::move(answer); }, [](caf::error&) {});
    });
    consume_messages();
    return slot;
  }

  static job_spec spec() {
    job_spec made;
    made.command = command_line{false, {"true"}};
    return made;
  }

  void submit(std::vector<job_spec> specs) {
    anon_send(db, enqueue_atom_v, submission{std::move(specs), true});
    consume_messages();
  }

  job_record seen(std::int64_t job) {
    auto reader = open_sqlite_reader(file());
    CAF_REQUIRE(reader.has_value());
    auto record = (*reader)->job(job_id{job});
    CAF_REQUIRE(record.has_value());
    return *std::move(record);
  }

  std::int64_t figure(const char* name) {
    auto pending = ask(db, status_atom_v);
    consume_messages();
    return (*take<actor_status>(pending))[name].get<std::int64_t>();
  }

  static std::int64_t job_of(const grant_slot& slot) { return *slot && **slot ? (**slot)->key.job.value : 0; }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(hand_off_tests, fixture)

CAF_TEST(a job that comes while a worker waits is claimed in the commit of its submission) {
  const auto answer = ask_for_work("node/1", 7);
  const auto commits = figure("commits");
  submit({spec()});
  CAF_CHECK_EQUAL(job_of(answer), 1);
  CAF_CHECK_EQUAL(figure("commits"), commits + 1);
  CAF_CHECK_EQUAL(figure("handed_over"), 1);
  const auto job = seen(1);
  CAF_CHECK(job.state == job_state::running && job.worker == "node/1" && job.attempt == 1);
  CAF_CHECK_EQUAL(job.history.size(), 2u);
}

CAF_TEST(an offer is good for one job and a worker that asks again is lent again) {
  const auto first = ask_for_work("node/1", 7);
  anon_send(db, enqueue_atom_v, submission{{spec()}, true});
  submit({spec()}); // in the same commit
  CAF_CHECK_EQUAL(job_of(first), 1);
  CAF_CHECK(seen(2).state == job_state::queued);
  const auto second = ask_for_work("node/2", 8);
  CAF_CHECK_EQUAL(job_of(second), 2);
  const auto third = ask_for_work("node/3", 9);
  submit({spec()});
  CAF_CHECK_EQUAL(job_of(third), 3);
  CAF_CHECK_EQUAL(figure("handed_over"), 2);
}

CAF_TEST(a job that fits no offer waits as ever) {
  const auto answer = ask_for_work("node/1", 7, {"linux"});
  auto other = spec();
  other.labels = {"arm"};
  auto grouped = spec();
  grouped.group = "g";
  auto later = spec();
  later.run_at = noon + 1h;
  submit({other});
  CAF_CHECK(seen(1).state == job_state::queued);
  submit({later});
  CAF_CHECK(seen(2).state == job_state::scheduled);
  submit({grouped}); // by way of the dispatcher
  CAF_CHECK_EQUAL(job_of(answer), 3);
  CAF_CHECK_EQUAL(figure("handed_over"), 0);
}

CAF_TEST(no offer passes by a pause or by the slots that are free) {
  anon_send(testee, fleet_atom_v, fleet{1, {}});
  const auto first = ask_for_work("node/1", 7);
  const auto second = ask_for_work("node/2", 8);
  anon_send(db, pause_atom_v, std::string{"default"}, std::string{"a test"});
  submit({spec()});
  CAF_CHECK(seen(1).state == job_state::queued);
  anon_send(db, resume_atom_v, std::string{"default"});
  consume_messages();
  CAF_CHECK_EQUAL(job_of(first), 1);
  submit({spec()});
  CAF_CHECK(seen(2).state == job_state::queued);
  CAF_CHECK_EQUAL(job_of(second), 0);
}

CAF_TEST(a cordoned worker is lent no more) {
  const auto answer = ask_for_work("node/1", 7);
  anon_send(testee, fleet_atom_v, fleet{4, {"node/1"}});
  consume_messages();
  submit({spec()});
  CAF_CHECK_EQUAL(job_of(answer), 0);
  CAF_CHECK(seen(1).state == job_state::queued);
}

CAF_TEST(a dispatcher that dies with the notice loses nothing) {
  ask_for_work("node/1", 7);
  anon_send_exit(testee, caf::exit_reason::kill);
  consume_messages();
  submit({spec()}); // the offer of the dead dispatcher holds
  CAF_CHECK(seen(1).state == job_state::running);
  testee = sys.spawn<dispatcher>(db);
  consume_messages();
  const auto again = ask_for_work("node/1", 7, {}, true);
  CAF_CHECK_EQUAL(job_of(again), 1);
  CAF_CHECK_EQUAL(seen(1).attempt, 1);
}

CAF_TEST(a node that dies between commit and notice gives the job back without an attempt) {
  ask_for_work("node/1", 7);
  anon_send(db, enqueue_atom_v, submission{{spec()}, true});
  expect((enqueue_atom, submission), to(db));
  expect((flush_atom), to(db)); // committed; the notice has reached nobody
  stop();
  CAF_CHECK(seen(1).state == job_state::running);
  start();
  const auto job = seen(1);
  CAF_CHECK(job.state == job_state::queued && job.reason == job_reason::not_started);
  CAF_CHECK(job.attempt == 1 && job.uncounted == 1 && job.interrupts == 0);
  CAF_CHECK_EQUAL(job_of(ask_for_work("node/1", 8)), 1);
}

CAF_TEST(a node that dies before the commit has neither job nor claim) {
  ask_for_work("node/1", 7);
  anon_send(db, enqueue_atom_v, submission{{spec()}, true});
  expect((enqueue_atom, submission), to(db));
  die();
  auto reader = open_sqlite_reader(file());
  CAF_REQUIRE(reader.has_value());
  CAF_REQUIRE(!(*reader)->job(job_id{1}));
  CAF_CHECK((*reader)->job(job_id{1}).error().code == ec::not_found);
}

CAF_TEST(what a worker that went away was handed is given back) {
  ask_for_work("node/1", 7);
  anon_send(db, enqueue_atom_v, submission{{spec()}, true});
  expect((enqueue_atom, submission), to(db));
  anon_send_exit(holder, caf::exit_reason::kill);
  // The dispatcher hears of its end before it hears of the commit.
  CAF_REQUIRE(sched.prioritize(holder) && sched.try_run_once());
  CAF_REQUIRE(sched.prioritize(testee) && sched.try_run_once());
  consume_messages();
  CAF_CHECK(seen(1).state == job_state::queued);
  CAF_CHECK(seen(1).reason == job_reason::not_started);
  holder = new_holder();
  CAF_CHECK_EQUAL(job_of(ask_for_work("node/1", 8)), 1);
}

CAF_TEST(a grant on its way to a worker that ends in peace is given back) {
  ask_for_work("node/1", 7);
  submit({spec()});
  anon_send(holder, cancel_atom_v, attempt_key{}); // its way to end
  consume_messages();
  CAF_CHECK(seen(1).state == job_state::queued && seen(1).reason == job_reason::not_started);
  holder = new_holder();
  CAF_CHECK_EQUAL(job_of(ask_for_work("node/2", 8)), 1);
}

CAF_TEST(what a worker was granted that went away is ended when its successor asks) {
  ask_for_work("node/1", 7);
  submit({spec()});
  anon_send_exit(holder, caf::exit_reason::kill);
  consume_messages();
  holder = new_holder();
  // Whether it had begun to run, nobody knows here: until its processes are gone, nobody else may have the job.
  const auto other = ask_for_work("node/2", 8);
  CAF_CHECK(seen(1).state == job_state::running && seen(1).attempt == 1);
  ask_for_work("node/1", 9);
  CAF_CHECK_EQUAL(job_of(other), 1);
  CAF_CHECK(seen(1).state == job_state::running && seen(1).attempt == 2);
}

CAF_TEST(a worker that was handed one job while another was claimed for it gets one only) {
  auto held_back = spec();
  held_back.run_at = noon - 1h;
  const auto answer = ask_for_work("node/1", 7);
  // The dispatcher hears of a ready job and claims it; the database has handed another over meanwhile.
  ready_job ghost;
  ghost.id = job_id{2};
  ghost.project = ghost.queue = "default";
  for (auto i = 0; i < 2; ++i)
    anon_send(db, enqueue_atom_v, submission{{spec()}, true});
  expect((enqueue_atom, submission), to(db));
  expect((enqueue_atom, submission), to(db));
  anon_send(testee, ready_atom_v, ready_notice{1, {ghost}, {}, {}});
  consume_messages();
  CAF_CHECK_EQUAL(job_of(answer), 1);
  const auto running = (seen(1).state == job_state::running ? 1 : 0) + (seen(2).state == job_state::running ? 1 : 0);
  CAF_CHECK_EQUAL(running, 1);
}

CAF_TEST(an offer ends when its worker asks in the ordinary way) {
  const auto answer = ask_for_work("node/1", 7);
  auto grouped = spec(); // no hand-off: it becomes ready by way of the dispatcher
  grouped.group = "g";
  anon_send(db, enqueue_atom_v, submission{{grouped}, true});
  expect((enqueue_atom, submission), to(db));
  expect((flush_atom), to(db));
  consume_message(); // the notice: the dispatcher claims, and its newer offers are behind that
  anon_send(db, enqueue_atom_v, submission{{spec()}, true});
  consume_messages();
  CAF_CHECK_EQUAL(job_of(answer), 1);
  CAF_CHECK(seen(2).state == job_state::queued);
}

CAF_TEST(a worker elsewhere is handed a job by lease) {
  remote_request wanted;
  wanted.worker = "far";
  wanted.free = 3;
  wanted.capacity = 3;
  wanted.wait = 30s;
  const auto answer = ask_from_afar(wanted);
  submit({spec()});
  CAF_REQUIRE(*answer && **answer);
  CAF_REQUIRE_EQUAL((**answer)->granted.size(), 1u);
  const auto& grant = *(**answer)->granted[0];
  CAF_CHECK_EQUAL(grant.key.job.value, 1);
  CAF_CHECK_EQUAL(figure("handed_over"), 1);
  CAF_CHECK_EQUAL(figure("leases"), 1);
  auto store_keeps_it = seen(1);
  CAF_CHECK(store_keeps_it.worker == "far");
  stop();
  start(); // its lease outlives the node
  CAF_CHECK(seen(1).state == job_state::running);
  CAF_CHECK_EQUAL(figure("leases"), 1);
}

CAF_TEST(no job is handed past a heavy one that waits for the worker) {
  auto heavy = spec();
  heavy.queue = "y";
  heavy.weight = 3;
  auto light = heavy;
  light.weight = 1;
  submit({heavy});
  remote_request wanted;
  wanted.worker = "far";
  wanted.queues = {"y"};
  wanted.free = 1;
  wanted.capacity = 5;
  wanted.wait = 30s;
  const auto answer = ask_from_afar(wanted);
  submit({light});
  CAF_CHECK(!*answer);
  CAF_CHECK(seen(1).state == job_state::queued && seen(2).state == job_state::queued);
  // What it does not wait with is handed to it as ever.
  wanted.worker = "farther";
  wanted.queues = {"x"};
  const auto other = ask_from_afar(wanted);
  light.queue = "x";
  submit({light});
  CAF_CHECK(*other && seen(3).state == job_state::running);
  CAF_CHECK_EQUAL(figure("handed_over"), 1);
}

CAF_TEST(jobs of one submission are handed out in their order) {
  anon_send(testee, fleet_atom_v, fleet{2, {}});
  submit({spec()});
  CAF_REQUIRE_EQUAL(job_of(ask_for_work("node/1", 7)), 1);
  ask_for_work("node/2", 8);
  auto heavy = spec();
  heavy.weight = 2;
  submit({heavy, spec()}); // one slot is free
  CAF_CHECK(seen(2).state == job_state::queued && seen(3).state == job_state::queued);
  submit({spec()});
  CAF_CHECK(seen(4).state == job_state::queued);
}

CAF_TEST(the most urgent job of a submission goes first) {
  const auto answer = ask_for_work("node/1", 7);
  auto low = spec();
  low.priority = -100;
  auto high = spec();
  high.priority = 100;
  submit({low, high});
  CAF_CHECK_EQUAL(job_of(answer), 2);
}

CAF_TEST(projects of a submission take turns) {
  auto first = spec();
  first.project = "a";
  auto other = spec();
  other.project = "b";
  ask_for_work("node/1", 7);
  ask_for_work("node/2", 8);
  submit({first, first, first, other});
  CAF_CHECK(seen(1).state == job_state::running && seen(4).state == job_state::running);
}

CAF_TEST(a job is not handed past one of the same commit that waits) {
  anon_send(testee, fleet_atom_v, fleet{2, {}});
  submit({spec()});
  CAF_REQUIRE_EQUAL(job_of(ask_for_work("node/1", 7)), 1);
  ask_for_work("node/2", 8);
  auto heavy = spec();
  heavy.weight = 2;
  anon_send(db, enqueue_atom_v, submission{{heavy}, true});
  submit({spec()});
  CAF_CHECK(seen(2).state == job_state::queued && seen(3).state == job_state::queued);
}

CAF_TEST(a job is not handed past one of a group in the same submission) {
  const auto answer = ask_for_work("node/1", 7);
  auto grouped = spec();
  grouped.group = "g";
  submit({grouped, spec()});
  CAF_CHECK_EQUAL(job_of(answer), 1);
}

CAF_TEST(several jobs for a worker elsewhere are claimed in one commit) {
  submit({spec(), spec(), spec()});
  const auto commits = figure("commits");
  remote_request wanted;
  wanted.worker = "far";
  wanted.free = 2;
  wanted.capacity = 2;
  const auto answer = ask_from_afar(wanted);
  CAF_REQUIRE(*answer && **answer);
  CAF_CHECK_EQUAL((**answer)->granted.size(), 2u);
  CAF_CHECK_EQUAL(figure("commits"), commits + 1);
  const auto none = ask_from_afar(remote_request{"other", {}, {"night"}, 1, 1});
  CAF_REQUIRE(*none && **none);
  CAF_CHECK((**none)->granted.empty());
}

CAF_TEST(what a worker elsewhere holds counts for fair share until it ends) {
  auto many = spec();
  many.project = "many";
  submit({many, many, many, spec()});
  remote_request wanted;
  wanted.worker = "far";
  wanted.free = wanted.capacity = 1;
  const auto first = ask_from_afar(wanted);
  CAF_CHECK_EQUAL((**first)->granted[0]->key.job.value, 1);
  CAF_CHECK_EQUAL(job_of(ask_for_work("node/1", 7)), 4); // the other project's turn
  attempt_result done;
  done.key = {job_id{1}, 1};
  done.nonce = (**first)->granted[0]->nonce;
  done.exit_code = 0;
  wanted.ended = {done};
  const auto second = ask_from_afar(wanted);
  CAF_REQUIRE((**second)->ended[0].has_value());
  CAF_CHECK_EQUAL((**second)->granted[0]->key.job.value, 2);
  CAF_CHECK(seen(1).state == job_state::succeeded);
}

CAF_TEST_FIXTURE_SCOPE_END()
