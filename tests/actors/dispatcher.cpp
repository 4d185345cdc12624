#define CAF_SUITE dispatcher
#include "actors/dispatcher/dispatcher.hpp"

#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/fake_database.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

class fake_holder : public attempt_holder_actor::base {
public:
  fake_holder(caf::actor_config& cfg, std::shared_ptr<std::vector<attempt_key>> cancels)
    : attempt_holder_actor::base{cfg}, cancels_{std::move(cancels)} {}

  behavior_type make_behavior() override {
    return {[this](cancel_atom, attempt_key key) { cancels_->push_back(key); }};
  }

private:
  std::shared_ptr<std::vector<attempt_key>> cancels_;
};

ready_job job(std::int64_t id, std::string project = "p", std::vector<std::string> labels = {}) {
  return {{id}, id, 1, std::move(project), "default", std::move(labels)};
}

job_grant grant_of(std::int64_t id, std::int32_t attempt = 1, const std::string& project = "p") {
  job_grant grant;
  grant.key = {{id}, attempt};
  grant.spec.project = project;
  return grant;
}

/// What a worker got for its question; empty while it waits.
using answer_slot = std::shared_ptr<std::optional<expected<job_grant>>>;

struct fixture : actor_fixture {
  std::shared_ptr<database_record> database = std::make_shared<database_record>();
  database_actor database_handle = sys.spawn<fake_database>(database);
  std::shared_ptr<std::vector<attempt_key>> cancels = std::make_shared<std::vector<attempt_key>>();
  attempt_holder_actor holder = sys.spawn<fake_holder>(cancels);
  dispatcher_actor testee;

  ~fixture() override {
    for (const auto& each : std::vector<caf::actor_addr>{testee.address(), holder.address(), database_handle.address()})
      caf::anon_send_exit(each, caf::exit_reason::kill);
    settle();
  }

  void settle() { consume_messages(); }

  void pass(std::chrono::milliseconds span) {
    advance_time(span);
    settle();
  }

  void start(std::vector<ready_job> jobs = {}, std::uint64_t number = 0, dispatcher_options options = {}) {
    testee = sys.spawn<dispatcher>(database_handle, options);
    settle();
    CAF_REQUIRE_EQUAL(database->subscriptions.size(), 1u);
    next(database->subscriptions).answer(ready_snapshot{number, {std::move(jobs), {}, false}, {}, {}});
    settle();
  }

  answer_slot ask_for_work(std::string worker, std::uint64_t nonce, std::vector<std::string> labels = {},
                           bool repeat = false) {
    auto slot = std::make_shared<std::optional<expected<job_grant>>>();
    work_request wanted{std::move(worker), std::move(labels), nonce, repeat};
    sys.spawn([slot, wanted, to = testee, from = holder](caf::event_based_actor* asker) {
      asker->request(to, caf::infinite, claim_atom_v, wanted, from)
        .then([slot](expected<job_grant>& answer) { *slot = std::move(answer); },
              [slot](caf::error& why) {
                *slot = error{ec::internal, caf::to_string(why), {}};
              });
    });
    settle();
    return slot;
  }

  /// Waits there until the end of the test.
  void ask_from_afar(remote_request wanted) {
    wanted.wait = 1h;
    sys.spawn([wanted, to = testee](caf::event_based_actor* asker) {
      asker->request(to, caf::infinite, exchange_atom_v, wanted)
        .then([](const expected<exchange_result>&) {}, [](const caf::error&) {});
    });
    settle();
  }

  std::uint64_t looked_at() {
    auto pending = ask(testee, status_atom_v);
    settle();
    return (*take<actor_status>(pending))["kinds_looked_at"].get<std::uint64_t>();
  }

  dispatch_view why(std::int64_t id) {
    auto pending = ask(testee, why_atom_v, job_id{id});
    settle();
    return *take<dispatch_view>(pending);
  }

  void tell(ready_notice notice) {
    caf::anon_send(testee, ready_atom_v, std::move(notice));
    settle();
  }

  /// Answers the oldest open claim.
  template <class Reply>
  claim_request answer_claim(Reply reply) {
    CAF_REQUIRE(!database->claims.empty());
    auto claim = next(database->claims);
    claim.answer(std::move(reply));
    settle();
    return claim.asked;
  }

  std::string granted(const answer_slot& slot) {
    if (!*slot)
      return "waits";
    if (!**slot)
      return std::string{to_string((*slot)->error().code)};
    return "job " + std::to_string((**slot)->key.job.value) + "/" + std::to_string((**slot)->key.attempt);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(dispatcher_tests, fixture)

CAF_TEST(a worker is answered only when its claim is committed) {
  start({job(5)});
  const auto answer = ask_for_work("node/1", 42);
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  CAF_CHECK_EQUAL(granted(answer), "waits");
  const auto asked = answer_claim(expected<job_grant>{grant_of(5)});
  CAF_CHECK_EQUAL(asked.job.value, 5);
  CAF_CHECK_EQUAL(asked.worker, "node/1");
  CAF_CHECK_EQUAL(asked.nonce, 42u);
  CAF_CHECK_EQUAL(granted(answer), "job 5/1");
}

CAF_TEST(a waiting worker gets a job when one becomes ready) {
  start();
  const auto answer = ask_for_work("node/1", 1);
  CAF_CHECK(database->claims.empty());
  tell({1, {job(7)}, {}, {}});
  answer_claim(expected<job_grant>{grant_of(7)});
  CAF_CHECK_EQUAL(granted(answer), "job 7/1");
}

CAF_TEST(a job goes to a worker that has its labels) {
  start();
  const auto plain = ask_for_work("node/1", 1, {"linux"});
  const auto strong = ask_for_work("node/2", 2, {"linux", "gpu"});
  tell({1, {job(7, "p", {"gpu"})}, {}, {}});
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  answer_claim(expected<job_grant>{grant_of(7)});
  CAF_CHECK_EQUAL(granted(plain), "waits");
  CAF_CHECK_EQUAL(granted(strong), "job 7/1");
}

CAF_TEST(a job that was taken by somebody else is dropped and the next one is claimed) {
  start({job(1), job(2)});
  const auto answer = ask_for_work("node/1", 9);
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{error{ec::not_ready, "gone", {}}}).job.value, 1);
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(2)}).job.value, 2);
  CAF_CHECK_EQUAL(granted(answer), "job 2/1");
}

CAF_TEST(a claim whose answer is lost is asked again with its nonce and its job goes to nobody else) {
  start({job(1)});
  const auto first = ask_for_work("node/1", 11);
  const auto second = ask_for_work("node/2", 22);
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  database->claims.clear();
  pass(10s); // the request's time limit
  pass(250ms);
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  const auto asked = answer_claim(expected<job_grant>{grant_of(1)});
  CAF_CHECK_EQUAL(asked.nonce, 11u);
  CAF_CHECK_EQUAL(asked.job.value, 1);
  CAF_CHECK_EQUAL(granted(first), "job 1/1");
  CAF_CHECK_EQUAL(granted(second), "waits");
}

CAF_TEST(an unknown outcome told by the database is asked again as well) {
  start({job(1)});
  const auto answer = ask_for_work("node/1", 11);
  answer_claim(expected<job_grant>{error{ec::outcome_unknown, "closed", {}}});
  CAF_CHECK(database->claims.empty());
  pass(250ms);
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(1)}).nonce, 11u);
  CAF_CHECK_EQUAL(granted(answer), "job 1/1");
}

CAF_TEST(a claim that the storage refuses leaves job and worker waiting) {
  start({job(1)});
  const auto answer = ask_for_work("node/1", 11);
  answer_claim(expected<job_grant>{error{ec::storage_full, "disk full", {}}});
  CAF_CHECK(database->claims.empty()); // not at once: the disk is full for a while
  CAF_CHECK_EQUAL(granted(answer), "waits");
  pass(250ms);
  answer_claim(expected<job_grant>{grant_of(1)});
  CAF_CHECK_EQUAL(granted(answer), "job 1/1");
}

CAF_TEST(a worker that asks again replaces its older question) {
  start();
  const auto older = ask_for_work("node/1", 5);
  const auto newer = ask_for_work("node/1", 5, {}, true);
  CAF_CHECK_EQUAL(granted(older), "timeout");
  tell({1, {job(3)}, {}, {}});
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  answer_claim(expected<job_grant>{grant_of(3)});
  CAF_CHECK_EQUAL(granted(newer), "job 3/1");
}

CAF_TEST(a worker that asks again while its claim is open gets the answer of that claim) {
  start({job(3)});
  const auto older = ask_for_work("node/1", 5);
  const auto newer = ask_for_work("node/1", 5, {}, true);
  CAF_CHECK_EQUAL(database->claims.size(), 1u);
  answer_claim(expected<job_grant>{grant_of(3)});
  CAF_CHECK_EQUAL(granted(older), "timeout");
  CAF_CHECK_EQUAL(granted(newer), "job 3/1");
}

CAF_TEST(a worker that lost the answer gets the same grant again) {
  start({job(3), job(4)});
  ask_for_work("node/1", 5);
  answer_claim(expected<job_grant>{grant_of(3)});
  const auto again = ask_for_work("node/1", 5, {}, true);
  CAF_CHECK_EQUAL(granted(again), "job 3/1");
  CAF_CHECK(database->claims.empty());
}

CAF_TEST(a new dispatcher asks the database for the grant of a repeated question) {
  start({job(4)});
  const auto answer = ask_for_work("node/1", 5, {}, true);
  const auto asked = answer_claim(expected<job_grant>{grant_of(3)});
  CAF_CHECK_EQUAL(asked.job.value, 0);
  CAF_CHECK_EQUAL(asked.nonce, 5u);
  CAF_CHECK_EQUAL(granted(answer), "job 3/1");
}

CAF_TEST(a repeated question without an earlier grant waits like a new one) {
  start({job(4)});
  const auto answer = ask_for_work("node/1", 5, {}, true);
  answer_claim(expected<job_grant>{error{ec::not_ready, "no grant", {}}});
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(4)}).job.value, 4);
  CAF_CHECK_EQUAL(granted(answer), "job 4/1");
}

CAF_TEST(a grant for a worker that went away is given back) {
  start({job(3)});
  ask_for_work("node/1", 5);
  caf::anon_send_exit(holder, caf::exit_reason::kill);
  settle();
  answer_claim(expected<job_grant>{grant_of(3)});
  CAF_REQUIRE_EQUAL(database->completions.size(), 1u);
  auto given_back = next(database->completions);
  CAF_CHECK(given_back.asked.key == (attempt_key{{3}, 1}));
  CAF_CHECK(given_back.asked.outcome == attempt_outcome::not_started);
  // The database does not answer: told again until it does.
  given_back.answer(error{ec::storage_busy, "busy", {}});
  settle();
  pass(250ms);
  CAF_REQUIRE_EQUAL(database->completions.size(), 1u);
  next(database->completions).answer(transition_result{});
  settle();
  pass(10s);
  CAF_CHECK(database->completions.empty());
}

CAF_TEST(the worker of a cancelled job is told) {
  start({job(3)});
  ask_for_work("node/1", 5);
  answer_claim(expected<job_grant>{grant_of(3)});
  tell({1, {}, {}, {{{3}, 1}}});
  CAF_REQUIRE_EQUAL(cancels->size(), 1u);
  CAF_CHECK(cancels->front() == (attempt_key{{3}, 1}));
}

CAF_TEST(a cancel that overtakes the grant reaches the worker once it is known) {
  start({job(3)});
  const auto answer = ask_for_work("node/1", 5);
  tell({1, {}, {{3}}, {{{3}, 1}}});
  CAF_CHECK(cancels->empty());
  answer_claim(expected<job_grant>{grant_of(3)});
  CAF_CHECK_EQUAL(granted(answer), "job 3/1");
  CAF_REQUIRE_EQUAL(cancels->size(), 1u);
}

CAF_TEST(a cancel that a dispatcher missed is in the next snapshot and waits for the worker to be known) {
  testee = sys.spawn<dispatcher>(database_handle, dispatcher_options{});
  settle();
  next(database->subscriptions).answer(ready_snapshot{8, {}, {{{3}, 2}}, {}});
  settle();
  CAF_CHECK(cancels->empty());
  caf::anon_send(testee, register_atom_v, held_attempt{{{3}, 2}, "node/1", "p", 1}, holder);
  settle();
  CAF_REQUIRE_EQUAL(cancels->size(), 1u);
  CAF_CHECK(cancels->front() == (attempt_key{{3}, 2}));
}

CAF_TEST(start step and completion are passed on to the database) {
  start({job(3)});
  ask_for_work("node/1", 5);
  answer_claim(expected<job_grant>{grant_of(3)});
  const attempt_key key{{3}, 1};
  auto started = ask(testee, start_atom_v, key);
  caf::anon_send(testee, step_atom_v, key, step_record{});
  attempt_result result;
  result.key = key;
  auto completed = ask(testee, complete_atom_v, result);
  settle();
  CAF_CHECK_EQUAL(database->steps.size(), 1u);
  CAF_REQUIRE_EQUAL(database->starts.size(), 1u);
  CAF_REQUIRE_EQUAL(database->completions.size(), 1u);
  next(database->starts).answer(error{ec::stale_attempt, "not yours", {}});
  settle();
  const auto start_answer = take<outcome>(started);
  CAF_REQUIRE(start_answer.has_value());
  CAF_CHECK(!start_answer->has_value());
  next(database->completions).answer(transition_result{});
  settle();
  CAF_CHECK(take<expected<transition_result>>(completed).has_value());
}

CAF_TEST(a gap in the notices makes it read the ready jobs anew) {
  start({}, 4);
  const auto answer = ask_for_work("node/1", 5);
  tell({6, {job(9)}, {}, {}}); // number 5 is missing
  CAF_CHECK(database->claims.empty());
  CAF_REQUIRE_EQUAL(database->subscriptions.size(), 1u);
  next(database->subscriptions).answer(ready_snapshot{6, {{job(8), job(9)}, {}, false}, {}, {}});
  settle();
  // It was lent, and the missing notice may have told what it was handed.
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{error{ec::not_ready, "holds none", {}}}).job.value, 0);
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(8)}).job.value, 8);
  CAF_CHECK_EQUAL(granted(answer), "job 8/1");
}

CAF_TEST(notices that come before the snapshot are heard when they are newer) {
  testee = sys.spawn<dispatcher>(database_handle, dispatcher_options{});
  settle();
  tell({3, {job(1)}, {}, {}});
  tell({4, {job(2)}, {}, {}});
  next(database->subscriptions).answer(ready_snapshot{3, {}, {}, {}});
  settle();
  ask_for_work("node/1", 5);
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  CAF_CHECK_EQUAL(next(database->claims).asked.job.value, 2);
}

CAF_TEST(a snapshot does not bring back a job whose claim is open) {
  start({job(3)});
  ask_for_work("node/1", 5);
  tell({7, {}, {}, {}});
  CAF_REQUIRE_EQUAL(database->subscriptions.size(), 1u);
  next(database->subscriptions).answer(ready_snapshot{7, {{job(3)}, {}, false}, {}, {}});
  settle();
  ask_for_work("node/2", 6);
  CAF_CHECK_EQUAL(database->claims.size(), 1u);
}

CAF_TEST(a database that cannot be subscribed to is asked again) {
  testee = sys.spawn<dispatcher>(database_handle, dispatcher_options{});
  settle();
  next(database->subscriptions).answer(error{ec::storage_busy, "busy", {}});
  settle();
  CAF_CHECK(database->subscriptions.empty());
  pass(250ms);
  CAF_CHECK_EQUAL(database->subscriptions.size(), 1u);
}

CAF_TEST(with a new database open claims are asked again and the ready jobs are read anew) {
  start({job(3)});
  const auto answer = ask_for_work("node/1", 5);
  auto fresh = std::make_shared<database_record>();
  const database_actor restarted = sys.spawn<fake_database>(fresh);
  caf::anon_send_exit(database_handle, caf::exit_reason::kill);
  settle();
  database->claims.clear();
  caf::anon_send(testee, rewire_atom_v, restarted);
  settle();
  pass(10s);
  pass(250ms);
  database_handle = restarted;
  database = fresh;
  CAF_CHECK(!database->subscriptions.empty());
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(3)}).nonce, 5u);
  CAF_CHECK_EQUAL(granted(answer), "job 3/1");
}

CAF_TEST(a window that was cut is filled again from where it ends) {
  testee = sys.spawn<dispatcher>(database_handle, dispatcher_options{.window = 4});
  settle();
  next(database->subscriptions).answer(ready_snapshot{2, {{job(1), job(2)}, {job(2)}, false}, {}, {}});
  settle();
  ask_for_work("node/1", 1);
  answer_claim(expected<job_grant>{grant_of(1)});
  CAF_REQUIRE_EQUAL(database->refills.size(), 1u);
  auto refill = next(database->refills);
  CAF_CHECK_EQUAL(refill.asked.id.value, 2);
  refill.answer(ready_snapshot{2, {{job(3)}, {}, false}, {}, {}});
  settle();
  ask_for_work("node/2", 2);
  ask_for_work("node/3", 3);
  CAF_REQUIRE_EQUAL(database->claims.size(), 2u);
  CAF_CHECK_EQUAL(next(database->claims).asked.job.value, 2);
  CAF_CHECK_EQUAL(next(database->claims).asked.job.value, 3);
}

CAF_TEST(lanes that a snapshot left out are read when few jobs are left and when their turn comes) {
  testee = sys.spawn<dispatcher>(database_handle, dispatcher_options{});
  settle();
  next(database->subscriptions).answer(ready_snapshot{0, {{job(1, "p"), job(2, "q")}, {}, true}, {}, {}});
  settle();
  ask_for_work("node/1", 1);
  CAF_CHECK(database->subscriptions.empty());
  ask_for_work("node/2", 2);
  answer_claim(expected<job_grant>{grant_of(1)});
  CAF_REQUIRE_EQUAL(database->subscriptions.size(), 1u);
  next(database->subscriptions).answer(ready_snapshot{0, {{job(3, "r", {"gpu"})}, {}, true}, {}, {}});
  settle();
  const auto answer = ask_for_work("node/3", 3);
  CAF_CHECK(database->subscriptions.empty());
  CAF_CHECK(database->offers.empty() || database->offers.back().offers.empty());
  pass(10s);
  CAF_REQUIRE_EQUAL(database->subscriptions.size(), 1u);
  database->claims.clear();
  next(database->subscriptions).answer(ready_snapshot{0, {{job(4, "s")}, {}, false}, {}, {}});
  settle();
  answer_claim(expected<job_grant>{grant_of(4)});
  CAF_CHECK_EQUAL(granted(answer), "job 4/1");
  pass(20s);
  CAF_CHECK(database->subscriptions.empty());
}

CAF_TEST(the job of a cordoned worker takes no slot of the others) {
  start({job(1), job(2)});
  caf::anon_send(testee, fleet_atom_v, fleet{2, {}});
  ask_for_work("node/1", 1);
  answer_claim(expected<job_grant>{grant_of(1)});
  caf::anon_send(testee, fleet_atom_v, fleet{1, {"node/1"}});
  settle();
  ask_for_work("node/2", 2);
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(2)}).job.value, 2);
}

CAF_TEST(what a heavy job of a cordoned worker fills of the others stays filled) {
  auto heavy = job(1);
  heavy.weight = 2;
  auto grant = grant_of(1);
  grant.spec.weight = 2;
  start({heavy, job(2)});
  caf::anon_send(testee, fleet_atom_v, fleet{2, {}});
  ask_for_work("node/1", 1);
  answer_claim(expected<job_grant>{grant});
  caf::anon_send(testee, fleet_atom_v, fleet{1, {"node/1"}});
  settle();
  ask_for_work("node/2", 2);
  CAF_CHECK(database->claims.empty());
}

CAF_TEST(a claim tells the labels of the worker) {
  start({job(1)});
  ask_for_work("node/1", 1, {"linux", "gpu"});
  const auto asked = answer_claim(expected<job_grant>{grant_of(1)});
  CAF_CHECK(asked.labels == (std::vector<std::string>{"gpu", "linux"}));
  ask_from_afar({"far", {"b", "a"}, {}, 1, 1});
  tell({1, {job(2)}, {}, {}});
  CAF_REQUIRE_EQUAL(database->exchanges.size(), 1u);
  CAF_CHECK(database->exchanges.front().asked.wanted[0].labels == (std::vector<std::string>{"a", "b"}));
}

CAF_TEST(a job whose labels change while it is claimed is ready with the new ones) {
  start({job(1)});
  ask_for_work("node/1", 1);
  tell({1, {job(1, "p", {"gpu"})}, {}, {}});
  answer_claim(expected<job_grant>{error{ec::not_ready, "no", {}}});
  CAF_CHECK(database->claims.empty());
  ask_for_work("node/2", 2, {"gpu"});
  tell({2, {job(1, "p", {"arm"})}, {}, {}});
  answer_claim(expected<job_grant>{error{ec::storage_full, "no", {}}});
  pass(250ms);
  CAF_CHECK(database->claims.empty());
  const auto answer = ask_for_work("node/3", 3, {"arm"});
  answer_claim(expected<job_grant>{grant_of(1)});
  CAF_CHECK_EQUAL(granted(answer), "job 1/1");
}

CAF_TEST(a project that holds slots lets another go first) {
  start({job(1, "many"), job(2, "many"), job(3, "one")});
  ask_for_work("node/1", 1);
  answer_claim(expected<job_grant>{grant_of(1, 1, "many")});
  ask_for_work("node/2", 2);
  CAF_REQUIRE_EQUAL(database->claims.size(), 1u);
  CAF_CHECK_EQUAL(next(database->claims).asked.job.value, 3);
}

CAF_TEST(a draining dispatcher answers everybody and gives back what is granted late) {
  start({job(1)});
  const auto claiming = ask_for_work("node/1", 1);
  const auto waiting = ask_for_work("node/2", 2);
  caf::anon_send(testee, drain_atom_v);
  settle();
  CAF_CHECK_EQUAL(granted(claiming), "draining");
  CAF_CHECK_EQUAL(granted(waiting), "draining");
  answer_claim(expected<job_grant>{grant_of(1)});
  CAF_REQUIRE_EQUAL(database->completions.size(), 1u);
  CAF_CHECK(database->completions.front().asked.outcome == attempt_outcome::not_started);
  tell({1, {job(2)}, {}, {}});
  CAF_CHECK_EQUAL(granted(ask_for_work("node/2", 3)), "draining");
  CAF_CHECK(database->claims.empty());
}

CAF_TEST(only idle workers that could take the job count for why) {
  start();
  caf::anon_send(testee, fleet_atom_v, fleet{2, {"node/1"}});
  ask_for_work("node/1", 1);
  ask_from_afar({"far", {}, {"other"}, 1, 1});
  tell({1, {job(1)}, {}, {}});
  const auto cordoned = why(1);
  CAF_CHECK_EQUAL(cordoned.workers, 2);
  CAF_CHECK_EQUAL(cordoned.idle_workers, 0);
  CAF_CHECK_EQUAL(cordoned.free, 0);
  auto heavy = job(2);
  heavy.weight = 3;
  heavy.queue = "heavy";
  ask_from_afar({"small", {}, {"heavy"}, 1, 5});
  tell({2, {heavy}, {}, {}});
  const auto small = why(2);
  CAF_CHECK_EQUAL(small.idle_workers, 0);
  CAF_CHECK_EQUAL(small.free, 1);
  CAF_CHECK_EQUAL(small.capacity, 5);
  auto light = heavy;
  light.id = job_id{3};
  light.order_key = 3;
  light.weight = 1;
  tell({3, {light}, {}, {}});
  CAF_CHECK_EQUAL(why(3).idle_workers, 1); // after the heavy one
  CAF_CHECK(why(3).position > 1);
}

CAF_TEST(a job has its position also while there is no worker) {
  start({job(1), job(2)});
  const auto first = why(1);
  CAF_CHECK_EQUAL(first.workers, 0);
  CAF_CHECK_EQUAL(first.position.value_or(0), 1);
  CAF_CHECK_EQUAL(why(2).position.value_or(0), 2);
}

CAF_TEST(a worker that is busy counts for the labels of a job and one without them does not) {
  start({job(1, "p", {"arm"})});
  ask_for_work("node/1", 1, {"arm"});
  answer_claim(expected<job_grant>{grant_of(1)});
  ask_from_afar({"plain", {}, {}, 1, 1});
  tell({1, {job(2, "p", {"arm"})}, {}, {}});
  const auto view = why(2);
  CAF_CHECK(view.missing_labels.empty());
  CAF_CHECK_EQUAL(view.idle_workers, 0);
  CAF_CHECK_EQUAL(view.free, 0);
}

CAF_TEST(a claim of many jobs in very many queues gets some of them rather than block) {
  constexpr std::int64_t queues = 40'000;
  std::vector<ready_job> many;
  for (std::int64_t id = 1; id <= queues; ++id) {
    many.push_back(job(id));
    many.back().queue = "q" + std::to_string(id);
  }
  start(many);
  ask_from_afar({"far", {}, {}, 1'000, 1'000});
  CAF_REQUIRE_EQUAL(database->exchanges.size(), 1u);
  const auto taken = database->exchanges.front().asked.wanted.size();
  CAF_CHECK_GREATER(taken, 0u);
  CAF_CHECK_LESS(taken, 10u);
}

CAF_TEST(who waits is asked again only when something comes for it) {
  std::vector<ready_job> many;
  for (std::int64_t id = 1; id <= 100; ++id) {
    many.push_back(job(id, "p", {"gpu"}));
    many.back().queue = "q" + std::to_string(id);
  }
  start(many);
  const auto plain = ask_for_work("node/1", 1);
  for (auto i = 0; i < 10; ++i)
    ask_from_afar({"far" + std::to_string(i), {}, {}, 1, 1});
  const auto before = looked_at();
  tell({1, {job(200, "p", {"arm"})}, {}, {}});
  tell({2, {}, {job_id{200}}, {}});
  CAF_CHECK_EQUAL(looked_at(), before);
  tell({3, {job(201)}, {}, {}});
  CAF_CHECK_EQUAL(looked_at(), before + 101 + 10 * 100);
  CAF_CHECK_EQUAL(answer_claim(expected<job_grant>{grant_of(201)}).job.value, 201);
  CAF_CHECK_EQUAL(granted(plain), "job 201/1");
  CAF_CHECK(database->exchanges.empty());
}

CAF_TEST(a worker that was cordoned when a job came gets it when it is uncordoned) {
  start();
  ask_for_work("node/1", 1);
  caf::anon_send(testee, fleet_atom_v, fleet{2, {"node/1"}});
  tell({1, {job(1)}, {}, {}});
  CAF_CHECK(database->claims.empty());
  caf::anon_send(testee, fleet_atom_v, fleet{2, {}});
  settle();
  CAF_CHECK_EQUAL(database->claims.size(), 1u);
}

CAF_TEST(a claim that failed hears of the job that came meanwhile) {
  start({job(1)});
  const auto answer = ask_for_work("node/1", 1);
  tell({1, {job(2)}, {}, {}});
  answer_claim(expected<job_grant>{error{ec::not_ready, "gone", {}}});
  answer_claim(expected<job_grant>{grant_of(2)});
  CAF_CHECK_EQUAL(granted(answer), "job 2/1");
  remote_request many{"far", {}, {}, 5, 5};
  ask_from_afar(many);
  tell({2, {job(3)}, {}, {}});
  CAF_REQUIRE_EQUAL(database->exchanges.size(), 1u);
  tell({3, {job(4)}, {}, {}}); // while its claim is open
  exchange_result lost;
  lost.granted.emplace_back(error{ec::not_ready, "gone", {}});
  next(database->exchanges).answer(std::move(lost));
  settle();
  CAF_REQUIRE_EQUAL(database->exchanges.size(), 1u);
  const auto again = next(database->exchanges);
  CAF_CHECK_EQUAL(again.asked.wanted[0].job.value, 4);
}

CAF_TEST(a dispatcher that fails answers the open questions) {
  start({job(1)});
  const auto claiming = ask_for_work("node/1", 1);
  const auto waiting = ask_for_work("node/2", 2);
  caf::anon_send(testee, fault_atom_v, std::string{"test"});
  settle();
  CAF_CHECK_EQUAL(granted(claiming), "timeout");
  CAF_CHECK_EQUAL(granted(waiting), "timeout");
}

CAF_TEST_FIXTURE_SCOPE_END()
