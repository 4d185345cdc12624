#define CAF_SUITE log_hub
#include "actors/log_hub.hpp"

#include "tests/actors/actor_fixture.hpp"

#include <caf/send.hpp>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

class fake_follower_host : public follower_host_actor::base {
public:
  fake_follower_host(caf::actor_config& cfg, std::shared_ptr<std::vector<follower_id>> woken)
    : follower_host_actor::base{cfg}, woken_{std::move(woken)} {}

  behavior_type make_behavior() override {
    return {[this](grew_atom, follower_id follower) { woken_->push_back(follower); }};
  }

private:
  std::shared_ptr<std::vector<follower_id>> woken_;
};

constexpr attempt_key first{{3}, 1};
constexpr attempt_key second{{3}, 2};

struct fixture : actor_fixture {
  std::shared_ptr<std::vector<follower_id>> woken = std::make_shared<std::vector<follower_id>>();
  follower_host_actor host = sys.spawn<fake_follower_host>(woken);
  log_hub_actor testee = sys.spawn<log_hub>();

  ~fixture() override {
    caf::anon_send_exit(testee, caf::exit_reason::kill);
    caf::anon_send_exit(host, caf::exit_reason::kill);
    settle();
  }

  void settle() { consume_messages(); }

  void pass(std::chrono::milliseconds span) {
    advance_time(span);
    settle();
  }

  void follow(attempt_key key, follower_id follower) {
    caf::anon_send(testee, follow_atom_v, key, follower, host);
    settle();
  }

  void grow(attempt_key key) {
    caf::anon_send(testee, grew_atom_v, key, std::int64_t{1});
    settle();
  }

  void change(attempt_key key, job_state state) {
    job_change changed;
    changed.id = key.job;
    changed.attempt = key.attempt;
    changed.state = state;
    caf::anon_send(testee, changed_atom_v, std::make_shared<const std::vector<job_change>>(1, changed));
    settle();
  }

  /// Who was woken since the last call.
  std::vector<follower_id> wakes() { return std::exchange(*woken, {}); }

  std::uint64_t followers() {
    auto pending = ask(testee, status_atom_v);
    settle();
    return take<actor_status>(pending).value().at("followers").get<std::uint64_t>();
  }
};

using ids = std::vector<follower_id>;

} // namespace

CAF_TEST_FIXTURE_SCOPE(log_hub_tests, fixture)

CAF_TEST(a new follower is woken once so that it misses nothing) {
  follow(first, 1);
  CAF_CHECK(wakes() == ids{1});
}

CAF_TEST(only those who follow the log that grew are woken) {
  follow(first, 1);
  follow(second, 2);
  follow(first, 3);
  wakes();
  grow(first);
  CAF_CHECK(wakes() == (ids{1, 3}));
}

CAF_TEST(growth within the window wakes once more at its end) {
  follow(first, 1);
  wakes();
  for (int i = 0; i < 10; ++i)
    grow(first);
  CAF_CHECK(wakes() == ids{1});
  pass(50ms);
  CAF_CHECK(wakes() == ids{1});
  pass(50ms);
  CAF_CHECK(wakes().empty());
  grow(first);
  CAF_CHECK(wakes() == ids{1});
}

CAF_TEST(the end of the job wakes its followers a last time) {
  follow(first, 1);
  wakes();
  change(first, job_state::cancelling);
  CAF_CHECK(wakes().empty());
  change(first, job_state::succeeded);
  CAF_CHECK(wakes() == ids{1});
  CAF_CHECK_EQUAL(followers(), 0u);
  grow(first);
  CAF_CHECK(wakes().empty());
}

CAF_TEST(the end of an attempt leaves the followers of a later one) {
  follow(first, 1);
  follow(second, 2);
  wakes();
  change(first, job_state::scheduled);
  CAF_CHECK(wakes() == ids{1});
  CAF_CHECK_EQUAL(followers(), 1u);
}

CAF_TEST(a follower that is gone is woken no more) {
  follow(first, 1);
  follow(first, 2);
  wakes();
  caf::anon_send(testee, unfollow_atom_v, first, follower_id{1});
  grow(first);
  CAF_CHECK(wakes() == ids{2});
}

CAF_TEST(the followers of a host that ends are forgotten) {
  follow(first, 1);
  follow(second, 2);
  caf::anon_send_exit(host, caf::exit_reason::kill);
  settle();
  CAF_CHECK_EQUAL(followers(), 0u);
}

CAF_TEST_FIXTURE_SCOPE_END()
