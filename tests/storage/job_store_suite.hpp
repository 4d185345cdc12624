/// What every job_store and its job_reader must do: the conformance suite. A store's own test file defines CAF_SUITE
/// and, in its unnamed namespace, a class `stores_under_test` with
///
///     job_store& store();     // open, empty at first
///     job_reader& reader();   // of the same database
///     void reopen();          // as after a restart of the node: what was not committed is gone
///
/// and then includes this file and job_store_upkeep_suite.hpp once.
#pragma once

#include "caf/test/unit_test.hpp"
#include "storage/job_reader.hpp"
#include "storage/job_store.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace kcx;
using namespace std::chrono_literals;

constexpr auto lowest_key = std::numeric_limits<std::int64_t>::min();
constexpr timestamp noon{std::chrono::milliseconds{1'767'268'800'000}}; // 2026-01-01T12:00:00Z

struct fixture : stores_under_test {
  template <class T>
  T must(expected<T> result) {
    if (!result) {
      CAF_FAIL(to_string(result.error().code) << ": " << result.error().message);
    }
    return std::move(*result);
  }

  template <class T>
  ec code_of(const expected<T>& result) {
    return result ? ec::none : result.error().code;
  }

  static job_spec spec(std::string name = "job") {
    job_spec made;
    made.name = std::move(name);
    made.command = command_line{false, {"true"}};
    return made;
  }

  job_id add(const job_spec& one = spec(), timestamp now = noon) {
    return must(store().insert({&one, 1}, now)).at(0).id;
  }

  attempt_key claim(job_id job, const std::string& worker = "node/1", timestamp now = noon) {
    return must(store().claim({job, worker, ++nonce}, now)).key;
  }

  attempt_key start(job_id job, const std::string& worker = "node/1", timestamp now = noon) {
    const auto key = claim(job, worker, now);
    must(store().confirm_start(key, now));
    return key;
  }

  static attempt_result exited(attempt_key key, std::int32_t code) {
    attempt_result result;
    result.key = key;
    result.exit_code = code;
    result.duration = 1500ms;
    result.log = {42, true};
    return result;
  }

  static attempt_result ended(attempt_key key, attempt_outcome outcome) {
    attempt_result result;
    result.key = key;
    result.outcome = outcome;
    return result;
  }

  transition_result finish(const attempt_result& result, timestamp now = noon) {
    return must(store().finish(result, now));
  }

  /// As a reader sees it, after a commit.
  job_record seen(job_id job) {
    must(store().commit());
    return must(reader().job(job));
  }

  std::vector<std::int64_t> ready_ids() {
    std::vector<std::int64_t> ids;
    for (const auto& job : must(store().ready_jobs(lowest_key, job_id{0}, 1000)))
      ids.push_back(job.id.value);
    return ids;
  }

  static std::vector<std::string> states_of(const job_record& job) {
    std::vector<std::string> states;
    for (const auto& line : job.history)
      states.emplace_back(to_string(line.state));
    return states;
  }

  std::uint64_t nonce = 0;
};

using ids = std::vector<std::int64_t>;
using texts = std::vector<std::string>;

} // namespace

CAF_TEST_FIXTURE_SCOPE(job_store_conformance, fixture)

// -- inserting --------------------------------------------------------------------------------------------------------

CAF_TEST(a submitted job is queued and read as it was submitted) {
  auto one = spec("build");
  one.labels = {"linux", "gpu"};
  one.project = "group/repo";
  one.env = {{"A", "1"}};
  one.metadata = {{"commit", "abc"}};
  const auto job = seen(add(one));
  CAF_CHECK(job.spec == one);
  CAF_CHECK(job.state == job_state::queued);
  CAF_CHECK(job.created_at == noon && job.queued_at == noon);
  CAF_CHECK(!job.started_at && !job.finished_at && !job.duration && !job.exit_code);
  CAF_CHECK_EQUAL(job.attempt, 0);
  CAF_CHECK_EQUAL(states_of(job), texts{"queued"});
}

CAF_TEST(ids ascend in the order of submission) {
  const std::vector specs{spec("a"), spec("b"), spec("c")};
  const auto jobs = must(store().insert(specs, noon));
  CAF_REQUIRE_EQUAL(jobs.size(), 3u);
  CAF_CHECK(jobs[0].id < jobs[1].id && jobs[1].id < jobs[2].id);
  CAF_CHECK_EQUAL(jobs[1].spec.name, "b");
  CAF_CHECK(jobs[2].id < add());
}

CAF_TEST(an array with a job that cannot be stored is not stored at all) {
  const auto before = add();
  auto impossible = spec();
  impossible.weight = 0; // refused by the schema: parse_job_spec never lets it come this far
  const std::vector specs{spec(), impossible};
  CAF_CHECK(code_of(store().insert(specs, noon)) == ec::internal);
  CAF_CHECK(store().in_transaction());
  const auto after = add();
  must(store().commit());
  CAF_CHECK_EQUAL(ready_ids(), (ids{before.value, after.value}));
}

CAF_TEST(a job whose start lies ahead is scheduled until it is due) {
  auto later = spec();
  later.run_at = noon + 10s;
  const auto job = add(later);
  CAF_CHECK(seen(job).state == job_state::scheduled);
  CAF_CHECK_EQUAL(ready_ids(), ids{});
  const auto early = must(store().promote_due(noon + 9s, 10));
  CAF_CHECK(early.ready.empty());
  CAF_CHECK(early.next_due == noon + 10s);
  const auto due = must(store().promote_due(noon + 10s, 10));
  CAF_REQUIRE_EQUAL(due.ready.size(), 1u);
  CAF_CHECK(due.ready[0].id == job);
  CAF_CHECK(due.changes[0].state == job_state::queued);
  CAF_CHECK(!due.next_due);
  CAF_CHECK_EQUAL(states_of(seen(job)), (texts{"scheduled", "queued"}));
  CAF_CHECK_EQUAL(ready_ids(), ids{job.value});
}

CAF_TEST(a job whose start lies behind is queued at once) {
  auto past = spec();
  past.run_at = noon - 1s;
  CAF_CHECK(seen(add(past)).state == job_state::queued);
}

CAF_TEST(promotion goes in pieces) {
  auto later = spec();
  later.run_at = noon + 1s;
  for (auto i = 0; i < 5; ++i)
    add(later);
  CAF_CHECK_EQUAL(must(store().promote_due(noon + 2s, 2)).ready.size(), 2u);
  const auto more = must(store().promote_due(noon + 2s, 2));
  CAF_CHECK_EQUAL(more.ready.size(), 2u);
  CAF_CHECK(more.next_due == noon + 1s);
  CAF_CHECK_EQUAL(must(store().promote_due(noon + 2s, 2)).ready.size(), 1u);
}

CAF_TEST(ready jobs come by priority and then in order of submission) {
  auto urgent = spec();
  urgent.priority = 5;
  const auto first = add();
  const auto second = add(urgent);
  const auto third = add();
  CAF_CHECK_EQUAL(ready_ids(), (ids{second.value, first.value, third.value}));
  const auto head = must(store().ready_jobs(lowest_key, job_id{0}, 1));
  CAF_REQUIRE_EQUAL(head.size(), 1u);
  const auto rest = must(store().ready_jobs(head[0].order_key, head[0].id, 10));
  CAF_REQUIRE_EQUAL(rest.size(), 2u);
  CAF_CHECK(rest[0].id == first);
}

CAF_TEST(a ready job tells all that dispatching needs) {
  auto one = spec();
  one.weight = 3;
  one.project = "p";
  one.queue = "q";
  one.labels = {"x"};
  const auto record = must(store().insert({&one, 1}, noon))[0];
  const auto job = must(store().ready_jobs(lowest_key, job_id{0}, 1)).at(0);
  CAF_CHECK(job.weight == 3 && job.project == "p" && job.queue == "q" && job.labels == texts{"x"});
  CAF_CHECK_EQUAL(job.order_key, record.order_key);
}

// -- claiming ---------------------------------------------------------------------------------------------------------

CAF_TEST(a claim hands out the job with its secrets and leaves the queue) {
  auto one = spec();
  one.secrets = {{"TOKEN", "s3cr3t"}};
  const auto job = add(one);
  const auto grant = must(store().claim({job, "node/1", 7}, noon + 1s));
  CAF_CHECK(grant.key == (attempt_key{job, 1}));
  CAF_CHECK(grant.spec == one);
  CAF_CHECK_EQUAL(ready_ids(), ids{});
  const auto running = seen(job);
  CAF_CHECK(running.state == job_state::running);
  CAF_CHECK_EQUAL(running.worker, "node/1");
  CAF_CHECK(running.spec.secrets.empty());
  CAF_CHECK(!running.started_at);
}

CAF_TEST(a job is claimed once) {
  const auto job = add();
  claim(job, "node/1");
  CAF_CHECK(code_of(store().claim({job, "node/2", 99}, noon)) == ec::not_ready);
  CAF_CHECK(code_of(store().claim({job, "node/1", 99}, noon)) == ec::not_ready);
}

CAF_TEST(a claim asked again with its nonce returns the same grant) {
  auto one = spec();
  one.secrets = {{"A", "b"}};
  const auto job = add(one);
  const auto first = must(store().claim({job, "node/1", 7}, noon));
  must(store().commit());
  const auto again = must(store().claim({job, "node/1", 7}, noon + 1s));
  CAF_CHECK(!first.repeated && again.repeated);
  CAF_CHECK(again.key == first.key);
  CAF_CHECK(again.spec == first.spec);
  CAF_CHECK(code_of(store().claim({job, "node/2", 7}, noon)) == ec::not_ready);
  const auto forgotten = must(store().claim({job_id{0}, "node/1", 7}, noon));
  CAF_CHECK(forgotten.key == first.key);
  CAF_CHECK(code_of(store().claim({job_id{0}, "node/1", 8}, noon)) == ec::not_ready);
  CAF_CHECK_EQUAL(seen(job).attempt, 1);
}

CAF_TEST(a nonce is forgotten with its attempt) {
  const auto job = add();
  const auto key = must(store().claim({job, "node/1", 7}, noon)).key;
  finish(exited(key, 0));
  CAF_CHECK(code_of(store().claim({job, "node/1", 7}, noon)) == ec::not_ready);
  CAF_CHECK(code_of(store().claim({job_id{0}, "node/1", 7}, noon)) == ec::not_ready);
}

CAF_TEST(a job that never was is not found) {
  CAF_CHECK(code_of(store().claim({job_id{5}, "node/1", 7}, noon)) == ec::not_found);
  CAF_CHECK(code_of(store().cancel(job_id{5}, "me", noon)) == ec::not_found);
  CAF_CHECK(code_of(store().finish(exited({job_id{5}, 1}, 0), noon)) == ec::not_found);
  must(store().commit());
  CAF_CHECK(code_of(reader().job(job_id{5})) == ec::not_found);
  CAF_CHECK(code_of(reader().job(job_id{-1})) == ec::not_found);
  CAF_CHECK(code_of(reader().log_of(job_id{5}, 0)) == ec::not_found);
}

CAF_TEST(a start is confirmed once and only by its holder) {
  const auto job = add();
  const auto key = claim(job);
  must(store().confirm_start(key, noon + 1s));
  must(store().confirm_start(key, noon + 2s));
  CAF_CHECK(seen(job).started_at == noon + 1s);
  CAF_CHECK(code_of(store().confirm_start({job, 2}, noon)) == ec::stale_attempt);
  finish(exited(key, 0));
  CAF_CHECK(code_of(store().confirm_start(key, noon)) == ec::stale_attempt);
}

// -- finishing --------------------------------------------------------------------------------------------------------

CAF_TEST(a finished job keeps what was reported of it) {
  const auto job = add();
  const auto key = start(job, "node/1", noon + 1s);
  const auto result = finish(exited(key, 3), noon + 3s);
  CAF_CHECK(!result.repeated && !result.ready);
  CAF_CHECK(result.change.state == job_state::failed);
  const auto record = seen(job);
  CAF_CHECK(record.state == job_state::failed);
  CAF_CHECK(record.reason == job_reason::exit_code);
  CAF_CHECK(record.exit_code == 3);
  CAF_CHECK(!record.signal);
  CAF_CHECK(record.started_at == noon + 1s && record.finished_at == noon + 3s);
  CAF_CHECK(record.duration == 1500ms);
  CAF_CHECK(record.log.bytes == 42 && record.log.cut);
  CAF_CHECK_EQUAL(record.worker, "node/1");
  CAF_CHECK_EQUAL(states_of(record), (texts{"queued", "running", "failed"}));
  CAF_CHECK_EQUAL(record.history[1].worker, "node/1");
  CAF_CHECK_EQUAL(record.history[2].attempt, 1);
}

CAF_TEST(the same finish again returns what is stored) {
  const auto job = add();
  const auto key = start(job);
  const auto first = finish(exited(key, 0), noon + 1s);
  must(store().commit());
  const auto again = finish(exited(key, 0), noon + 9s);
  CAF_CHECK(again.repeated);
  CAF_CHECK(again.change.state == job_state::succeeded);
  CAF_CHECK(again.change.at == first.change.at);
  CAF_CHECK_EQUAL(states_of(seen(job)).size(), 3u);
}

CAF_TEST(another finish of an ended attempt is stale) {
  const auto job = add();
  const auto key = start(job);
  CAF_CHECK(code_of(store().finish(exited({job, 2}, 0), noon)) == ec::stale_attempt);
  finish(exited(key, 0));
  CAF_CHECK(code_of(store().finish(exited(key, 1), noon)) == ec::stale_attempt);
  CAF_CHECK(code_of(store().finish(ended(key, attempt_outcome::worker_crashed), noon)) == ec::stale_attempt);
  CAF_CHECK(seen(job).state == job_state::succeeded);
}

CAF_TEST(a late finish of an earlier attempt cannot end a later one) {
  auto one = spec();
  one.on_interrupt = interrupt_policy::requeue;
  const auto job = add(one);
  const auto lost = start(job, "node/1");
  finish(ended(lost, attempt_outcome::worker_crashed));
  const auto present = start(job, "node/2");
  CAF_CHECK_EQUAL(present.attempt, 2);
  CAF_CHECK(code_of(store().finish(exited(lost, 0), noon)) == ec::stale_attempt);
  CAF_CHECK(seen(job).state == job_state::running);
}

CAF_TEST(a retry waits and then runs as the next attempt) {
  auto one = spec();
  one.max_attempts = 2;
  one.backoff = 8s;
  const auto job = add(one);
  const auto result = finish(exited(start(job), 1), noon);
  CAF_CHECK(result.change.state == job_state::scheduled);
  CAF_CHECK(!result.ready);
  auto waiting = seen(job);
  CAF_CHECK(waiting.reason == job_reason::retry);
  CAF_CHECK(waiting.cause == job_reason::exit_code);
  CAF_CHECK(!waiting.finished_at);
  CAF_REQUIRE(waiting.run_at.has_value());
  CAF_CHECK(*waiting.run_at >= noon + 6s && *waiting.run_at <= noon + 10s);
  CAF_CHECK_EQUAL(must(store().promote_due(*waiting.run_at, 10)).ready.size(), 1u);
  const auto second = start(job);
  CAF_CHECK_EQUAL(second.attempt, 2);
  CAF_CHECK(!seen(job).exit_code);
  CAF_CHECK(finish(exited(second, 1)).change.state == job_state::failed);
  CAF_CHECK_EQUAL(states_of(seen(job)), (texts{"queued", "running", "scheduled", "queued", "running", "failed"}));
}

CAF_TEST(a job that is queued again keeps its place) {
  auto one = spec();
  one.on_interrupt = interrupt_policy::requeue;
  const auto first = add(one, noon);
  const auto second = add(one, noon + 1s);
  const auto key = start(first);
  const auto result = finish(ended(key, attempt_outcome::worker_crashed), noon + 60s);
  CAF_CHECK(result.change.reason == job_reason::requeued);
  CAF_REQUIRE(result.ready.has_value());
  CAF_CHECK(result.ready->id == first);
  CAF_CHECK_EQUAL(ready_ids(), (ids{first.value, second.value}));
  const auto record = seen(first);
  CAF_CHECK_EQUAL(record.interrupts, 1);
  CAF_CHECK_EQUAL(record.uncounted, 1);
  CAF_CHECK(record.cause == job_reason::worker_crashed);
  CAF_CHECK(record.history.back().cause == job_reason::worker_crashed);
}

CAF_TEST(interrupts are counted until their limit) {
  auto one = spec();
  one.on_interrupt = interrupt_policy::requeue;
  one.max_interrupts = 2;
  const auto job = add(one);
  for (auto i = 0; i < 2; ++i)
    CAF_CHECK(finish(ended(start(job), attempt_outcome::worker_crashed)).change.state == job_state::queued);
  CAF_CHECK(finish(ended(start(job), attempt_outcome::worker_crashed)).change.state == job_state::failed);
  CAF_CHECK(seen(job).reason == job_reason::worker_crashed);
}

CAF_TEST(every attempt keeps its own log sizes) {
  auto one = spec();
  one.on_interrupt = interrupt_policy::requeue;
  const auto job = add(one);
  must(store().commit());
  CAF_CHECK_EQUAL(must(reader().log_of(job, 0)).second.bytes, 0);
  auto first = ended(start(job), attempt_outcome::worker_crashed);
  first.log = {10, false};
  finish(first);
  const auto second = start(job);
  must(store().commit());
  CAF_CHECK_EQUAL(must(reader().log_of(job, 0)).second.bytes, -1);
  CAF_CHECK_EQUAL(must(reader().log_of(job, 1)).second.bytes, 10);
  finish(exited(second, 0));
  must(store().commit());
  CAF_CHECK(must(reader().log_of(job, 0)).first == second);
  CAF_CHECK(must(reader().log_of(job, 0)).second.cut);
  CAF_CHECK(code_of(reader().log_of(job, 3)) == ec::not_found);
}

CAF_TEST(secrets are gone once the job is final and stay while it goes on) {
  auto one = spec();
  one.secrets = {{"A", "b"}};
  one.max_attempts = 2;
  const auto job = add(one);
  finish(exited(start(job), 1));
  must(store().promote_due(noon + 1h, 1));
  const auto grant = must(store().claim({job, "node/1", 77}, noon + 1h));
  CAF_CHECK_EQUAL(grant.spec.secrets.at("A"), "b");
  finish(exited(grant.key, 0));
  must(store().commit());
}

// -- steps ------------------------------------------------------------------------------------------------------------

CAF_TEST(steps are recorded for the attempt that is held) {
  auto one = spec();
  one.command.reset();
  for (const auto* name : {"fetch", "build", "test"})
    one.steps.push_back({name, {true, {"true"}}});
  const auto job = add(one);
  CAF_CHECK_EQUAL(seen(job).steps.size(), 3u);
  CAF_CHECK(seen(job).steps[0].state == step_state::pending);
  const auto key = start(job);
  must(store().record_step(key, {0, step_state::running, {}, {}, noon, {}}));
  must(store().record_step(key, {0, step_state::succeeded, 0, {}, noon, noon + 1s}));
  must(store().record_step(key, {1, step_state::running, {}, {}, noon + 1s, {}}));
  auto record = seen(job);
  CAF_CHECK(record.steps[0].state == step_state::succeeded);
  CAF_CHECK(record.steps[0].finished_at == noon + 1s);
  CAF_CHECK(record.steps[1].state == step_state::running);
  CAF_CHECK(record.steps[2].state == step_state::pending);
  CAF_CHECK(code_of(store().record_step({job, 2}, {0, step_state::failed})) == ec::stale_attempt);
  finish(ended(key, attempt_outcome::worker_crashed), noon + 5s);
  record = seen(job);
  CAF_CHECK(record.steps[1].state == step_state::interrupted);
  CAF_CHECK(record.steps[1].finished_at == noon + 5s);
  CAF_CHECK(record.steps[2].state == step_state::skipped);
  CAF_CHECK(code_of(store().record_step(key, {0, step_state::failed})) == ec::stale_attempt);
}

CAF_TEST(a finish stores the steps that come with it) {
  auto one = spec();
  one.command.reset();
  one.steps = {{"a", {true, {"true"}}}, {"b", {true, {"false"}}}};
  const auto job = add(one);
  auto result = exited(start(job), 1);
  result.steps = {{0, step_state::succeeded, 0, {}, noon, noon}, {1, step_state::failed, 1, {}, noon, noon}};
  finish(result);
  const auto record = seen(job);
  CAF_CHECK(record.steps[0].state == step_state::succeeded);
  CAF_CHECK(record.steps[1].state == step_state::failed);
  CAF_CHECK(record.steps[1].exit_code == 1);
}

// -- cancelling -------------------------------------------------------------------------------------------------------

CAF_TEST(a waiting job is cancelled at once) {
  const auto job = add();
  const auto result = must(store().cancel(job, "ann", noon + 1s));
  CAF_CHECK(result.change.state == job_state::cancelled);
  CAF_CHECK_EQUAL(ready_ids(), ids{});
  const auto record = seen(job);
  CAF_CHECK(record.reason == job_reason::cancelled_by);
  CAF_CHECK_EQUAL(record.message, "ann");
  CAF_CHECK(record.finished_at == noon + 1s);
  CAF_CHECK(!record.duration);
  CAF_CHECK(code_of(store().claim({job, "node/1", 5}, noon)) == ec::not_ready);
  CAF_CHECK(must(store().cancel(job, "bob", noon)).repeated);
  CAF_CHECK_EQUAL(seen(job).message, "ann");
}

CAF_TEST(a scheduled job is cancelled at once) {
  auto later = spec();
  later.run_at = noon + 1h;
  const auto job = add(later);
  CAF_CHECK(must(store().cancel(job, "ann", noon)).change.state == job_state::cancelled);
  CAF_CHECK(must(store().promote_due(noon + 2h, 10)).ready.empty());
}

CAF_TEST(a running job is cancelling until its attempt ends whatever its end) {
  const auto job = add();
  const auto key = start(job);
  CAF_CHECK(must(store().cancel(job, "ann", noon)).change.state == job_state::cancelling);
  CAF_CHECK_EQUAL(must(store().cancel(job, "bob", noon)).change.worker, "node/1");
  CAF_CHECK(must(store().cancel(job, "bob", noon)).repeated);
  CAF_CHECK(seen(job).state == job_state::cancelling);
  const auto result = finish(exited(key, 0), noon + 1s);
  CAF_CHECK(result.change.state == job_state::cancelled);
  const auto record = seen(job);
  CAF_CHECK(record.state == job_state::cancelled);
  CAF_CHECK_EQUAL(record.message, "ann");
  CAF_CHECK(finish(exited(key, 0)).repeated);
}

CAF_TEST(a job that has ended otherwise cannot be cancelled) {
  const auto job = add();
  finish(exited(start(job), 0));
  CAF_CHECK(code_of(store().cancel(job, "ann", noon)) == ec::conflict);
  CAF_CHECK(seen(job).state == job_state::succeeded);
}

// -- restarts ---------------------------------------------------------------------------------------------------------

CAF_TEST(after a restart held jobs are ended by their policies and keep the order of the queue) {
  auto again = spec();
  again.on_interrupt = interrupt_policy::requeue;
  const auto failing = add();
  const auto requeued = add(again);
  const auto unconfirmed = add();
  const auto doomed = add(again);
  const auto waiting = add();
  start(failing);
  start(requeued, "node/2");
  claim(unconfirmed, "node/3");
  start(doomed, "node/4");
  must(store().cancel(doomed, "ann", noon));
  must(store().commit());
  reopen();
  std::vector<transition_result> all;
  for (auto some = must(store().end_held({}, attempt_outcome::node_restarted, noon + 9s, 3)); !some.empty();
       some = must(store().end_held({}, attempt_outcome::node_restarted, noon + 9s, 3)))
    all.insert(all.end(), some.begin(), some.end());
  CAF_CHECK_EQUAL(all.size(), 4u);
  CAF_CHECK(seen(failing).state == job_state::interrupted);
  CAF_CHECK(seen(failing).reason == job_reason::node_restarted);
  CAF_CHECK(seen(failing).duration == 9s);
  CAF_CHECK(seen(requeued).state == job_state::queued);
  CAF_CHECK(seen(requeued).cause == job_reason::node_restarted);
  CAF_CHECK(seen(unconfirmed).state == job_state::queued);
  CAF_CHECK(seen(unconfirmed).reason == job_reason::not_started);
  CAF_CHECK_EQUAL(seen(unconfirmed).interrupts, 0);
  CAF_CHECK(seen(doomed).state == job_state::cancelled);
  CAF_CHECK_EQUAL(ready_ids(), (ids{requeued.value, unconfirmed.value, waiting.value}));
}

CAF_TEST(only the jobs of a lost worker are ended) {
  const auto lost = add();
  const auto kept = add();
  start(lost, "node/1");
  start(kept, "node/2");
  const auto log_of = [](attempt_key) { return log_summary{77, false}; };
  const auto ended = must(store().end_held("node/1", attempt_outcome::worker_crashed, noon, 10, log_of));
  CAF_REQUIRE_EQUAL(ended.size(), 1u);
  CAF_CHECK(ended[0].change.id == lost);
  CAF_CHECK(seen(lost).reason == job_reason::worker_crashed);
  CAF_CHECK_EQUAL(seen(lost).log.bytes, 77);
  CAF_CHECK(seen(kept).state == job_state::running);
}

CAF_TEST(a log proves a start whose confirmation was lost) {
  const auto begun = add();
  const auto unused = add();
  claim(begun, "node/1");
  claim(unused, "node/2");
  const auto log_of = [&](attempt_key key) {
    return key.job == begun ? std::optional{log_summary{0, false}} : std::nullopt;
  };
  const auto ended = must(store().end_held({}, attempt_outcome::node_restarted, noon + 9s, 10, log_of));
  CAF_CHECK_EQUAL(ended.size(), 2u);
  CAF_CHECK(seen(begun).state == job_state::interrupted);
  CAF_CHECK(seen(begun).reason == job_reason::node_restarted);
  CAF_CHECK(seen(begun).started_at.has_value());
  CAF_CHECK(seen(unused).state == job_state::queued);
  CAF_CHECK(seen(unused).reason == job_reason::not_started);
}

CAF_TEST(what was committed survives a restart and nothing else does) {
  const auto kept = add();
  must(store().commit());
  const auto identity = store().node_id();
  const auto dropped = add();
  claim(kept);
  reopen();
  CAF_CHECK_EQUAL(store().node_id(), identity);
  CAF_CHECK_EQUAL(ready_ids(), ids{kept.value});
  CAF_CHECK(code_of(reader().job(dropped)) == ec::not_found);
}

CAF_TEST(a rolled back transaction leaves nothing) {
  add();
  CAF_CHECK(store().in_transaction());
  store().rollback();
  CAF_CHECK(!store().in_transaction());
  CAF_CHECK_EQUAL(ready_ids(), ids{});
  must(store().commit());
}

CAF_TEST(an operation that fails leaves the others of its transaction) {
  const auto job = add();
  CAF_CHECK(code_of(store().finish(exited({job, 1}, 0), noon)) == ec::stale_attempt);
  CAF_CHECK(code_of(store().cancel(job_id{99}, "me", noon)) == ec::not_found);
  CAF_CHECK(store().in_transaction());
  CAF_CHECK(seen(job).state == job_state::queued);
}

// -- reading ----------------------------------------------------------------------------------------------------------

CAF_TEST(a reader sees committed data only) {
  const auto job = add();
  CAF_CHECK(code_of(reader().job(job)) == ec::not_found);
  must(store().commit());
  claim(job);
  CAF_CHECK(must(reader().job(job)).state == job_state::queued);
  must(store().commit());
  CAF_CHECK(must(reader().job(job)).state == job_state::running);
}

CAF_TEST(lists come newest first in pages that join) {
  for (auto i = 0; i < 7; ++i)
    add();
  must(store().commit());
  job_filter filter;
  filter.limit = 3;
  std::vector<std::int64_t> all;
  auto pages = 0;
  for (auto more = true; more; ++pages) {
    const auto page = must(reader().jobs(filter));
    for (const auto& job : page.items)
      all.push_back(job.id.value);
    filter.before = page.next;
    more = page.next.has_value();
  }
  CAF_CHECK_EQUAL(all, (ids{7, 6, 5, 4, 3, 2, 1}));
  CAF_CHECK_EQUAL(pages, 3);
}

CAF_TEST(lists are filtered by every field) {
  auto special = spec("special");
  special.project = "p";
  special.queue = "q";
  special.labels = {"gpu", "linux"};
  const auto plain = add();
  const auto wanted = add(special);
  must(store().cancel(plain, "me", noon));
  must(store().commit());
  auto only = [&](const job_filter& filter) {
    std::vector<std::int64_t> found;
    for (const auto& job : must(reader().jobs(filter)).items)
      found.push_back(job.id.value);
    return found;
  };
  CAF_CHECK_EQUAL(only({.project = "p"}), ids{wanted.value});
  CAF_CHECK_EQUAL(only({.queue = "q"}), ids{wanted.value});
  CAF_CHECK_EQUAL(only({.name = "special"}), ids{wanted.value});
  CAF_CHECK_EQUAL(only({.label = "linux"}), ids{wanted.value});
  CAF_CHECK_EQUAL(only({.label = "lin"}), ids{});
  CAF_CHECK_EQUAL(only({.states = {job_state::cancelled}}), ids{plain.value});
  CAF_CHECK_EQUAL(only({.states = {job_state::cancelled, job_state::queued}}), (ids{wanted.value, plain.value}));
  CAF_CHECK_EQUAL(only({.states = {job_state::cancelled}, .project = "p"}), ids{});
}

CAF_TEST(statistics count jobs by state) {
  const auto first = add();
  const auto second = add(spec(), noon + 1s);
  add(spec(), noon + 2s);
  auto later = spec();
  later.run_at = noon + 1h;
  add(later);
  finish(exited(start(first), 0));
  claim(second);
  must(store().commit());
  const auto stats = must(reader().stats());
  CAF_CHECK_EQUAL(stats.jobs_by_state.at(job_state::succeeded), 1);
  CAF_CHECK_EQUAL(stats.jobs_by_state.at(job_state::running), 1);
  CAF_CHECK_EQUAL(stats.jobs_by_state.at(job_state::queued), 1);
  CAF_CHECK_EQUAL(stats.jobs_by_state.at(job_state::scheduled), 1);
  CAF_CHECK(stats.oldest_queued_at == noon + 2s);
  CAF_CHECK(stats.database_bytes > 0);
}

CAF_TEST(a version counts the changes of state) {
  const auto job = add();
  CAF_CHECK_EQUAL(seen(job).version, 0);
  const auto key = start(job);
  CAF_CHECK_EQUAL(seen(job).version, 1);
  finish(exited(key, 0));
  CAF_CHECK_EQUAL(seen(job).version, 2);
}

CAF_TEST(a checkpoint is refused inside a transaction and empties the log outside) {
  add();
  CAF_CHECK(code_of(store().checkpoint()) == ec::internal);
  must(store().commit());
  CAF_CHECK_EQUAL(must(store().checkpoint()), 0);
}

CAF_TEST_FIXTURE_SCOPE_END()
