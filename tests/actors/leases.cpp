// The leases of the database actor: renewing, sweeping, restarting, and clocks that step.
#define CAF_SUITE leases
#include "actors/database/database.hpp"
#include "actors/database/lease_table.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/scripted_store.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

leased_attempt lease_of(std::int64_t job, std::chrono::milliseconds length) {
  leased_attempt held;
  held.key = {job_id{job}, 1};
  held.nonce = static_cast<std::uint64_t>(job) + 100;
  held.worker = "far";
  held.project = "p";
  held.lease = length;
  return held;
}

struct fixture : actor_fixture {
  store_script script;
  timestamp wall{std::chrono::milliseconds{1'000'000'000}};
  std::chrono::nanoseconds boot{1h};
  std::vector<attempt_key> with_log;
  std::vector<ready_notice> notices;
  database_actor db;

  ~fixture() override {
    anon_send_exit(db, caf::exit_reason::kill);
    run();
  }

  void start() {
    database_options options;
    options.clock = [this] { return wall; };
    options.boot_clock = [this] { return boot; };
    options.log_of = [this](attempt_key key) -> std::optional<log_summary> {
      return std::ranges::find(with_log, key) == with_log.end() ? std::nullopt : std::optional{log_summary{7, false}};
    };
    db = sys.spawn<database>(std::make_unique<scripted_store>(script), options);
    auto listener = sys.spawn([this](ready_listener_actor::pointer) -> ready_listener_actor::behavior_type {
      return {[this](ready_atom, const ready_notice& notice) { notices.push_back(notice); }};
    });
    consume_messages();
    auto pending = ask(db, subscribe_atom_v, listener);
    consume_messages();
    take<expected<ready_snapshot>>(pending);
  }

  /// Both clocks go on, and what is due happens.
  void pass(std::chrono::milliseconds span) {
    boot += span;
    wall += span;
    advance_time(span);
    consume_messages();
  }

  void claim(std::int64_t job, std::chrono::milliseconds lease) {
    work_exchange wanted;
    wanted.wanted.push_back({job_id{job}, "far", static_cast<std::uint64_t>(job) + 100, lease});
    anon_send(db, exchange_atom_v, std::move(wanted));
    consume_messages();
  }

  renewal renew(std::int64_t job) {
    const auto held = lease_of(job, 0ms);
    auto pending = ask(db, renew_atom_v, std::vector<lease_token>{{held.key, held.nonce}});
    consume_messages();
    const auto reply = take<expected<std::vector<renewal>>>(pending);
    CAF_REQUIRE(reply && *reply);
    return (*reply)->front();
  }

  std::vector<std::int64_t> ended() {
    std::vector<std::int64_t> jobs;
    for (const auto& each : script.finished)
      jobs.push_back(each.key.job.value);
    return jobs;
  }
};

using ids = std::vector<std::int64_t>;

} // namespace

CAF_TEST(the table tells what has run out without looking at the rest) {
  lease_table table;
  for (std::int64_t job = 1; job <= 10'000; ++job)
    table.add(lease_of(job, 1h), 0s);
  table.add(lease_of(10'001, 1s), 0s);
  CAF_CHECK_EQUAL(table.size(), 10'001u);
  CAF_CHECK(table.expired(999ms, 100).empty());
  CAF_CHECK(table.next_end() == std::chrono::nanoseconds{1s});
  const auto gone = table.expired(1s, 100);
  CAF_REQUIRE_EQUAL(gone.size(), 1u);
  CAF_CHECK_EQUAL(gone[0].job.value, 10'001);
  CAF_CHECK(table.remove(gone[0].job) == gone[0]);
  CAF_CHECK(!table.remove(gone[0].job));
  CAF_CHECK(table.next_end() == std::chrono::nanoseconds{1h});
}

CAF_TEST(a token finds its own lease only) {
  lease_table table;
  table.add(lease_of(1, 1s), 0s);
  CAF_CHECK(table.find({job_id{1}, 1}, 101) != nullptr);
  CAF_CHECK(table.find({job_id{1}, 1}, 102) == nullptr);
  CAF_CHECK(table.find({job_id{1}, 2}, 101) == nullptr);
  CAF_CHECK(table.find({job_id{2}, 1}, 101) == nullptr);
  table.renew(*table.find({job_id{1}, 1}, 101), 5s);
  CAF_CHECK(table.next_end() == std::chrono::nanoseconds{6s});
}

CAF_TEST_FIXTURE_SCOPE(lease_tests, fixture)

CAF_TEST(one dead lease among 10001 is found in one sweep) {
  start();
  for (std::int64_t job = 1; job <= 10'000; ++job)
    anon_send(db, exchange_atom_v,
              work_exchange{{}, {{job_id{job}, "far", static_cast<std::uint64_t>(job) + 100, 1h}}, false});
  consume_messages();
  claim(10'001, 1s);
  pass(1s);
  CAF_CHECK_EQUAL(ended(), (ids{10'001}));
  CAF_CHECK(script.finished[0].outcome == attempt_outcome::not_started);
  CAF_CHECK(notices.back().released == (std::vector{attempt_key{job_id{10'001}, 1}}));
  pass(30min);
  CAF_CHECK_EQUAL(ended(), (ids{10'001}));
  pass(31min);
  // In rounds, so that others get in between.
  for (auto round = 0; round < 25; ++round)
    pass(1ms);
  CAF_CHECK_EQUAL(ended().size(), 10'001u);
}

CAF_TEST(the first renewal is a write and further ones are none) {
  start();
  claim(1, 2s);
  script.calls.clear();
  CAF_CHECK(renew(1).lease == 2s);
  CAF_CHECK_EQUAL(script.calls, (std::vector<std::string>{"confirm_start", "commit"}));
  script.calls.clear();
  for (auto i = 0; i < 5; ++i) {
    pass(1500ms);
    CAF_CHECK(!renew(1).failure);
  }
  CAF_CHECK(script.calls.empty());
  pass(2s);
  CAF_REQUIRE_EQUAL(ended(), (ids{1}));
  CAF_CHECK(script.finished[0].outcome == attempt_outcome::lease_expired);
  CAF_CHECK(script.finished[0].duration >= 9s && script.finished[0].duration < 11s);
  CAF_CHECK(renew(1).failure.has_value());
}

CAF_TEST(a confirmation that was not stored is made again) {
  start();
  claim(1, 2s);
  script.fail_commit = error{ec::storage_failed, "scripted", {}};
  const auto held = lease_of(1, 0ms);
  auto pending = ask(db, renew_atom_v, std::vector<lease_token>{{held.key, held.nonce}});
  consume_messages();
  CAF_CHECK(!*take<expected<std::vector<renewal>>>(pending));
  script.calls.clear();
  CAF_CHECK(!renew(1).failure);
  CAF_CHECK_EQUAL(script.calls, (std::vector<std::string>{"confirm_start", "commit"}));
}

CAF_TEST(one stale token among those renewed at once concerns no other) {
  start();
  for (const std::int64_t job : {1, 2, 3})
    claim(job, 2s);
  script.spared_operations = 1;
  script.fail_operation = error{ec::stale_attempt, "scripted", {}};
  std::vector<lease_token> tokens;
  for (const std::int64_t job : {1, 2, 3})
    tokens.push_back({lease_of(job, 0ms).key, lease_of(job, 0ms).nonce});
  auto pending = ask(db, renew_atom_v, tokens);
  consume_messages();
  const auto reply = take<expected<std::vector<renewal>>>(pending);
  CAF_REQUIRE(reply && *reply);
  CAF_CHECK(!(*reply)->at(0).failure && (*reply)->at(1).failure && !(*reply)->at(2).failure);
  pass(2s);
  CAF_REQUIRE_EQUAL(ended(), (ids{1, 2, 3}));
  CAF_CHECK(script.finished[0].outcome == attempt_outcome::lease_expired);
  CAF_CHECK(script.finished[1].outcome == attempt_outcome::not_started);
  CAF_CHECK(script.finished[2].outcome == attempt_outcome::lease_expired);
}

CAF_TEST(a start that was stored counts although a later one of its batch failed) {
  start();
  claim(1, 2s);
  claim(2, 2s);
  script.spared_operations = 1;
  script.fail_operation = error{ec::storage_failed, "scripted", {}};
  anon_send(db, renew_atom_v, std::vector<lease_token>{{lease_of(1, 0ms).key, 101}, {lease_of(2, 0ms).key, 102}});
  consume_messages();
  pass(2s);
  CAF_REQUIRE_EQUAL(ended(), (ids{1, 2}));
  CAF_CHECK(script.finished[0].outcome == attempt_outcome::lease_expired);
  CAF_CHECK(script.finished[1].outcome == attempt_outcome::not_started);
}

CAF_TEST(a log proves a start that was never confirmed) {
  start();
  claim(1, 1s);
  with_log.push_back({job_id{1}, 1});
  pass(1s);
  CAF_REQUIRE_EQUAL(ended(), (ids{1}));
  CAF_CHECK(script.finished[0].outcome == attempt_outcome::lease_expired);
  CAF_CHECK_EQUAL(script.finished[0].log.bytes, 7);
}

CAF_TEST(a sweep waits for the renewals that a slow disk held up) {
  start();
  claim(1, 1s);
  claim(2, 1s);
  boot += 30s;      // the disk: nothing was handled meanwhile
  advance_time(1s); // the sweep stands in the mailbox, and then the renewal
  const auto held = lease_of(1, 0ms);
  auto pending = ask(db, renew_atom_v, std::vector<lease_token>{{held.key, held.nonce}});
  consume_messages();
  CAF_CHECK(!(*take<expected<std::vector<renewal>>>(pending))->front().failure);
  CAF_CHECK_EQUAL(ended(), (ids{2}));
}

CAF_TEST(leases of an earlier life begin anew and know what was cancelled) {
  script.leased = {lease_of(1, 2s), lease_of(2, 2s)};
  script.leased[0].confirmed = true;
  script.leased[1].cancelling = true;
  start();
  pass(1s);
  CAF_CHECK(!renew(1).cancel);
  CAF_CHECK(renew(2).cancel);
  pass(1500ms);
  CAF_CHECK(ended().empty());
  pass(600ms);
  CAF_CHECK_EQUAL(ended(), (ids{1, 2}));
}

CAF_TEST(steps of the wall clock end no lease and give no negative duration) {
  start();
  claim(1, 10s);
  renew(1);
  for (const auto step :
       {std::chrono::milliseconds{1h}, std::chrono::milliseconds{-2h}, std::chrono::milliseconds{24h}}) {
    wall += step;
    pass(5s);
    CAF_CHECK(ended().empty());
    CAF_CHECK(!renew(1).failure);
  }
  pass(10s);
  CAF_REQUIRE_EQUAL(ended(), (ids{1}));
  CAF_CHECK(script.finished[0].duration >= 0ms && script.finished[0].duration < 1min);
}

CAF_TEST(a report of a claim of somebody else is fenced by its nonce) {
  start();
  claim(1, 10s);
  work_exchange wanted;
  wanted.ended.emplace_back().key = {job_id{1}, 1};
  wanted.ended.back().nonce = 999;
  wanted.ended.back().duration = -1ms;
  wanted.ended.back().log.bytes = -1;
  anon_send(db, exchange_atom_v, wanted);
  consume_messages();
  CAF_REQUIRE_EQUAL(script.finished.size(), 1u);
  CAF_CHECK(script.finished[0].nonce == 999u); // for the store to compare
  CAF_CHECK_EQUAL(script.finished[0].log.bytes, 0);
  CAF_CHECK(!script.finished[0].started_at);
}

CAF_TEST(a claim that was confirmed is given back as by a node that stops) {
  start();
  claim(1, 10s);
  claim(2, 10s);
  renew(2);
  work_exchange wanted;
  for (const std::int64_t job : {1, 2}) {
    auto& result = wanted.ended.emplace_back();
    result.key = {job_id{job}, 1};
    result.nonce = static_cast<std::uint64_t>(job) + 100;
    result.outcome = attempt_outcome::not_started;
  }
  anon_send(db, exchange_atom_v, wanted);
  consume_messages();
  CAF_REQUIRE_EQUAL(script.finished.size(), 2u);
  CAF_CHECK(script.finished[0].outcome == attempt_outcome::not_started);
  CAF_CHECK(script.finished[1].outcome == attempt_outcome::node_stopped);
}

CAF_TEST(a report that is refused claims nothing where it asked so) {
  start();
  script.fail_operation = error{ec::stale_attempt, "scripted", {}};
  script.open = true;
  work_exchange wanted;
  wanted.ended.emplace_back().key = {job_id{1}, 1};
  wanted.wanted.push_back({job_id{2}, "far", 5, 10s});
  wanted.claim_if_ended = true;
  auto pending = ask(db, exchange_atom_v, wanted);
  consume_messages();
  const auto reply = take<expected<exchange_result>>(pending);
  CAF_REQUIRE(reply && *reply);
  CAF_CHECK((*reply)->ended[0].error().code == ec::stale_attempt);
  CAF_CHECK((*reply)->granted[0].error().code == ec::conflict);
}

CAF_TEST_FIXTURE_SCOPE_END()
