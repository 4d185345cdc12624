#define CAF_SUITE worker_supervisor
#include "actors/workers/worker_supervisor.hpp"

#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/fake_database.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <sstream>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

/// What happened, in order, in words: the order is what these tests are about.
using journal = std::shared_ptr<std::vector<std::string>>;

class fake_link : public runner_link {
public:
  fake_link(journal log, std::shared_ptr<int> pings, int number)
    : log_{std::move(log)}, pings_{std::move(pings)}, name_{"runner " + std::to_string(number)} {}

  outcome send(const runner_command& command) override {
    constexpr const char* names[] = {"start", "cancel", "kill job", "quit"};
    if (std::holds_alternative<ping_command>(command))
      ++*pings_;
    else
      log_->push_back(name_ + ": " + names[command.index()]);
    return kcx::done{};
  }
  void kill() noexcept override { log_->push_back(name_ + ": killed"); }

private:
  journal log_;
  std::shared_ptr<int> pings_;
  std::string name_;
};

struct fake_host : runner_host {
  explicit fake_host(journal log) : log_{std::move(log)} {}

  std::shared_ptr<runner_link> launch(runner_callbacks callbacks) override {
    runners.push_back(std::move(callbacks));
    const auto number = static_cast<int>(runners.size());
    log_->push_back("runner " + std::to_string(number) + ": launched");
    return std::make_shared<fake_link>(log_, pings, number);
  }
  void sweep(std::function<void()> on_empty) override {
    log_->push_back("sweep");
    sweeps.push_back(std::move(on_empty));
  }

  std::shared_ptr<int> pings = std::make_shared<int>(0);
  std::vector<runner_callbacks> runners;
  std::deque<std::function<void()>> sweeps;

private:
  journal log_;
};

/// Does what a worker does towards its supervisor, and nothing else.
class fake_worker : public worker_actor::base {
public:
  fake_worker(caf::actor_config& cfg, worker_place place, journal log)
    : worker_actor::base{cfg}, place_{std::move(place)}, log_{std::move(log)} {
    log_->push_back(place_.name + ": born");
    set_exception_handler([](caf::scheduled_actor*, std::exception_ptr&) -> caf::error {
      return caf::make_error(caf::sec::runtime_error, "thrown");
    });
  }

  behavior_type make_behavior() override {
    return {
      [this](runner_atom, const runner_event& event) {
        if (std::holds_alternative<finished_event>(event))
          log_->push_back(place_.name + ": heard the end");
      },
      [this](stop_atom, stop_mode mode) {
        log_->push_back(place_.name + (mode == stop_mode::drain ? ": drain" : ": stop"));
        quit();
      },
      [](info_atom) { return worker_info{}; },
      [this](rewire_atom, const dispatcher_actor&) { log_->push_back(place_.name + ": new dispatcher"); },
      [this](rewire_atom, const log_hub_actor&) { log_->push_back(place_.name + ": new log hub"); },
      // Stands for a grant: the job starts.
      [this](tick_atom) {
        start_command start;
        start.key = {{7}, 1};
        start.workspace = "/w/7-1";
        start.cgroup = "/c/7-1";
        if (!place_.runner(start))
          log_->push_back("the job was not started");
      },
      [](cancel_atom, attempt_key) {},
      [](status_atom) { return actor_status{}; },
      [](fault_atom, const std::string& text) { throw std::runtime_error{text}; },
    };
  }

private:
  worker_place place_;
  journal log_;
};

struct fixture : actor_fixture {
  journal log = std::make_shared<std::vector<std::string>>();
  std::shared_ptr<fake_host> host = std::make_shared<fake_host>(log);
  std::shared_ptr<database_record> database = std::make_shared<database_record>();
  database_actor database_handle = sys.spawn<fake_database>(database);
  worker_supervisor_actor testee;
  std::vector<worker_actor> workers;
  std::vector<std::string> cleaned_up;
  caf::error ended_with;
  bool ended = false;
  std::chrono::steady_clock::time_point now{1h};

  ~fixture() override {
    for (const auto& each : {testee.address(), database_handle.address()})
      caf::anon_send_exit(each, caf::exit_reason::kill);
    for (const auto& each : workers)
      caf::anon_send_exit(each, caf::exit_reason::kill);
    settle();
  }

  void settle() { consume_messages(); }

  void pass(std::chrono::milliseconds span) {
    now += span;
    advance_time(span);
    settle();
  }

  void spawn(std::uint32_t slots = 1) {
    worker_supervisor_options options;
    options.slots = slots;
    options.runners = host;
    options.clean_up = [this](const unfinished_run& left) { cleaned_up.push_back(left.workspace + " " + left.cgroup); };
    options.clock = [this] { return now; };
    options.make_worker = [this](caf::local_actor& parent, worker_place place) {
      worker_actor made = parent.spawn<fake_worker>(std::move(place), log);
      workers.push_back(made);
      return made;
    };
    testee = sys.spawn<worker_supervisor>(options, database_handle, dispatcher_actor{}, log_hub_actor{});
    caf::actor_cast<caf::abstract_actor*>(testee)->attach_functor([this](const caf::error& reason) {
      ended = true;
      ended_with = reason;
    });
    settle();
  }

  void swept() {
    CAF_REQUIRE(!host->sweeps.empty());
    next(host->sweeps)();
    settle();
  }

  /// Answers the oldest open abandon.
  std::string marked(outcome answer = kcx::done{}) {
    CAF_REQUIRE(!database->abandons.empty());
    auto question = next(database->abandons);
    log->push_back("marked " + question.asked);
    question.answer(std::move(answer));
    settle();
    return question.asked;
  }

  template <class Event>
  void runner_says(std::size_t which, Event event) {
    host->runners[which - 1].on_event(std::move(event));
    settle();
  }

  void runner_ends(std::size_t which) {
    host->runners[which - 1].on_exit();
    settle();
  }

  void job_ends(std::size_t which) {
    finished_event end;
    end.key = {{7}, 1};
    runner_says(which, end);
  }

  /// One slot with its worker and idle runner 1; the journal is empty then.
  void start() {
    spawn();
    swept();
    marked();
    runner_says(1, ready_event{100});
    CAF_REQUIRE_EQUAL(workers.size(), 1u);
    log->clear();
  }

  void start_job() {
    caf::anon_send(workers.back(), tick_atom_v);
    settle();
    log->clear();
  }

  void worker_throws() {
    caf::anon_send(testee, fault_atom_v, std::uint32_t{1}, std::string{"test"});
    settle();
  }

  std::string story() {
    std::ostringstream out;
    for (const auto& line : *log)
      out << line << "; ";
    log->clear();
    return out.str();
  }

  std::vector<worker_info> list() {
    auto pending = ask(testee, list_atom_v);
    settle();
    return take<std::vector<worker_info>>(pending).value();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(worker_supervisor_tests, fixture)

CAF_TEST(it sweeps and marks what an earlier one left before anything starts) {
  spawn(2);
  CAF_CHECK_EQUAL(story(), "sweep; ");
  CAF_CHECK(database->abandons.empty());
  swept();
  CAF_CHECK_EQUAL(story(), "");
  CAF_CHECK_EQUAL(marked(), "node/1");
  CAF_CHECK_EQUAL(marked(), "node/2");
  CAF_CHECK_EQUAL(story(), "marked node/1; runner 1: launched; marked node/2; runner 2: launched; ");
  runner_says(2, ready_event{200});
  CAF_CHECK_EQUAL(story(), "node/2: born; ");
}

CAF_TEST(a worker that throws has its tree killed first and its job marked before a new one is born) {
  start();
  start_job();
  worker_throws();
  CAF_CHECK_EQUAL(story(), "runner 1: kill job; ");
  CAF_CHECK(database->abandons.empty());
  job_ends(1);
  CAF_CHECK_EQUAL(database->abandons.size(), 1u);
  CAF_CHECK_EQUAL(story(), "");
  marked();
  CAF_CHECK_EQUAL(story(), "marked node/1; node/1: born; ");
  CAF_CHECK(database->abandons.empty());
}

CAF_TEST(a worker that throws while idle is replaced at once with the same runner) {
  start();
  worker_throws();
  marked();
  CAF_CHECK_EQUAL(story(), "marked node/1; node/1: born; ");
}

CAF_TEST(a job is marked until the database answers and no new worker is born before) {
  start();
  start_job();
  worker_throws();
  job_ends(1);
  marked(error{ec::storage_busy, "busy", {}});
  CAF_CHECK_EQUAL(workers.size(), 1u);
  CAF_CHECK(database->abandons.empty());
  pass(250ms);
  marked();
  CAF_CHECK_EQUAL(workers.size(), 2u);
}

CAF_TEST(a stop at once does not wait for ever until a job is marked) {
  start();
  start_job();
  worker_throws();
  job_ends(1);
  auto drained = ask(testee, stop_atom_v, stop_mode::drain);
  settle();
  marked(error{ec::storage_full, "full", {}});
  pass(10s);
  marked(error{ec::storage_full, "full", {}});
  pass(250ms);
  CAF_CHECK_EQUAL(database->abandons.size(), 1u); // a drain goes on trying
  auto stopped = ask(testee, stop_atom_v, stop_mode::now);
  settle();
  story();
  pass(2s);
  CAF_CHECK_EQUAL(story(), "");
  pass(1s); // without an answer
  CAF_CHECK_EQUAL(story(), "runner 1: quit; ");
  runner_ends(1);
  CAF_CHECK(take<outcome>(drained).has_value());
  CAF_CHECK(take<outcome>(stopped).has_value());
}

CAF_TEST(an answer to an abandon that was given up does not start a worker early) {
  start();
  worker_throws();
  auto first = next(database->abandons);
  runner_ends(1); // while the database is slow
  swept();
  CAF_REQUIRE_EQUAL(database->abandons.size(), 1u);
  first.answer(kcx::done{});
  settle();
  CAF_CHECK_EQUAL(story(), "sweep; ");
  marked();
  CAF_CHECK_EQUAL(story(), "marked node/1; runner 2: launched; ");
}

CAF_TEST(a runner that does not end a job is killed itself) {
  start();
  start_job();
  worker_throws();
  CAF_CHECK_EQUAL(story(), "runner 1: kill job; ");
  pass(9s);
  CAF_CHECK_EQUAL(story(), "");
  pass(2s);
  CAF_CHECK_EQUAL(story(), "runner 1: killed; ");
  runner_ends(1);
  swept();
  marked();
  CAF_CHECK_EQUAL(story(), "sweep; marked node/1; runner 2: launched; ");
}

CAF_TEST(a runner that dies has its tree swept and its job marked before a new one starts) {
  start();
  start_job();
  runner_ends(1);
  CAF_CHECK_EQUAL(story(), "sweep; ");
  CAF_CHECK(database->abandons.empty());
  CAF_CHECK(cleaned_up.empty());
  swept();
  CAF_CHECK(cleaned_up == std::vector<std::string>{"/w/7-1 /c/7-1"});
  CAF_CHECK_EQUAL(database->abandons.size(), 1u);
  marked();
  CAF_CHECK_EQUAL(story(), "marked node/1; runner 2: launched; ");
  runner_says(2, ready_event{200});
  CAF_CHECK_EQUAL(story(), "node/1: born; ");
  CAF_CHECK(database->abandons.empty()); // exactly once
}

CAF_TEST(what it ran is cleaned up once its runners are gone when it ends itself) {
  start();
  start_job();
  caf::anon_send(testee, fault_atom_v, std::string{"test"});
  settle();
  CAF_CHECK(ended);
  CAF_CHECK_EQUAL(story(), "runner 1: killed; sweep; ");
  CAF_CHECK(cleaned_up.empty());
  swept();
  CAF_CHECK(cleaned_up == std::vector<std::string>{"/w/7-1 /c/7-1"});
}

CAF_TEST(what a dead runner still says is not heard) {
  start();
  start_job();
  runner_ends(1);
  job_ends(1);
  runner_ends(1);
  swept();
  marked();
  CAF_CHECK_EQUAL(story(), "sweep; marked node/1; runner 2: launched; ");
}

CAF_TEST(a runner that never comes up is killed) {
  spawn();
  swept();
  marked();
  pass(9s);
  pass(2s);
  CAF_CHECK_EQUAL(story(), "sweep; marked node/1; runner 1: launched; runner 1: killed; ");
}

CAF_TEST(too many restarts in a window end it with a reason) {
  start();
  for (std::size_t i = 1; i <= 5; ++i) {
    worker_throws();
    marked();
    pass(1s);
    CAF_REQUIRE(!ended);
  }
  worker_throws();
  CAF_REQUIRE(ended);
  CAF_CHECK(ended_with == caf::exit_reason::out_of_workers);
  CAF_CHECK_EQUAL(text_of(ended_with), "worker node/1 had to be restarted more than 5 times within 60 s, the last time "
                                       "because: thrown");
  CAF_CHECK_EQUAL(log->back(), "runner 1: killed");
}

CAF_TEST(runners that die under their jobs slow their slot down and never end it) {
  start();
  for (std::size_t i = 1; i <= 30; ++i) {
    runner_ends(i);
    swept();
    marked();
    pass(30s);
    CAF_REQUIRE_EQUAL(host->runners.size(), i + 1);
    runner_says(i + 1, ready_event{100});
    CAF_REQUIRE(!ended);
  }
}

CAF_TEST(the pause after each death of a runner is twice as long) {
  start();
  const auto dies = [&] {
    runner_ends(host->runners.size());
    swept();
    marked();
  };
  const auto pause = [&] {
    const auto before = host->runners.size();
    auto waited = 0ms;
    for (; host->runners.size() == before; waited += 250ms)
      pass(250ms);
    runner_says(host->runners.size(), ready_event{100});
    return waited;
  };
  dies();
  CAF_REQUIRE_EQUAL(host->runners.size(), 2u); // at once
  runner_says(2, ready_event{100});
  for (const auto expected : {250ms, 500ms, 1000ms, 2000ms}) {
    dies();
    CAF_CHECK_EQUAL(pause().count(), expected.count());
  }
}

CAF_TEST(a slot that pauses can be stopped) {
  start();
  for (std::size_t i = 1; i <= 2; ++i) {
    runner_ends(i);
    swept();
    marked();
    if (i == 1)
      runner_says(2, ready_event{100});
  }
  CAF_REQUIRE_EQUAL(host->runners.size(), 2u);
  auto stopped = ask(testee, stop_atom_v, stop_mode::drain);
  settle();
  CAF_CHECK(take<outcome>(stopped).has_value());
}

CAF_TEST(a node whose runners never come up gives up) {
  spawn();
  swept();
  marked();
  for (std::size_t i = 1; i <= 6; ++i) {
    CAF_REQUIRE(!ended);
    CAF_REQUIRE_EQUAL(host->runners.size(), i);
    runner_ends(i);
    if (i == 6)
      break;
    swept();
    marked();
    while (host->runners.size() == i)
      pass(250ms);
  }
  CAF_REQUIRE(ended);
  CAF_CHECK(text_of(ended_with).find("because: its runner does not come up") != std::string::npos);
}

CAF_TEST(a runner that gives no sign of life is killed and its job marked) {
  start();
  start_job();
  for (int i = 0; i < 6; ++i) {
    pass(5s);
    CAF_CHECK_EQUAL(story(), "");
  }
  CAF_CHECK_EQUAL(*host->pings, 6);
  pass(5s);
  CAF_CHECK_EQUAL(story(), "runner 1: killed; ");
  runner_ends(1);
  swept();
  marked();
  CAF_CHECK_EQUAL(story(), "sweep; marked node/1; runner 2: launched; ");
}

CAF_TEST(a runner that answers is left alone) {
  start();
  start_job();
  for (int i = 0; i < 30; ++i) {
    pass(5s);
    runner_says(1, pong_event{});
  }
  CAF_CHECK_EQUAL(story(), "");
}

CAF_TEST(a silent runner is killed soon while all stop at once) {
  start();
  start_job();
  caf::anon_send(testee, stop_atom_v, stop_mode::now);
  settle();
  log->clear();
  for (int i = 0; i < 3; ++i)
    pass(5s);
  CAF_CHECK(std::ranges::count(*log, "runner 1: killed") > 0);
}

CAF_TEST(restarts that are far apart are no reason to end) {
  start();
  for (std::size_t i = 1; i <= 20; ++i) {
    worker_throws();
    marked();
    pass(20s);
  }
  CAF_CHECK(!ended);
}

CAF_TEST(a stop is answered when no worker and no runner is left) {
  start();
  auto stopped = ask(testee, stop_atom_v, stop_mode::drain);
  settle();
  CAF_CHECK_EQUAL(story(), "node/1: drain; runner 1: quit; ");
  CAF_CHECK(!take<outcome>(stopped).has_value());
  runner_ends(1);
  const auto answer = take<outcome>(stopped);
  CAF_REQUIRE(answer.has_value());
  CAF_CHECK(answer->has_value());
}

CAF_TEST(a stop waits for what is being cleaned up) {
  start();
  start_job();
  worker_throws();
  auto stopped = ask(testee, stop_atom_v, stop_mode::now);
  settle();
  job_ends(1);
  marked();
  CAF_CHECK_EQUAL(story(), "runner 1: kill job; marked node/1; runner 1: quit; ");
  runner_ends(1);
  CAF_CHECK(take<outcome>(stopped).has_value());
  CAF_CHECK_EQUAL(workers.size(), 1u);
}

CAF_TEST(a runner that does not quit is killed) {
  start();
  auto stopped = ask(testee, stop_atom_v, stop_mode::drain);
  settle();
  log->clear();
  pass(10s);
  CAF_CHECK_EQUAL(story(), "runner 1: killed; ");
  runner_ends(1);
  CAF_CHECK(take<outcome>(stopped).has_value());
}

CAF_TEST(workers that end in peace are no reason to end) {
  start();
  for (int i = 0; i < 10; ++i) {
    caf::anon_send(workers.back(), stop_atom_v, stop_mode::drain);
    settle();
    marked();
  }
  CAF_CHECK(!ended);
  CAF_CHECK_EQUAL(workers.size(), 11u);
}

CAF_TEST(its end ends the runners) {
  start();
  caf::anon_send(testee, fault_atom_v, std::string{"test"});
  settle();
  CAF_CHECK(ended);
  CAF_CHECK_EQUAL(story(), "runner 1: killed; ");
}

CAF_TEST(a change of slots is answered when it holds and its many runners start one after the other) {
  start();
  auto changed = ask(testee, slots_atom_v, std::uint32_t{50});
  sched.run_once();
  CAF_CHECK(take<outcome>(changed).has_value());
  CAF_CHECK_LESS(host->runners.size(), 10u);
  settle();
  CAF_CHECK_EQUAL(host->runners.size(), 50u);
  for (std::size_t each = 2; each <= 50; ++each)
    runner_says(each, ready_event{static_cast<std::int32_t>(100 + each)});
  CAF_CHECK_EQUAL(workers.size(), 50u);
}

CAF_TEST(slots that are wanted no longer before their runner started never get one) {
  start();
  auto more = ask(testee, slots_atom_v, std::uint32_t{50});
  auto fewer = ask(testee, slots_atom_v, std::uint32_t{1});
  sched.run_once();
  sched.run_once();
  CAF_CHECK_LESS(host->runners.size(), 10u);
  const auto launched = host->runners.size();
  settle();
  CAF_CHECK_EQUAL(host->runners.size(), launched);
  CAF_CHECK(take<outcome>(more).has_value());
  CAF_CHECK(take<outcome>(fewer).has_value());
  for (std::size_t each = 2; each <= launched; ++each)
    runner_ends(each);
  CAF_CHECK_EQUAL(list().size(), 1u);
}

CAF_TEST(it tells what every slot does) {
  start();
  auto workers_now = list();
  CAF_REQUIRE_EQUAL(workers_now.size(), 1u);
  CAF_CHECK_EQUAL(workers_now[0].name, "node/1");
  CAF_CHECK_EQUAL(workers_now[0].state, "idle");
  CAF_CHECK_EQUAL(workers_now[0].runner_pid, 100);
  start_job();
  workers_now = list();
  CAF_CHECK_EQUAL(workers_now[0].state, "busy");
  CAF_CHECK(workers_now[0].attempt == (attempt_key{{7}, 1}));
  job_ends(1);
  CAF_CHECK_EQUAL(std::string{list()[0].state}, "idle");
}

CAF_TEST(workers hear of a new dispatcher and a new log hub) {
  start();
  caf::anon_send(testee, rewire_atom_v, dispatcher_actor{});
  caf::anon_send(testee, rewire_atom_v, log_hub_actor{});
  settle();
  CAF_CHECK_EQUAL(story(), "node/1: new dispatcher; node/1: new log hub; ");
}

CAF_TEST_FIXTURE_SCOPE_END()
