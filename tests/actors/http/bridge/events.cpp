#define CAF_SUITE bridge_events
#include "actors/http/api/events.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

struct bridge_with_events {
  bridge_harness bridge;

  void happen(std::int64_t job, job_state state) {
    job_event event;
    event.number = static_cast<std::int64_t>(bridge.node.events.size()) + 1;
    event.job = {job};
    event.what.state = state;
    bridge.node.events.push_back(event);
    bridge.node.jobs.try_emplace(job, some_job(job, job_state::queued));
    bridge.change({job}, state, 0);
    bridge.advance(20ms);
  }
};

/// The ids of the events in a stream, in order.
std::vector<std::string> ids_in(const std::string& text) {
  std::vector<std::string> ids;
  for (auto at = text.find("id: "); at != std::string::npos; at = text.find("id: ", at + 1))
    ids.push_back(text.substr(at + 4, text.find('\n', at) - at - 4));
  return ids;
}

using texts = std::vector<std::string>;

} // namespace

CAF_TEST(a follower gets each change from now on with its number) {
  bridge_with_events with;
  with.happen(1, job_state::queued);
  const auto answer = with.bridge.ask("GET", "/v1/events");
  CAF_REQUIRE_EQUAL(answer->status(), 200u);
  CAF_CHECK_EQUAL(answer->header("Content-Type"), "text/event-stream");
  body_reader body{*answer->answer};
  CAF_CHECK_EQUAL(body.take(), "retry: 1000\nid: 1\n\n");
  with.bridge.advance(20ms);
  with.happen(1, job_state::running);
  auto text = body.take();
  with.bridge.advance(20ms);
  CAF_CHECK_EQUAL(ids_in(text), texts{"2"});
  CAF_CHECK(text.find("\"state\":\"running\"") != std::string::npos);
  CAF_CHECK(text.find("event: job\n") != std::string::npos);
  CAF_CHECK(!body.ended() && !body.failed());
}

CAF_TEST(a follower that comes back misses nothing and gets nothing twice) {
  bridge_with_events with;
  for (int i = 0; i < 500; ++i)
    with.happen(i + 1, job_state::queued);
  const auto answer = with.bridge.ask("GET", "/v1/events", {{}, {{"Last-Event-ID", "3"}}, true});
  body_reader body{*answer->answer};
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += body.take();
    with.bridge.advance(20ms);
  }
  text += body.take();
  const auto ids = ids_in(text);
  CAF_REQUIRE_EQUAL(ids.size(), 497u);
  for (std::size_t i = 0; i < ids.size(); ++i)
    CAF_CHECK_EQUAL(ids[i], std::to_string(i + 4));
}

CAF_TEST(a client that does not read costs one page at most) {
  bridge_with_events with;
  const auto answer = with.bridge.ask("GET", "/v1/events?after=0");
  for (int i = 0; i < 1000; ++i)
    with.happen(i + 1, job_state::queued);
  CAF_CHECK(with.bridge.node.event_filters.empty());
}

CAF_TEST(filters reach the reader and wrong ones are refused) {
  bridge_harness bridge;
  const auto answer = bridge.ask("GET", "/v1/events?project=web&queue=slow&job=7&after=5");
  body_reader body{*answer->answer};
  body.take();
  bridge.advance(20ms);
  CAF_REQUIRE(!bridge.node.event_filters.empty());
  const auto& filter = bridge.node.event_filters.back();
  CAF_CHECK(filter.project == "web" && filter.queue == "slow" && filter.job == job_id{7} && filter.after == 5);
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/events?job=x")->code(), "invalid_parameter");
  CAF_CHECK_EQUAL(bridge.ask("GET", "/v1/events?after=-1")->code(), "invalid_parameter");
}

CAF_TEST(a follower of events is forgotten when it goes and cut when the bridge dies) {
  bridge_harness bridge;
  const auto one = bridge.ask("GET", "/v1/events");
  const auto two = bridge.ask("GET", "/v1/events");
  body_reader first{*one->answer};
  body_reader second{*two->answer};
  CAF_CHECK_EQUAL(bridge.status("feeds"), 2);
  first.hang_up();
  bridge.advance(1ms);
  CAF_CHECK_EQUAL(bridge.status("feeds"), 1);
  second.take();
  bridge.crash();
  second.take();
  CAF_CHECK(second.failed());
}

CAF_TEST(events end with the token that they are followed with) {
  bridge_with_events with;
  const auto token = with.bridge.make_token("read");
  const auto mine = with.bridge.ask("GET", "/v1/events?after=0", {{}, {}, true, token});
  const auto other = with.bridge.ask("GET", "/v1/events?after=0");
  body_reader revoked{*mine->answer};
  body_reader admin{*other->answer};
  revoked.take();
  admin.take();
  CAF_CHECK_EQUAL(with.bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  with.happen(1, job_state::queued);
  CAF_CHECK_EQUAL(ids_in(revoked.take()), texts{});
  CAF_CHECK(revoked.failed());
  CAF_CHECK_EQUAL(ids_in(admin.take()), texts{"1"});
  CAF_CHECK_EQUAL(with.bridge.status("feeds"), 1);
}

CAF_TEST(events that nobody has anything to tell of end with their token all the same) {
  bridge_harness bridge;
  const auto token = bridge.make_token("read", 1min);
  const auto answer = bridge.ask("GET", "/v1/events?after=0", {{}, {}, true, token});
  body_reader body{*answer->answer};
  body.take();
  bridge.now += 59s;
  bridge.advance(5s);
  body.take();
  CAF_CHECK(!body.failed());
  bridge.now += 1s;
  bridge.advance(5s);
  body.take();
  CAF_CHECK(body.failed());
}

CAF_TEST(events end with the session that they are followed in) {
  bridge_harness bridge;
  const auto set = bridge.ask("POST", "/v1/session")->header("Set-Cookie");
  const auto cookie = set.substr(0, set.find(';'));
  const auto answer = bridge.ask("GET", "/v1/events?after=0", {{}, {{"Cookie", cookie}}, false, {}});
  body_reader body{*answer->answer};
  body.take();
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/session", {{}, {{"Cookie", cookie}}, false, {}})->status(), 204u);
  body.take();
  CAF_CHECK(body.failed());
}
