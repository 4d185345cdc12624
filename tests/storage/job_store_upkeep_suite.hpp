/// The second half of the conformance suite (see job_store_suite.hpp, whose fixture it uses): waiting too long,
/// retrying by hand, dead letters, paused queues, removing.
#pragma once

#include "tests/storage/job_store_suite.hpp"

CAF_TEST_FIXTURE_SCOPE(job_store_upkeep, fixture)

// -- waiting too long -------------------------------------------------------------------------------------------------

CAF_TEST(a job that waited longer than it may times out) {
  auto impatient = spec();
  impatient.wait_limit = 10s;
  impatient.secrets = {{"A", "b"}};
  const auto job = add(impatient);
  CAF_CHECK(must(store().promote_due(noon + 9s, 10)).next_due == noon + 10s);
  CAF_CHECK(seen(job).state == job_state::queued);
  const auto moved = must(store().promote_due(noon + 10s, 10));
  CAF_REQUIRE_EQUAL(moved.changes.size(), 1u);
  CAF_CHECK(moved.changes[0].state == job_state::timed_out);
  CAF_CHECK(moved.ready.empty() && !moved.next_due);
  CAF_CHECK(seen(job).reason == job_reason::wait_limit);
  CAF_CHECK_EQUAL(ready_ids(), ids{});
}

CAF_TEST(the wait counts from the start time and ends with the first start) {
  auto impatient = spec();
  impatient.wait_limit = 10s;
  impatient.on_interrupt = interrupt_policy::requeue;
  const auto started = add(impatient);
  impatient.run_at = noon + 60s;
  const auto later = add(impatient);
  const auto key = start(started);
  CAF_CHECK_EQUAL(must(store().promote_due(noon + 60s, 10)).ready.size(), 1u);
  finish(ended(key, attempt_outcome::worker_crashed), noon + 60s);
  CAF_CHECK(must(store().promote_due(noon + 69s, 10)).changes.empty());
  CAF_CHECK(must(store().promote_due(noon + 70s, 10)).changes.at(0).id == later);
  CAF_CHECK(seen(started).state == job_state::queued);
}

CAF_TEST(a claim that was never confirmed does not end the wait) {
  auto impatient = spec();
  impatient.wait_limit = 10s;
  const auto job = add(impatient);
  const auto key = claim(job);
  CAF_CHECK(must(store().promote_due(noon + 20s, 10)).changes.empty());
  finish(ended(key, attempt_outcome::not_started));
  CAF_CHECK_EQUAL(must(store().promote_due(noon + 20s, 10)).changes.size(), 1u);
  CAF_CHECK(seen(job).state == job_state::timed_out);
}

CAF_TEST(a job found due long after its wait is over does not become ready) {
  auto impatient = spec();
  impatient.wait_limit = 10s;
  impatient.run_at = noon + 1s;
  const auto job = add(impatient);
  const auto moved = must(store().promote_due(noon + 1h, 10));
  CAF_CHECK(moved.ready.empty());
  CAF_CHECK(seen(job).state == job_state::timed_out);
}

// -- retrying by hand and dead letters --------------------------------------------------------------------------------

CAF_TEST(a retry by hand is a new job that names the old one) {
  auto one = spec("build");
  one.secrets = {{"A", "b"}};
  one.run_at = noon - 1s;
  const auto old = add(one);
  CAF_CHECK(code_of(store().retry(old, {{"A", "b"}}, noon)) == ec::conflict);
  finish(exited(start(old), 1));
  const auto refused = store().retry(old, {{"B", "c"}}, noon);
  CAF_REQUIRE(!refused.has_value());
  CAF_CHECK(refused.error().code == ec::invalid_input);
  CAF_REQUIRE_EQUAL(refused.error().fields.size(), 2u);
  CAF_CHECK_EQUAL(refused.error().fields[0].pointer, "/secrets/A");
  CAF_CHECK_EQUAL(refused.error().fields[1].pointer, "/secrets/B");
  const auto again = must(store().retry(old, {{"A", "new"}}, noon + 1s));
  CAF_CHECK(again.retry_of == old);
  CAF_CHECK(again.id > old);
  CAF_CHECK(seen(again.id).retry_of == old);
  CAF_CHECK_EQUAL(seen(again.id).spec.name, "build");
  CAF_CHECK(seen(old).state == job_state::failed);
  CAF_CHECK_EQUAL(must(store().claim({again.id, "w", 5}, noon)).spec.secrets.at("A"), "new");
  CAF_CHECK(code_of(store().retry(job_id{99}, {}, noon)) == ec::not_found);
}

CAF_TEST(a job that failed its last attempt is a dead letter until it is requeued or discarded) {
  auto one = spec();
  one.max_attempts = 2;
  std::vector<job_id> dead;
  for (auto i = 0; i < 2; ++i) {
    dead.push_back(add(one));
    finish(exited(start(dead.back()), 1));
    must(store().promote_due(noon + 1h, 10));
    CAF_CHECK(!seen(dead.back()).dead_letter);
    finish(exited(start(dead.back()), 1));
    CAF_CHECK(seen(dead.back()).dead_letter);
  }
  const auto plain = add();
  finish(exited(start(plain), 1));
  CAF_CHECK(!seen(plain).dead_letter);
  CAF_CHECK_EQUAL(must(reader().stats()).jobs_by_state.at(job_state::failed), 3);
  CAF_REQUIRE_EQUAL(must(reader().jobs({.dead_letters = true})).items.size(), 2u);
  CAF_CHECK(must(reader().jobs({.dead_letters = true, .limit = 1})).items[0].id == dead[1]);
  must(store().retry(dead[0], {}, noon));
  must(store().discard_dead_letter(dead[1]));
  CAF_CHECK(code_of(store().discard_dead_letter(dead[1])) == ec::conflict);
  CAF_CHECK(code_of(store().discard_dead_letter(job_id{99})) == ec::not_found);
  must(store().commit());
  CAF_CHECK(must(reader().jobs({.dead_letters = true})).items.empty());
}

// -- queues -----------------------------------------------------------------------------------------------------------

CAF_TEST(requeueing takes dead letters only) {
  const auto plain = add();
  finish(exited(start(plain), 1));
  CAF_CHECK(code_of(store().retry(plain, {}, noon, retry_what::dead_letter)) == ec::conflict);
  auto one = spec();
  one.max_attempts = 2;
  one.backoff = 0ms;
  const auto dead = add(one);
  finish(exited(start(dead), 1));
  must(store().promote_due(noon + 1h, 10));
  finish(exited(start(dead), 1));
  must(store().retry(dead, {}, noon, retry_what::dead_letter));
  CAF_CHECK(code_of(store().retry(dead, {}, noon, retry_what::dead_letter)) == ec::conflict);
}

// -- changing what waits ----------------------------------------------------------------------------------------------

CAF_TEST(a higher priority moves a waiting job forward and no further than its steps) {
  const auto first = add();
  const auto second = add();
  job_patch patch;
  patch.priority = 5;
  const auto changed = must(store().update(second, patch, noon + 1s));
  CAF_REQUIRE(changed.ready.has_value());
  CAF_CHECK_EQUAL(ready_ids(), (ids{second.value, first.value}));
  CAF_CHECK_EQUAL(seen(second).spec.priority, 5);
  patch.priority = 0;
  must(store().update(second, patch, noon + 2s));
  CAF_CHECK_EQUAL(ready_ids(), (ids{first.value, second.value}));
}

CAF_TEST(a start time can be put off and brought forward) {
  const auto job = add();
  job_patch later;
  later.run_at = noon + 60s;
  CAF_CHECK(must(store().update(job, later, noon)).change.state == job_state::scheduled);
  CAF_CHECK_EQUAL(ready_ids(), ids{});
  CAF_CHECK(must(store().promote_due(noon + 59s, 10)).next_due == noon + 60s);
  job_patch now;
  now.run_at.emplace(std::nullopt);
  CAF_CHECK(must(store().update(job, now, noon + 1s)).ready.has_value());
  CAF_CHECK_EQUAL(ready_ids(), ids{job.value});
  CAF_CHECK_EQUAL(states_of(seen(job)), (texts{"queued", "scheduled", "queued"}));
}

CAF_TEST(labels of a waiting job can be changed and nothing of one that runs) {
  const auto job = add();
  job_patch patch;
  patch.labels = {"gpu"};
  CAF_CHECK((must(store().update(job, patch, noon)).ready->labels == texts{"gpu"}));
  CAF_CHECK((seen(job).spec.labels == texts{"gpu"}));
  CAF_CHECK((must(store().ready_jobs(lowest_key, job_id{0}, 10)).at(0).labels == texts{"gpu"}));
  const auto key = start(job);
  CAF_CHECK(code_of(store().update(job, patch, noon)) == ec::conflict);
  finish(exited(key, 0));
  CAF_CHECK(code_of(store().update(job, patch, noon)) == ec::conflict);
  CAF_CHECK(code_of(store().update(job_id{99}, patch, noon)) == ec::not_found);
}

CAF_TEST(a paused queue hands out nothing over a restart until it is resumed) {
  auto one = spec();
  one.queue = "slow";
  const auto paused = add(one);
  const auto other = add();
  must(store().pause_queue("slow", "ann", noon));
  must(store().pause_queue("slow", "bob", noon + 1s));
  must(store().commit());
  reopen();
  CAF_CHECK_EQUAL(must(store().paused_queues()), texts{"slow"});
  CAF_CHECK(code_of(store().claim({paused, "w", 5}, noon)) == ec::not_ready);
  for (const auto id : ready_ids())
    CAF_CHECK(id != paused.value);
  claim(other);
  must(store().commit());
  const auto queues = must(reader().queues());
  CAF_REQUIRE_EQUAL(queues.size(), 2u);
  CAF_CHECK(queues[0].name == "default" && queues[0].running == 1 && !queues[0].paused_at);
  CAF_CHECK(queues[1].name == "slow" && queues[1].queued == 1 && queues[1].paused_at == noon);
  CAF_CHECK_EQUAL(queues[1].paused_by, "ann");
  must(store().resume_queue("slow"));
  must(store().resume_queue("slow"));
  claim(paused);
  CAF_CHECK(must(store().paused_queues()).empty());
}

CAF_TEST(a claim made before a pause is still answered after it) {
  const auto job = add();
  const auto first = must(store().claim({job, "w", 5}, noon));
  must(store().pause_queue("default", "ann", noon));
  CAF_CHECK(must(store().claim({job, "w", 5}, noon)).key == first.key);
}

// -- removing ---------------------------------------------------------------------------------------------------------

CAF_TEST(a removed job is gone for good and its id is not used again) {
  const auto job = add();
  CAF_CHECK(code_of(store().remove(job)) == ec::conflict);
  const auto key = start(job);
  CAF_CHECK(code_of(store().remove(job)) == ec::conflict);
  finish(exited(key, 0));
  const auto removed = must(store().remove(job));
  CAF_CHECK(removed.id == job && removed.attempts == 1);
  must(store().commit());
  CAF_CHECK(code_of(reader().job(job)) == ec::gone);
  CAF_CHECK(code_of(reader().log_of(job, 0)) == ec::gone);
  CAF_CHECK(code_of(store().remove(job)) == ec::gone);
  CAF_CHECK(code_of(store().cancel(job, "me", noon)) == ec::gone);
  CAF_CHECK(code_of(store().finish(exited(key, 0), noon)) == ec::gone);
  CAF_CHECK(code_of(store().remove(job_id{99})) == ec::not_found);
  CAF_CHECK(must(reader().jobs({})).items.empty());
  reopen();
  CAF_CHECK(add() > job);
}

CAF_TEST(retention removes by age and count and state and keeps dead letters) {
  auto retried = spec();
  retried.max_attempts = 2;
  const auto dead = add(retried);
  finish(exited(start(dead), 1));
  must(store().promote_due(noon + 1h, 10));
  finish(exited(start(dead), 1));
  std::vector<job_id> good;
  for (auto i = 0; i < 4; ++i) {
    const auto at = noon + std::chrono::minutes{i};
    good.push_back(add(spec(), at));
    finish(exited(start(good.back(), "node/1", at), 0), at);
  }
  const auto failed = add();
  finish(exited(start(failed), 1));
  const auto waiting = add();
  const auto found = [&](const retention_policy& policy, timestamp now, std::size_t limit = 10) {
    std::vector<std::int64_t> removed;
    for (const auto& job : must(store().remove_expired(policy, now, limit)))
      removed.push_back(job.id.value);
    return removed;
  };
  CAF_CHECK_EQUAL(found({}, noon + 99h), ids{});
  CAF_CHECK_EQUAL(found({{job_state::succeeded, {.age = 1h}}}, noon + 1h), ids{});
  CAF_CHECK_EQUAL(found({{job_state::succeeded, {.age = 1h}}}, noon + 1h + 90s, 1), ids{good[0].value});
  CAF_CHECK_EQUAL(found({{job_state::succeeded, {.age = 1h}}}, noon + 1h + 90s), ids{good[1].value});
  CAF_CHECK_EQUAL(found({{job_state::succeeded, {.count = 2}}}, noon + 99h), ids{});
  CAF_CHECK_EQUAL(found({{job_state::succeeded, {.count = 1}}}, noon), ids{good[2].value});
  CAF_CHECK_EQUAL(found({{job_state::failed, {.age = 0s, .count = 0}}}, noon + 99h), ids{failed.value});
  CAF_CHECK(seen(dead).dead_letter);
  CAF_CHECK(seen(good[3]).state == job_state::succeeded);
  CAF_CHECK(seen(waiting).state == job_state::queued);
}

CAF_TEST(a job that took long is kept by its end and hides no older end) {
  const auto slow = add();
  const auto quick = add();
  const auto key = start(slow);
  finish(exited(start(quick), 0), noon + 1s);
  finish(exited(key, 0), noon + 10h);
  const auto removed = must(store().remove_expired({{job_state::succeeded, {.age = 1h}}}, noon + 10h, 10));
  CAF_REQUIRE_EQUAL(removed.size(), 1u);
  CAF_CHECK(removed[0].id == quick);
}

CAF_TEST_FIXTURE_SCOPE_END()
