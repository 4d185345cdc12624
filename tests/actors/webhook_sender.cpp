#define CAF_SUITE webhook_sender
#include "actors/webhook_sender.hpp"

#include "tests/actors/actor_fixture.hpp"

#include <caf/send.hpp>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

/// The outbox that both fakes share.
struct outbox {
  std::map<std::int64_t, delivery> items;
  std::vector<delivery_try> noted;
  bool storing_fails = false;
  int looks = 0;
  int subscriptions = 0;
  /// How many of them stood at the last look.
  int subscriptions_at_look = 0;
  /// While it is set, looks are answered by release() only, with what stood there when they were asked.
  bool hold = false;
  std::vector<std::pair<caf::typed_response_promise<expected<due_deliveries>>, due_deliveries>> held;

  void add(std::int64_t id, const std::string& url, timestamp at) {
    auto& made = items[id];
    made.id = id;
    made.url = url;
    made.next_at = at;
  }
};

reader_actor::behavior_type fake_reader(reader_actor::pointer self, outbox* box) {
  const error none{ec::internal, "not part of these tests", {}};
  return {
    [=](get_atom, job_id) { return expected<job_record>{none}; },
    [=](list_atom, const job_filter&) { return expected<job_page>{none}; },
    [=](log_atom, job_id, std::int32_t) { return expected<log_location>{none}; },
    [=](events_atom, const event_filter&) { return expected<event_page>{none}; },
    [=](token_atom) { return expected<std::vector<token_record>>{none}; },
    [=](webhook_atom) { return expected<std::vector<project_webhook>>{none}; },
    [=](deliver_atom, timestamp now) {
      ++box->looks;
      box->subscriptions_at_look = box->subscriptions;
      due_deliveries due;
      for (const auto& [id, each] : box->items) {
        if (!each.next_at)
          continue;
        if (*each.next_at <= now)
          due.items.push_back(each);
        else if (!due.next_at || *each.next_at < *due.next_at)
          due.next_at = each.next_at;
      }
      auto promise = self->make_response_promise<expected<due_deliveries>>();
      if (box->hold)
        box->held.emplace_back(promise, due);
      else
        promise.deliver(expected<due_deliveries>{due});
      return promise;
    },
    [=](deliver_atom, const delivery_filter&) { return expected<delivery_page>{none}; },
    [=](stats_atom) { return expected<queue_stats>{none}; },
    [=](queues_atom) { return expected<std::vector<queue_info>>{none}; },
    [=](queues_atom, const std::string&) { return expected<queue_info>{none}; },
    [=](why_atom, job_id) { return expected<job_blockers>{none}; },
    [](status_atom) { return actor_status::object(); },
    [=](fault_atom, const std::string&) {
      for (auto& [promise, due] : std::exchange(box->held, {}))
        promise.deliver(expected<due_deliveries>{due});
    },
  };
}

/// Stands for the database as far as the sender knows it.
caf::behavior fake_database(caf::event_based_actor*, outbox* box) {
  return {
    [=](subscribe_atom, const change_listener_actor&) { ++box->subscriptions; },
    [](status_atom) { return actor_status::object(); },
    [=](deliver_atom, const delivery_try& tried) -> outcome {
      if (box->storing_fails)
        return error{ec::storage_full, "scripted", {}};
      box->noted.push_back(tried);
      auto& stored = box->items.at(tried.id);
      stored.next_at = tried.next_at;
      ++stored.tries;
      return kcx::done{};
    },
  };
}

struct fixture : actor_fixture {
  outbox box;
  timestamp wall{1'000'000'000ms};
  std::vector<std::pair<delivery, std::function<void(delivery_try)>>> sent;
  webhook_sender_actor testee;
  caf::actor database = sys.spawn(fake_database, &box);
  reader_actor reader = sys.spawn(fake_reader, &box);

  webhook_sender_actor start() {
    webhook_sender_options options;
    options.clock = [this] { return wall; };
    options.send = [this](delivery what, std::function<void(delivery_try)> done) {
      sent.emplace_back(std::move(what), std::move(done));
    };
    options.tries = 3;
    options.parallel = 3;
    options.parallel_to_one = 2;
    testee = sys.spawn<webhook_sender>(caf::actor_cast<database_actor>(database), std::vector{reader}, options);
    settle();
    return testee;
  }

  ~fixture() override {
    sent.clear();
    for (const auto& each : {caf::actor_cast<caf::actor>(testee), database, caf::actor_cast<caf::actor>(reader)})
      if (each)
        caf::anon_send_exit(each, caf::exit_reason::kill);
    settle();
  }

  void settle() { consume_messages(); }

  void pass(std::chrono::milliseconds span) {
    wall += span;
    advance_time(span);
    settle();
  }

  void answer(std::size_t which, std::optional<std::int32_t> status) {
    delivery_try said;
    said.id = sent.at(which).first.id;
    said.status = status;
    said.failure = status ? "" : "no route";
    sent.at(which).second(said);
    settle();
  }

  void release() {
    box.hold = false;
    caf::anon_send(reader, fault_atom_v, std::string{"answer"}); // a promise is its actor's to keep
    settle();
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

CAF_TEST_FIXTURE_SCOPE(webhook_sender_tests, fixture)

CAF_TEST(what stands in the outbox at the start is sent and noted) {
  box.add(7, "http://a/x", wall);
  start();
  CAF_REQUIRE_EQUAL(sent.size(), 1u);
  CAF_CHECK(box.noted.empty());
  answer(0, 204);
  CAF_REQUIRE_EQUAL(box.noted.size(), 1u);
  CAF_CHECK(box.noted[0].state == delivery_state::delivered && box.noted[0].status == 204 && !box.noted[0].next_at);
  pass(1h);
  CAF_CHECK_EQUAL(sent.size(), 1u);
}

CAF_TEST(a failure is tried again after a pause that doubles and then given up) {
  box.add(7, "http://a/x", wall);
  start();
  answer(0, 500);
  CAF_CHECK(box.noted.at(0).next_at == wall + 10s);
  pass(9s);
  CAF_CHECK_EQUAL(sent.size(), 1u);
  pass(1s);
  CAF_REQUIRE_EQUAL(sent.size(), 2u);
  answer(1, {});
  CAF_CHECK_EQUAL(box.noted.at(1).failure, "no route");
  CAF_CHECK(box.noted.at(1).next_at == wall + 20s);
  pass(20s);
  CAF_REQUIRE_EQUAL(sent.size(), 3u);
  answer(2, 404);
  CAF_CHECK(box.noted.at(2).state == delivery_state::failed && !box.noted.at(2).next_at);
  pass(1h);
  CAF_CHECK_EQUAL(sent.size(), 3u);
}

CAF_TEST(it looks only once it hears of changes so that none falls between) {
  start();
  CAF_CHECK_EQUAL(box.looks, 1);
  CAF_CHECK_EQUAL(box.subscriptions_at_look, 1);
  caf::anon_send(testee, rewire_atom_v, caf::actor_cast<database_actor>(database));
  settle();
  CAF_CHECK_EQUAL(box.looks, 2);
  CAF_CHECK_EQUAL(box.subscriptions_at_look, 2);
}

CAF_TEST(a change of a job that is told has it look once for a burst) {
  start();
  const auto before = box.looks;
  changed(job_state::queued);
  pass(50ms);
  CAF_CHECK_EQUAL(box.looks, before);
  box.add(1, "http://a/x", wall);
  for (int i = 0; i < 10; ++i)
    changed(job_state::succeeded);
  CAF_CHECK_EQUAL(box.looks, before);
  pass(50ms);
  CAF_CHECK_EQUAL(box.looks, before + 1);
  CAF_CHECK_EQUAL(sent.size(), 1u);
}

CAF_TEST(a receiver that does not answer does not hold up the others) {
  for (std::int64_t id = 1; id <= 5; ++id)
    box.add(id, "http://slow/x", wall);
  box.add(6, "http://quick/x", wall);
  box.add(7, "http://quick/x", wall);
  start();
  CAF_REQUIRE_EQUAL(sent.size(), 3u);
  CAF_CHECK_EQUAL(sent[2].first.url, "http://quick/x");
  answer(2, 200);
  CAF_REQUIRE_EQUAL(sent.size(), 4u);
  CAF_CHECK_EQUAL(sent[3].first.id, 7);
}

CAF_TEST(a result that cannot be stored is sent again) {
  box.add(7, "http://a/x", wall);
  box.storing_fails = true;
  start();
  answer(0, 200);
  box.storing_fails = false;
  pass(1s);
  CAF_REQUIRE_EQUAL(sent.size(), 2u);
  answer(1, 200);
  CAF_CHECK(box.noted.at(0).state == delivery_state::delivered);
}

CAF_TEST(what was noted while a look was under way is not sent again) {
  box.add(7, "http://a/x", wall);
  start();
  box.hold = true;
  caf::anon_send(testee, deliver_atom_v);
  settle();
  answer(0, 200);
  CAF_CHECK_EQUAL(box.noted.size(), 1u);
  release();
  CAF_CHECK_EQUAL(sent.size(), 1u);
  box.items[7].next_at = wall;
  caf::anon_send(testee, deliver_atom_v);
  settle();
  CAF_CHECK_EQUAL(sent.size(), 2u);
}

CAF_TEST(a result tells which try it is of) {
  box.add(7, "http://a/x", wall);
  box.items[7].tries = 2;
  start();
  answer(0, 500);
  CAF_CHECK_EQUAL(box.noted.at(0).tries, 2);
}

CAF_TEST(somebody who wants a delivery again need not wait) {
  start();
  box.add(7, "http://a/x", wall);
  caf::anon_send(testee, deliver_atom_v);
  settle();
  CAF_CHECK_EQUAL(sent.size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()
