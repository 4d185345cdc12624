#define CAF_SUITE database

#include "actors/database/database.hpp"

#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/scripted_store.hpp"

#include <algorithm>

using namespace kcx;
using namespace kcx::test;

namespace {

using jobs_reply = expected<accepted_jobs>;

submission some_jobs(std::size_t count) {
  return {std::vector<job_spec>(count), true};
}

struct listener_state {
  std::vector<job_change> changes;
};

struct fixture : actor_fixture {
  store_script script;
  timestamp clock{std::chrono::milliseconds{1'000'000}};
  bool room = true;
  /// Whether the script tells of the reserve.
  bool note_room = false;
  database_actor db = start();

  database_actor start() {
    database_options options;
    options.clock = [this] { return clock; };
    options.admit = [this](std::int64_t) -> outcome {
      return room ? outcome{kcx::done{}} : outcome{error{ec::storage_full, "no room", {}}};
    };
    options.make_room = [this](std::int64_t needed, bool refused) {
      CAF_CHECK_GREATER(needed, 0);
      if (note_room)
        script.calls.emplace_back(refused ? "room after" : "room before");
      return refused;
    };
    return sys.spawn<database>(std::make_unique<scripted_store>(script), options);
  }

  auto enqueue(std::size_t count = 1) { return ask(db, enqueue_atom_v, some_jobs(count)); }

  ~fixture() override {
    anon_send_exit(db, caf::exit_reason::user_shutdown);
    run();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(database_tests, fixture)

CAF_TEST(an answer comes after the commit and not before) {
  auto pending = enqueue();
  expect((enqueue_atom, submission), from(self).to(db));
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"submit"}));
  CAF_CHECK(!take<jobs_reply>(pending));
  expect((flush_atom), to(db));
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"submit", "commit"}));
  const auto reply = take<jobs_reply>(pending);
  CAF_REQUIRE(reply && *reply);
  CAF_CHECK_EQUAL((*reply)->jobs.front().id.value, 1);
}

CAF_TEST(what waits in the mailbox shares one commit) {
  auto first = enqueue();
  auto second = enqueue(2);
  auto third = ask(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  run();
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"submit", "submit", "claim", "commit"}));
  CAF_CHECK(take<jobs_reply>(first)->has_value());
  CAF_CHECK((*take<jobs_reply>(second))->jobs.size() == 2u);
  CAF_CHECK(take<expected<job_grant>>(third)->has_value());
}

CAF_TEST(a start makes no commit but joins the next one) {
  auto started = ask(db, start_atom_v, attempt_key{job_id{1}, 1});
  consume_messages();
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"confirm_start"}));
  auto next = enqueue();
  consume_messages();
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"confirm_start", "submit", "commit"}));
  CAF_CHECK(take<outcome>(started)->has_value());
  CAF_CHECK(take<jobs_reply>(next)->has_value());
}

CAF_TEST(a start is committed soon though nothing else is written) {
  auto started = ask(db, start_atom_v, attempt_key{job_id{1}, 1});
  consume_messages();
  CAF_CHECK(!take<outcome>(started));
  advance_time(database_options{}.patience);
  consume_messages();
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"confirm_start", "commit"}));
  CAF_CHECK(take<outcome>(started)->has_value());
}

CAF_TEST(a retry is new work for which there must be room) {
  room = false;
  auto refused = ask(db, retry_atom_v, retry_request{job_id{1}, {}, retry_what::any_final});
  run();
  CAF_CHECK(take<expected<job_record>>(refused)->error().code == ec::storage_full);
  CAF_CHECK(script.calls.empty());
}

CAF_TEST(room is made before a commit and after one that a full disk refused) {
  note_room = true;
  script.fail_commit = error{ec::storage_full, "scripted", {}};
  auto refused = ask(db, cancel_atom_v, job_id{1}, std::string{"me"});
  run();
  CAF_CHECK(!take<expected<transition_result>>(refused)->has_value());
  auto done = ask(db, cancel_atom_v, job_id{1}, std::string{"me"});
  run();
  CAF_CHECK(take<expected<transition_result>>(done)->has_value());
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"cancel", "room before", "commit", "rollback", "room after",
                                                          "cancel", "room before", "commit"}));
}

CAF_TEST(the log is copied into the file before it grows long) {
  const auto commit = [this](std::size_t jobs) {
    auto pending = enqueue(jobs);
    run();
    CAF_CHECK(take<jobs_reply>(pending)->has_value());
  };
  const auto checkpoints = [this] { return std::ranges::count(script.calls, "checkpoint"); };
  for (int commits = 1; commits < 64; ++commits)
    commit(1);
  CAF_CHECK_EQUAL(checkpoints(), 0);
  commit(1);
  CAF_CHECK_EQUAL(checkpoints(), 1);
  commit(1'024);
  CAF_CHECK_EQUAL(checkpoints(), 2);
}

CAF_TEST(one failing operation fails alone) {
  script.spared_operations = 1;
  auto first = enqueue();
  script.fail_operation = error{ec::storage_failed, "scripted", {}};
  auto second = enqueue();
  run();
  CAF_CHECK(take<jobs_reply>(first)->has_value());
  const auto bad = take<jobs_reply>(second);
  CAF_REQUIRE(bad);
  CAF_CHECK(!*bad && bad->error().code == ec::storage_failed);
  CAF_CHECK_EQUAL(script.calls.back(), "commit");
}

CAF_TEST(a refusal that may rest on what is not committed waits for the commit and fails with it) {
  script.spared_operations = 1;
  auto cancelled = ask(db, cancel_atom_v, job_id{1}, std::string{"me"});
  script.fail_operation = error{ec::not_ready, "scripted", {}};
  script.fail_commit = error{ec::storage_failed, "scripted", {}};
  auto refused = ask(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  run();
  CAF_CHECK(take<expected<transition_result>>(cancelled)->error().code == ec::storage_failed);
  CAF_CHECK(take<expected<job_grant>>(refused)->error().code == ec::storage_failed);
}

CAF_TEST(a refusal that rests on nothing new is answered at once) {
  script.fail_operation = error{ec::not_ready, "scripted", {}};
  auto refused = ask(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  expect((claim_atom, claim_request), from(self).to(db));
  CAF_CHECK(take<expected<job_grant>>(refused)->error().code == ec::not_ready);
  run();
}

CAF_TEST(a full disk that rolls the transaction back fails every operation in it) {
  script.spared_operations = 1;
  auto first = enqueue();
  script.fail_operation = error{ec::storage_full, "scripted", {}};
  script.failure_rolls_back = true;
  auto second = enqueue();
  run();
  auto reply = take<jobs_reply>(first);
  CAF_REQUIRE(reply);
  CAF_CHECK(!*reply && reply->error().code == ec::storage_full);
  reply = take<jobs_reply>(second);
  CAF_CHECK(!*reply && reply->error().code == ec::storage_full);
  CAF_CHECK_EQUAL(std::ranges::count(script.calls, "commit"), 0);
  auto third = enqueue();
  run();
  CAF_CHECK(take<jobs_reply>(third)->has_value());
}

CAF_TEST(without room new work is refused and what runs comes to its end) {
  room = false;
  auto refused = enqueue();
  auto held_back = ask(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  auto asked_again = ask(db, claim_atom_v, claim_request{job_id{}, "node/1", 7});
  attempt_result result;
  result.key = {job_id{1}, 1};
  auto ended = ask(db, complete_atom_v, result);
  run();
  CAF_CHECK(take<jobs_reply>(refused)->error().code == ec::storage_full);
  CAF_CHECK(take<expected<job_grant>>(held_back)->error().code == ec::storage_full);
  CAF_CHECK(take<expected<job_grant>>(asked_again)->has_value());
  CAF_CHECK(take<expected<transition_result>>(ended)->has_value());
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"claim", "finish", "commit"}));
  room = true;
  auto taken = enqueue();
  run();
  CAF_CHECK(take<jobs_reply>(taken)->has_value());
}

CAF_TEST(without room a submission that comes again gets its first answer) {
  room = false;
  auto again = some_jobs(1);
  again.once = idempotency_key{"me", "k", "d", {}};
  auto refused = ask(db, enqueue_atom_v, again);
  run();
  CAF_CHECK(take<jobs_reply>(refused)->error().code == ec::storage_full);
  script.kept_answer = stored_answer{201, "/v1/jobs/1", "job 1"};
  auto answered = ask(db, enqueue_atom_v, again);
  run();
  const auto reply = take<jobs_reply>(answered);
  CAF_REQUIRE(reply && *reply);
  CAF_CHECK((*reply)->repeated && (*reply)->answer->body == "job 1");
}

CAF_TEST(a failed commit fails every operation in it and tells nobody) {
  script.fail_commit = error{ec::storage_failed, "scripted", {}};
  auto listener = sys.spawn([](change_listener_actor::pointer) -> change_listener_actor::behavior_type {
    return {[](changed_atom, const job_changes&) { CAF_FAIL("told of changes that were not committed"); }};
  });
  anon_send(db, subscribe_atom_v, listener);
  auto first = enqueue();
  auto second = enqueue();
  run();
  for (auto* pending : {&first, &second}) {
    const auto reply = take<jobs_reply>(*pending);
    CAF_REQUIRE(reply);
    CAF_CHECK(!*reply && reply->error().code == ec::storage_failed);
  }
  CAF_CHECK_EQUAL(std::ranges::count(script.calls, "rollback"), 1);
}

CAF_TEST(a handler that throws leaves its askers with an unknown outcome and closes the store) {
  script.spared_operations = 1;
  auto first = enqueue();
  script.throw_in_operation = true;
  anon_send(db, enqueue_atom_v, some_jobs(1));
  run();
  const auto reply = take<jobs_reply>(first);
  CAF_REQUIRE(reply);
  CAF_CHECK(!*reply && reply->error().code == ec::outcome_unknown);
  CAF_CHECK(script.closed);
}

CAF_TEST(an orderly stop commits what was done) {
  auto pending = enqueue();
  expect((enqueue_atom, submission), from(self).to(db));
  anon_send_exit(db, caf::exit_reason::user_shutdown);
  sched.prioritize(db);
  run();
  CAF_CHECK(take<jobs_reply>(pending)->has_value());
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"submit", "commit"}));
  CAF_CHECK(script.closed);
}

CAF_TEST(listeners hear of changes after the commit in order) {
  std::vector<job_change> heard;
  auto listener = sys.spawn([&heard](change_listener_actor::pointer) -> change_listener_actor::behavior_type {
    return {[&heard](changed_atom, const job_changes& changes) {
      heard.insert(heard.end(), changes->begin(), changes->end());
    }};
  });
  anon_send(db, subscribe_atom_v, listener);
  anon_send(db, subscribe_atom_v, listener); // Twice is once.
  anon_send(db, enqueue_atom_v, some_jobs(2));
  anon_send(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  run();
  CAF_REQUIRE_EQUAL(heard.size(), 3u);
  CAF_CHECK(heard[0].id.value == 1 && heard[0].state == job_state::queued);
  CAF_CHECK(heard[1].id.value == 2 && heard[1].state == job_state::queued);
  CAF_CHECK(heard[2].id.value == 1 && heard[2].state == job_state::running);
}

CAF_TEST(ready notices are numbered without gaps and a snapshot names the last) {
  std::vector<ready_notice> heard;
  auto listener = sys.spawn([&heard](ready_listener_actor::pointer) -> ready_listener_actor::behavior_type {
    return {[&heard](ready_atom, const ready_notice& notice) { heard.push_back(notice); }};
  });
  auto pending = ask(db, subscribe_atom_v, listener);
  run();
  const auto snapshot = take<expected<ready_snapshot>>(pending);
  CAF_REQUIRE(snapshot && *snapshot);
  CAF_CHECK_EQUAL((*snapshot)->number, 0u);
  anon_send(db, enqueue_atom_v, some_jobs(2));
  run();
  anon_send(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  anon_send(db, cancel_atom_v, job_id{1}, std::string{"a test"});
  run();
  CAF_REQUIRE_EQUAL(heard.size(), 2u);
  CAF_CHECK(heard[0].number == 1 && heard[0].ready.size() == 2 && heard[0].gone.empty());
  CAF_CHECK(heard[1].number == 2 && heard[1].gone == std::vector{job_id{1}});
  CAF_CHECK(heard[1].cancelled == (std::vector{attempt_key{job_id{1}, 1}}));
}

CAF_TEST(the dispatcher hears of a job before its submitter does) {
  std::vector<std::string> heard;
  auto listener = sys.spawn([&heard](ready_listener_actor::pointer) -> ready_listener_actor::behavior_type {
    return {[&heard](ready_atom, const ready_notice&) { heard.emplace_back("dispatcher"); }};
  });
  ask(db, subscribe_atom_v, listener);
  consume_messages();
  sys.spawn([&heard, this](caf::event_based_actor* submitter) {
    submitter->request(db, caf::infinite, enqueue_atom_v, some_jobs(1)).then([&heard](const jobs_reply&) {
      heard.emplace_back("submitter");
    });
  });
  // Actors run in the order in which they are sent something.
  consume_messages();
  CAF_CHECK_EQUAL(heard, std::vector<std::string>({"dispatcher", "submitter"}));
}

CAF_TEST(a new listener hears of cancelled jobs that have not ended yet) {
  auto listener = sys.spawn([](ready_listener_actor::pointer) -> ready_listener_actor::behavior_type {
    return {[](ready_atom, const ready_notice&) {}};
  });
  const auto cancelled = [&] {
    auto pending = ask(db, subscribe_atom_v, listener);
    run();
    const auto snapshot = take<expected<ready_snapshot>>(pending);
    CAF_REQUIRE(snapshot && *snapshot);
    return (*snapshot)->cancelled;
  };
  anon_send(db, claim_atom_v, claim_request{job_id{1}, "node/1", 7});
  anon_send(db, cancel_atom_v, job_id{1}, std::string{"a test"});
  CAF_CHECK(cancelled() == (std::vector{attempt_key{job_id{1}, 1}}));
  attempt_result result;
  result.key = {job_id{1}, 1};
  anon_send(db, complete_atom_v, result);
  CAF_CHECK(cancelled().empty());
}

CAF_TEST(what follows is committed in pieces and told with each) {
  std::vector<ready_notice> heard;
  auto listener = sys.spawn([&heard](ready_listener_actor::pointer) -> ready_listener_actor::behavior_type {
    return {[&heard](ready_atom, const ready_notice& notice) { heard.push_back(notice); }};
  });
  ask(db, subscribe_atom_v, listener);
  run();
  script.calls.clear();
  const auto ready = [](std::int64_t id) {
    ready_job job;
    job.id = job_id{id};
    return job;
  };
  const auto unblocked = [&](std::int64_t id) {
    transition_result moved;
    moved.change.id = job_id{id};
    moved.ready = ready(id);
    return moved;
  };
  script.follow_ups = {{{unblocked(5)}, {}, true}, {{unblocked(6)}, {ready(7)}, false}};
  enqueue();
  run();
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"submit", "commit", "commit"}));
  CAF_REQUIRE_EQUAL(heard.size(), 2u);
  CAF_CHECK(heard[0].ready.back().id == job_id{5});
  CAF_REQUIRE_EQUAL(heard[1].ready.size(), 2u);
  CAF_CHECK(heard[1].ready[0].id == job_id{6} && heard[1].ready[1].id == job_id{7});
}

CAF_TEST(what an earlier life left undone is done at the subscription) {
  transition_result moved;
  moved.change.id = job_id{3};
  moved.change.state = job_state::skipped;
  script.follow_ups = {{{moved}, {}, false}};
  auto listener = sys.spawn([](ready_listener_actor::pointer) -> ready_listener_actor::behavior_type {
    return {[](ready_atom, const ready_notice&) {}};
  });
  ask(db, subscribe_atom_v, listener);
  run();
  CAF_CHECK_EQUAL(script.calls, std::vector<std::string>({"commit", "ready_jobs"}));
}

CAF_TEST(a clock that steps back does not reorder the queue) {
  auto first = enqueue();
  run();
  const auto before = (*take<jobs_reply>(first))->jobs.front().created_at;
  clock -= std::chrono::hours{1};
  auto second = enqueue();
  run();
  CAF_CHECK((*take<jobs_reply>(second))->jobs.front().created_at >= before);
}

CAF_TEST_FIXTURE_SCOPE_END()
