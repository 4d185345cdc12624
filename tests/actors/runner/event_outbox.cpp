#define CAF_SUITE runner_event_outbox
#include "actors/runner/event_outbox.hpp"

#include "actors/runner/frame_splitter.hpp"
#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace std::chrono_literals;

namespace {

struct fixture {
  event_outbox outbox;
  event_outbox::time_point now;
  const attempt_key key{{7}, 1};

  void add(const runner_event& event) { outbox.add(event, now); }

  /// Sends all there is to send: the kinds of events by their first letters.
  std::string sent() {
    frame_splitter frames;
    frames.feed(std::exchange(outbox.unsent(now), {}));
    std::string kinds;
    for (auto frame = frames.next(); frame && *frame; frame = frames.next())
      kinds += "rslfp"[kind_of(decode_event(**frame))];
    return kinds;
  }

  static std::size_t kind_of(const expected<runner_event>& event) {
    // A start and a change of a step are both news.
    const auto index = event->index();
    return index < 2 ? index : index - 1;
  }

  void start() {
    add(started_event{key, {}, 100});
    add(step_event{key, 0, step_state::running, {}, {}, {}});
  }

  void finish() {
    finished_event event;
    event.key = key;
    add(event);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(event_outbox_tests, fixture)

CAF_TEST(a job that ends at once is told of once) {
  start();
  CAF_CHECK_EQUAL(sent(), "");
  now += event_outbox::patience - 1ms;
  finish();
  CAF_CHECK_EQUAL(sent(), "f");
  CAF_CHECK(!outbox.due());
  now += 1h;
  CAF_CHECK_EQUAL(sent(), "");
}

CAF_TEST(a start is told when it is due) {
  start();
  CAF_REQUIRE(outbox.due().has_value());
  now = *outbox.due();
  CAF_CHECK_EQUAL(sent(), "ss");
  CAF_CHECK(!outbox.due());
  finish();
  CAF_CHECK_EQUAL(sent(), "f");
}

CAF_TEST(later steps wait no longer than the first) {
  start();
  const auto due = outbox.due();
  now += 5ms;
  add(step_event{key, 0, step_state::succeeded, 0, {}, {}});
  CAF_CHECK(outbox.due() == due);
}

CAF_TEST(what does not wait goes with what came before it) {
  start();
  add(log_event{key, 12});
  CAF_CHECK_EQUAL(sent(), "ssl");
  add(step_event{key, 0, step_state::succeeded, 0, {}, {}});
  add(pong_event{});
  CAF_CHECK_EQUAL(sent(), "sp");
}

CAF_TEST_FIXTURE_SCOPE_END()
