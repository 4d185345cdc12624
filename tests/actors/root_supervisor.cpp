#define CAF_SUITE root_supervisor

#include "actors/root_supervisor.hpp"

#include "tests/actors/actor_fixture.hpp"

#include <caf/event_based_actor.hpp>

#include <algorithm>
#include <map>

using namespace kcx;
using namespace kcx::test;

namespace {

/// What the children tell the test: births, rewirings and deaths, in order.
using journal = std::vector<std::string>;

/// Stands for any child: throws when told, answers a stop, and notes each rewiring.
caf::behavior fake_child(caf::event_based_actor* self, std::string name, journal* events) {
  self->set_default_handler(caf::drop);
  self->set_exit_handler([=](caf::exit_msg& stop) {
    events->push_back("stop " + name);
    self->quit(std::move(stop.reason));
  });
  const auto rewired = [=](const std::string& whom) { events->push_back("rewire " + name + " to " + whom); };
  return {
    [](fault_atom, const std::string& text) { throw std::runtime_error{text}; },
    [=](fault_atom, std::uint32_t, const std::string&) { self->quit(give_up("scripted")); },
    [=](stop_atom, stop_mode) {
      events->push_back("workers stopped");
      return outcome{kcx::done{}};
    },
    [=](slots_atom, std::uint32_t slots) { events->push_back(name + " " + std::to_string(slots) + " slots"); },
    [=](update_atom, const retention_policy& keep) {
      events->push_back(name + " keeps " + std::to_string(keep.size()) + " states");
    },
    [=](drain_atom) { events->push_back("drain " + name); },
    [=](rewire_atom, const database_actor&) { rewired("database"); },
    [=](rewire_atom, const std::vector<reader_actor>&) { rewired("reader"); },
    [=](rewire_atom, const log_hub_actor&) { rewired("log_hub"); },
    [=](rewire_atom, const dispatcher_actor&) { rewired("dispatcher"); },
    [=](rewire_atom, const worker_supervisor_actor&) { rewired("worker_supervisor"); },
  };
}

struct fixture : actor_fixture {
  journal events;
  std::size_t failing_readers = 0;
  std::chrono::steady_clock::time_point clock{};
  caf::error ended;
  root_supervisor_actor root = start();

  template <class Handle>
  Handle spawn_child(caf::local_actor& parent, const std::string& name) {
    events.push_back("start " + name);
    return caf::actor_cast<Handle>(parent.spawn(fake_child, name, &events));
  }

  root_supervisor_actor start() {
    root_options options;
    auto& make = options.factories;
    make.database = [this](caf::local_actor& parent) -> expected<database_actor> {
      return spawn_child<database_actor>(parent, "database");
    };
    make.readers = 2;
    make.reader = [this](caf::local_actor& parent) -> expected<reader_actor> {
      if (failing_readers > 0) {
        --failing_readers;
        return error{ec::storage_failed, "scripted", {}};
      }
      return spawn_child<reader_actor>(parent, "reader");
    };
    make.log_hub = [this](caf::local_actor& p) { return spawn_child<log_hub_actor>(p, "log_hub"); };
    make.dispatcher = [this](caf::local_actor& p, const node_actors&) {
      return spawn_child<dispatcher_actor>(p, "dispatcher");
    };
    make.worker_supervisor = [this](caf::local_actor& p, const node_actors&) {
      return spawn_child<worker_supervisor_actor>(p, "worker_supervisor");
    };
    make.scheduler = [this](caf::local_actor& p, const node_actors&) {
      return spawn_child<scheduler_actor>(p, "scheduler");
    };
    make.webhook_sender = [this](caf::local_actor& p, const node_actors&) {
      return spawn_child<webhook_sender_actor>(p, "webhook_sender");
    };
    make.http_bridge = [this](caf::local_actor& p, const node_actors&) {
      return spawn_child<http_bridge_actor>(p, "http_bridge");
    };
    make.inspector = [this](caf::local_actor& p, const node_actors&) {
      return spawn_child<inspector_actor>(p, "inspector");
    };
    options.restart_limit = 3;
    options.restart_window = std::chrono::seconds{60};
    options.fault_injection = true;
    options.close_listeners = [this] { events.push_back("listeners closed"); };
    options.clock = [this] { return clock; };
    auto handle = sys.spawn<root_supervisor>(std::move(options));
    handle->attach_functor([this](const caf::error& reason) { ended = reason; });
    run();
    return handle;
  }

  /// Makes a child throw and lets the node settle; what happened from then on.
  journal fault(const std::string& name, std::uint32_t index = 1) {
    events.clear();
    anon_send(root, fault_atom_v, name, index);
    run();
    return events;
  }

  ~fixture() override {
    anon_send_exit(root, caf::exit_reason::kill);
    run();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(root_supervisor_tests, fixture)

CAF_TEST(children start in order) {
  CAF_CHECK_EQUAL(events, journal({"start database", "start reader", "start reader", "start log_hub",
                                   "start dispatcher", "start worker_supervisor", "start scheduler",
                                   "start webhook_sender", "start http_bridge", "start inspector"}));
}

CAF_TEST(a reader that throws is replaced and those who read get the new list) {
  CAF_CHECK_EQUAL(fault("reader", 2), journal({"start reader", "rewire webhook_sender to reader",
                                               "rewire http_bridge to reader", "rewire inspector to reader"}));
}

CAF_TEST(a database that throws is replaced and everyone who writes gets the new handle) {
  auto happened = fault("database");
  CAF_REQUIRE(!happened.empty());
  CAF_CHECK_EQUAL(happened.front(), "start database");
  std::sort(happened.begin() + 1, happened.end());
  CAF_CHECK_EQUAL(happened, journal({"start database", "rewire dispatcher to database",
                                     "rewire http_bridge to database", "rewire scheduler to database",
                                     "rewire webhook_sender to database", "rewire worker_supervisor to database"}));
}

CAF_TEST(restarts spread over time are unlimited) {
  for (int i = 0; i < 10; ++i) {
    clock += std::chrono::seconds{61};
    CAF_CHECK_EQUAL(fault("scheduler"), journal({"start scheduler"}));
  }
}

CAF_TEST(too many restarts in a window end the node with an error that names the actor) {
  for (int i = 0; i < 3; ++i)
    CAF_CHECK_EQUAL(fault("dispatcher"), journal({"start dispatcher", "rewire worker_supervisor to dispatcher",
                                                  "rewire http_bridge to dispatcher"}));
  fault("dispatcher");
  CAF_CHECK_EQUAL(std::ranges::count(events, "start dispatcher"), 0);
  const auto text = caf::to_string(ended);
  CAF_CHECK(text.find("too many restarts") != std::string::npos);
  CAF_CHECK(text.find("dispatcher") != std::string::npos);
}

CAF_TEST(a worker supervisor that gives up ends the node at once) {
  fault("worker", 1);
  CAF_CHECK(caf::to_string(ended).find("worker_supervisor") != std::string::npos);
}

CAF_TEST(a child that cannot start is tried again) {
  failing_readers = 1;
  fault("reader"); // run() lets the retry's time pass.
  CAF_CHECK_EQUAL(std::ranges::count(events, "start reader"), 1);
  CAF_CHECK_EQUAL(std::ranges::count(events, "rewire http_bridge to reader"), 1);
}

CAF_TEST(a stop drains and then ends the children in reverse order) {
  events.clear();
  auto pending = ask(root, stop_atom_v, stop_mode::drain);
  run();
  CAF_CHECK(take<outcome>(pending)->has_value());
  CAF_CHECK_EQUAL(events, journal({"drain http_bridge", "drain inspector", "drain dispatcher", "workers stopped",
                                   "listeners closed", "stop inspector", "stop http_bridge", "stop webhook_sender",
                                   "stop scheduler", "stop worker_supervisor", "stop dispatcher", "stop log_hub",
                                   "stop reader", "stop reader", "stop database"}));
  CAF_CHECK(!ended);
}

CAF_TEST(settings that change reach those whom they concern) {
  run();
  events.clear();
  anon_send(root, slots_atom_v, std::uint32_t{7});
  anon_send(root, update_atom_v, retention_policy{{job_state::failed, {}}});
  run();
  CAF_CHECK_EQUAL(events, journal({"worker_supervisor 7 slots", "scheduler keeps 1 states"}));
}

CAF_TEST(a fault in an actor that does not exist is not found) {
  auto pending = ask(root, fault_atom_v, std::string{"nobody"}, std::uint32_t{1});
  run();
  const auto reply = take<outcome>(pending);
  CAF_REQUIRE(reply);
  CAF_CHECK(!*reply && reply->error().code == ec::not_found);
}

CAF_TEST_FIXTURE_SCOPE_END()
