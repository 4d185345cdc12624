#define CAF_SUITE worker
#include "actors/workers/worker.hpp"

#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/fake_database.hpp"

#include <caf/send.hpp>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

struct dispatcher_record {
  std::deque<open_question<work_request, expected<job_grant>>> claims;
  std::deque<open_question<attempt_key, outcome>> starts;
  std::vector<step_record> steps;
  std::deque<open_question<attempt_result, expected<transition_result>>> completions;
  std::vector<held_attempt> registered;
};

class fake_dispatcher : public answering<dispatcher_actor::base> {
public:
  fake_dispatcher(caf::actor_config& cfg, std::shared_ptr<dispatcher_record> record)
    : answering{cfg}, record_{std::move(record)} {}

  behavior_type make_behavior() override {
    return {
      [this](claim_atom, const work_request& asked, const attempt_holder_actor&) {
        return note<expected<job_grant>>(record_->claims, asked);
      },
      [this](register_atom, const held_attempt& held, const attempt_holder_actor&) {
        record_->registered.push_back(held);
      },
      [this](start_atom, attempt_key key) { return note<outcome>(record_->starts, key); },
      [this](step_atom, attempt_key, const step_record& step) -> outcome {
        record_->steps.push_back(step);
        return kcx::done{};
      },
      [this](complete_atom, const attempt_result& result) {
        return note<expected<transition_result>>(record_->completions, result);
      },
      [](exchange_atom, const remote_request&) -> expected<exchange_result> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](expire_atom, std::uint64_t) {},
      [](drain_atom) {},
      [](rewire_atom, const database_actor&) {},
      [](fleet_atom, const fleet&) {},
      [](why_atom, job_id) { return dispatch_view{}; },
      [](tick_atom) {},
      [](subscribe_atom, std::uint64_t) {},
      [](ready_atom, const ready_notice&) {},
      [](status_atom) { return actor_status{}; },
      [this](fault_atom, const std::string&) { answer_next(); },
    };
  }

  // An open promise keeps its actor, which must not keep the promise.
  void on_exit() override { record_.reset(); }

private:
  std::shared_ptr<dispatcher_record> record_;
};

class fake_hub : public log_hub_actor::base {
public:
  fake_hub(caf::actor_config& cfg, std::shared_ptr<std::vector<std::int64_t>> sizes)
    : log_hub_actor::base{cfg}, sizes_{std::move(sizes)} {}

  behavior_type make_behavior() override {
    return {
      [this](grew_atom, attempt_key, std::int64_t bytes) { sizes_->push_back(bytes); },
      [](follow_atom, attempt_key, follower_id, const follower_host_actor&) {},
      [](unfollow_atom, attempt_key, follower_id) {},
      [](tick_atom) {},
      [](changed_atom, const job_changes&) {},
      [](status_atom) { return actor_status{}; },
      [](fault_atom, const std::string&) {},
    };
  }

private:
  std::shared_ptr<std::vector<std::int64_t>> sizes_;
};

constexpr attempt_key job_three{{3}, 1};

job_grant grant_of(attempt_key key) {
  job_grant grant;
  grant.key = key;
  grant.spec.command = command_line{true, {"true"}};
  return grant;
}

template <class Command>
const Command* as(const std::vector<runner_command>& commands, std::size_t at) {
  return at < commands.size() ? std::get_if<Command>(&commands[at]) : nullptr;
}

struct fixture : actor_fixture {
  std::shared_ptr<dispatcher_record> dispatcher = std::make_shared<dispatcher_record>();
  dispatcher_actor dispatcher_handle = sys.spawn<fake_dispatcher>(dispatcher);
  std::shared_ptr<std::vector<std::int64_t>> log_sizes_told = std::make_shared<std::vector<std::int64_t>>();
  log_hub_actor hub = sys.spawn<fake_hub>(log_sizes_told);
  caf::actor supervisor = sys.spawn([](caf::event_based_actor*) { return caf::behavior{[](int) {}}; });
  /// What the runner was told.
  std::vector<runner_command> commands;
  outcome runner_answer = kcx::done{};
  worker_actor testee;
  bool testee_down = false;

  ~fixture() override {
    for (const auto& each : {testee.address(), dispatcher_handle.address(), hub.address(), supervisor.address()})
      caf::anon_send_exit(each, caf::exit_reason::kill);
    settle();
  }

  void settle() { consume_messages(); }

  void pass(std::chrono::milliseconds span) {
    advance_time(span);
    settle();
  }

  void start() {
    worker_options options;
    options.name = "node/1";
    options.labels = {"linux"};
    options.run = [] {
      run_settings run;
      run.data_dir = "/data";
      return run;
    };
    testee = sys.spawn<worker>(
      options,
      [this](const runner_command& command) {
        commands.push_back(command);
        return runner_answer;
      },
      dispatcher_handle, hub, supervisor.address());
    caf::actor_cast<caf::abstract_actor*>(testee)->attach_functor([this] { testee_down = true; });
    settle();
  }

  template <class Event>
  void runner_says(Event event) {
    caf::anon_send(testee, runner_atom_v, runner_event{std::move(event)});
    settle();
  }

  void cancel(attempt_key key) {
    caf::anon_send(testee, cancel_atom_v, key);
    settle();
  }

  void stop(stop_mode mode) {
    caf::anon_send(testee, stop_atom_v, mode);
    settle();
  }

  work_request give(attempt_key key) {
    CAF_REQUIRE(!dispatcher->claims.empty());
    auto question = next(dispatcher->claims);
    question.answer(grant_of(key));
    settle();
    return question.asked;
  }

  /// A worker that runs the job and has its start confirmed.
  void start_running(attempt_key key = job_three) {
    start();
    give(key);
    runner_says(started_event{key, {}, 100});
    CAF_REQUIRE_EQUAL(dispatcher->starts.size(), 1u);
    next(dispatcher->starts).answer(kcx::done{});
    settle();
  }

  void finish(attempt_key key, run_outcome how = run_outcome::exited, cancel_cause cause = cancel_cause::cancelled) {
    finished_event end;
    end.key = key;
    end.outcome = how;
    end.cause = cause;
    if (how == run_outcome::exited)
      end.exit_code = 0;
    runner_says(end);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(worker_tests, fixture)

CAF_TEST(a worker claims and runs and completes and claims again) {
  start();
  const auto asked = give(job_three);
  CAF_CHECK_EQUAL(asked.worker, "node/1");
  CAF_CHECK(asked.labels == std::vector<std::string>{"linux"});
  CAF_CHECK(asked.nonce != 0);
  CAF_CHECK(!asked.repeat);
  const auto* run = as<start_command>(commands, 0);
  CAF_REQUIRE(run != nullptr);
  CAF_CHECK(run->key == job_three);
  CAF_CHECK(dispatcher->starts.empty()); // nothing runs yet
  runner_says(started_event{job_three, {}, 100});
  CAF_REQUIRE_EQUAL(dispatcher->starts.size(), 1u);
  next(dispatcher->starts).answer(kcx::done{});
  settle();
  finish(job_three);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_REQUIRE_EQUAL(dispatcher->claims.size(), 1u); // asked for at once, so that both share a commit
  auto completion = next(dispatcher->completions);
  CAF_CHECK(completion.asked.outcome == attempt_outcome::exited);
  CAF_CHECK(completion.asked.exit_code == 0);
  completion.answer(transition_result{});
  settle();
  CAF_REQUIRE_EQUAL(dispatcher->claims.size(), 1u);
  CAF_CHECK(dispatcher->claims.front().asked.nonce != asked.nonce);
}

CAF_TEST(a job that is granted early starts once the end of the one before is stored) {
  start_running();
  finish(job_three);
  give({{4}, 1});
  CAF_CHECK_EQUAL(commands.size(), 1u);
  next(dispatcher->completions).answer(error{ec::storage_busy, "busy", {}});
  settle();
  CAF_CHECK_EQUAL(commands.size(), 1u);
  pass(100ms);
  next(dispatcher->completions).answer(transition_result{});
  settle();
  const auto* run = as<start_command>(commands, 1);
  CAF_REQUIRE(run != nullptr);
  CAF_CHECK(run->key == (attempt_key{{4}, 1}));
  CAF_CHECK(dispatcher->claims.empty());
}

CAF_TEST(a job that is granted early and cancelled then does not run) {
  start_running();
  finish(job_three);
  give({{4}, 1});
  cancel({{4}, 1});
  next(dispatcher->completions).answer(transition_result{});
  settle();
  CAF_CHECK_EQUAL(commands.size(), 1u);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_CHECK(dispatcher->completions.front().asked.outcome == attempt_outcome::cancelled);
}

CAF_TEST(a worker that is stopped gives back what it was granted early) {
  start_running();
  finish(job_three);
  give({{4}, 1});
  stop(stop_mode::drain);
  next(dispatcher->completions).answer(transition_result{});
  settle();
  CAF_CHECK(!testee_down);
  CAF_CHECK_EQUAL(commands.size(), 1u);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  auto back = next(dispatcher->completions);
  CAF_CHECK(back.asked.key == (attempt_key{{4}, 1}));
  CAF_CHECK(back.asked.outcome == attempt_outcome::not_started);
  back.answer(transition_result{});
  settle();
  CAF_CHECK(testee_down);
  CAF_CHECK(dispatcher->claims.empty());
}

CAF_TEST(a damaged database does not hold up a stop) {
  start_running();
  finish(job_three);
  next(dispatcher->completions).answer(error{ec::storage_unusable, "damaged", {}});
  settle();
  pass(100ms);
  CAF_CHECK_EQUAL(dispatcher->completions.size(), 1u); // it may be mended
  stop(stop_mode::drain);
  next(dispatcher->completions).answer(error{ec::storage_unusable, "damaged", {}});
  settle();
  CAF_CHECK(testee_down);
}

CAF_TEST(a result that cannot be stored is given up soon after the node is stopped at once) {
  start_running();
  finish(job_three);
  stop(stop_mode::drain);
  for (int round = 0; round < 10; ++round) {
    CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u); // a drain goes on trying
    next(dispatcher->completions).answer(error{ec::storage_full, "full", {}});
    settle();
    pass(2s);
  }
  stop(stop_mode::now);
  CAF_CHECK(!testee_down);
  next(dispatcher->completions).answer(error{ec::storage_full, "full", {}});
  settle();
  pass(2s);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_CHECK(!testee_down);
  pass(1s); // without an answer
  CAF_CHECK(testee_down);
}

CAF_TEST(a result of a job that a stop ends is tried for some seconds as well) {
  start_running();
  stop(stop_mode::now);
  pass(20s); // the job takes its time
  finish(job_three, run_outcome::cancelled, cancel_cause::node_stop);
  for (const auto code : {ec::storage_busy, ec::storage_failed, ec::storage_full}) {
    CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
    CAF_CHECK(!testee_down);
    next(dispatcher->completions).answer(error{code, "not now", {}});
    settle();
    pass(1s);
  }
  CAF_CHECK(testee_down);
}

CAF_TEST(a question without an answer is asked again with the same nonce) {
  start();
  const auto first = next(dispatcher->claims).asked;
  pass(60s);
  CAF_REQUIRE_EQUAL(dispatcher->claims.size(), 1u);
  const auto second = next(dispatcher->claims).asked;
  CAF_CHECK_EQUAL(second.nonce, first.nonce);
  CAF_CHECK(second.repeat);
}

CAF_TEST(a question that fails is asked again after a growing pause) {
  start();
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms, 2000ms}) {
    CAF_REQUIRE_EQUAL(dispatcher->claims.size(), 1u);
    next(dispatcher->claims).answer(error{ec::timeout, "the dispatcher ended", {}});
    settle();
    pass(pause - 1ms);
    CAF_CHECK(dispatcher->claims.empty());
    pass(1ms);
  }
  CAF_CHECK_EQUAL(dispatcher->claims.size(), 1u);
}

CAF_TEST(a cancel that overtakes its grant keeps the job from running) {
  start();
  cancel(job_three);
  give(job_three);
  CAF_CHECK(commands.empty());
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_CHECK(dispatcher->completions.front().asked.outcome == attempt_outcome::cancelled);
  CAF_CHECK(dispatcher->completions.front().asked.key == job_three);
}

CAF_TEST(a job that is too large for the runner fails and the worker goes on) {
  runner_answer = error{ec::invalid_input, "too large", {}};
  start();
  give(job_three);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  auto completion = next(dispatcher->completions);
  CAF_CHECK(completion.asked.outcome == attempt_outcome::spawn_failed);
  CAF_CHECK_EQUAL(completion.asked.message, "too large");
  completion.answer(transition_result{});
  settle();
  CAF_CHECK_EQUAL(dispatcher->claims.size(), 1u);
}

CAF_TEST(a remembered cancel concerns its own attempt only) {
  start();
  cancel({{3}, 2});
  give(job_three);
  CAF_CHECK(as<start_command>(commands, 0) != nullptr);
}

CAF_TEST(a cancelled job is ended by the runner and completed as cancelled) {
  start_running();
  cancel(job_three);
  const auto* ended = as<cancel_command>(commands, 1);
  CAF_REQUIRE(ended != nullptr);
  CAF_CHECK(ended->cause == cancel_cause::cancelled);
  CAF_CHECK(!ended->grace.has_value());
  CAF_CHECK(dispatcher->completions.empty()); // not before the tree is gone
  finish(job_three, run_outcome::cancelled);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_CHECK(dispatcher->completions.front().asked.outcome == attempt_outcome::cancelled);
}

CAF_TEST(a start that is not confirmed is told again) {
  start();
  give(job_three);
  runner_says(started_event{job_three, {}, 100});
  next(dispatcher->starts).answer(error{ec::storage_busy, "busy", {}});
  settle();
  pass(100ms);
  CAF_REQUIRE_EQUAL(dispatcher->starts.size(), 1u);
  next(dispatcher->starts).answer(kcx::done{});
  settle();
  pass(10s);
  CAF_CHECK(dispatcher->starts.empty());
}

CAF_TEST(a stale start kills the run and completes nothing) {
  start();
  give(job_three);
  runner_says(started_event{job_three, {}, 100});
  next(dispatcher->starts).answer(error{ec::stale_attempt, "not yours", {}});
  settle();
  CAF_CHECK(as<kill_command>(commands, 1) != nullptr);
  CAF_CHECK(dispatcher->claims.empty()); // the tree is not gone yet
  finish(job_three, run_outcome::killed);
  CAF_CHECK(dispatcher->completions.empty());
  CAF_CHECK_EQUAL(dispatcher->claims.size(), 1u);
}

CAF_TEST(a result is told again until it is answered) {
  start_running();
  finish(job_three);
  next(dispatcher->completions).answer(error{ec::outcome_unknown, "closed", {}});
  settle();
  pass(100ms);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  dispatcher->completions.clear(); // never answered
  pass(30s);
  pass(200ms);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_CHECK_EQUAL(dispatcher->claims.size(), 1u); // the next job is asked for but once
  next(dispatcher->completions).answer(transition_result{});
  settle();
  CAF_CHECK_EQUAL(dispatcher->claims.size(), 1u);
}

CAF_TEST(a result that is not wanted any more is not told again) {
  start_running();
  finish(job_three);
  next(dispatcher->completions).answer(error{ec::stale_attempt, "not yours", {}});
  settle();
  CAF_CHECK_EQUAL(dispatcher->claims.size(), 1u);
  pass(10s);
  CAF_CHECK(dispatcher->completions.empty());
}

CAF_TEST(steps and the growth of the log are passed on) {
  start();
  auto question = next(dispatcher->claims);
  auto grant = grant_of(job_three);
  grant.spec.command.reset();
  grant.spec.steps = {{"build", {true, {"make"}}, false, false}};
  question.answer(grant);
  settle();
  const timestamp began{1000ms};
  const timestamp ended{3000ms};
  runner_says(step_event{job_three, 0, step_state::running, {}, {}, began});
  runner_says(log_event{job_three, 77});
  runner_says(step_event{job_three, 0, step_state::failed, 2, {}, ended});
  CAF_REQUIRE_EQUAL(dispatcher->steps.size(), 2u);
  CAF_CHECK(dispatcher->steps[0].started_at == began);
  CAF_CHECK(!dispatcher->steps[0].finished_at.has_value());
  CAF_CHECK(dispatcher->steps[1].state == step_state::failed);
  CAF_CHECK(dispatcher->steps[1].started_at == began);
  CAF_CHECK(dispatcher->steps[1].finished_at == ended);
  CAF_CHECK(dispatcher->steps[1].exit_code == 2);
  CAF_CHECK(*log_sizes_told == std::vector<std::int64_t>{77});
}

CAF_TEST(what a runner says about another attempt is not heard) {
  start_running();
  runner_says(log_event{{{9}, 1}, 5});
  finish({{9}, 1});
  CAF_CHECK(log_sizes_told->empty());
  CAF_CHECK(dispatcher->completions.empty());
}

CAF_TEST(a new dispatcher hears what the worker holds) {
  start_running();
  auto fresh = std::make_shared<dispatcher_record>();
  const dispatcher_actor restarted = sys.spawn<fake_dispatcher>(fresh);
  caf::anon_send(testee, rewire_atom_v, restarted);
  settle();
  CAF_REQUIRE_EQUAL(fresh->registered.size(), 1u);
  CAF_CHECK(fresh->registered.front().key == job_three);
  CAF_CHECK_EQUAL(fresh->registered.front().worker, "node/1");
  finish(job_three);
  CAF_CHECK_EQUAL(fresh->completions.size(), 1u);
  CAF_CHECK(dispatcher->completions.empty());
  caf::anon_send_exit(restarted, caf::exit_reason::kill);
}

CAF_TEST(a new dispatcher is asked the open question again) {
  start();
  const auto first = next(dispatcher->claims);
  auto fresh = std::make_shared<dispatcher_record>();
  const dispatcher_actor restarted = sys.spawn<fake_dispatcher>(fresh);
  caf::anon_send(testee, rewire_atom_v, restarted);
  settle();
  CAF_REQUIRE_EQUAL(fresh->claims.size(), 1u);
  CAF_CHECK_EQUAL(fresh->claims.front().asked.nonce, first.asked.nonce);
  CAF_CHECK(fresh->claims.front().asked.repeat);
  caf::anon_send_exit(restarted, caf::exit_reason::kill);
}

CAF_TEST(an idle worker that is stopped ends at once) {
  start();
  stop(stop_mode::drain);
  CAF_CHECK(testee_down);
}

CAF_TEST(a draining worker ends when its job is stored) {
  start_running();
  stop(stop_mode::drain);
  CAF_CHECK_EQUAL(commands.size(), 1u);
  finish(job_three);
  CAF_CHECK(!testee_down);
  next(dispatcher->completions).answer(transition_result{});
  settle();
  CAF_CHECK(testee_down);
  CAF_CHECK(dispatcher->claims.empty());
}

CAF_TEST(a worker that is stopped now ends its job as stopped by the node) {
  start_running();
  stop(stop_mode::drain);
  stop(stop_mode::now);
  stop(stop_mode::now);
  CAF_REQUIRE_EQUAL(commands.size(), 2u);
  const auto* ended = as<cancel_command>(commands, 1);
  CAF_REQUIRE(ended != nullptr);
  CAF_CHECK(ended->cause == cancel_cause::node_stop);
  CAF_CHECK(ended->grace == 2s);
  finish(job_three, run_outcome::cancelled, cancel_cause::node_stop);
  CAF_REQUIRE_EQUAL(dispatcher->completions.size(), 1u);
  CAF_CHECK(dispatcher->completions.front().asked.outcome == attempt_outcome::node_stopped);
  next(dispatcher->completions).answer(transition_result{});
  settle();
  CAF_CHECK(testee_down);
}

CAF_TEST(a worker ends with its supervisor) {
  start_running();
  caf::anon_send_exit(supervisor, caf::exit_reason::kill);
  settle();
  CAF_CHECK(testee_down);
}

CAF_TEST(a fault ends the worker) {
  start();
  caf::anon_send(testee, fault_atom_v, std::string{"test"});
  settle();
  CAF_CHECK(testee_down);
}

CAF_TEST_FIXTURE_SCOPE_END()
