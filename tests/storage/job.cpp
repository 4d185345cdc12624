#define CAF_SUITE job
#include "storage/job.hpp"

#include "caf/test/unit_test.hpp"

#include <set>

using namespace kcx;
using namespace std::chrono_literals;

namespace {

constexpr std::array all_states{job_state::scheduled,  job_state::blocked,     job_state::queued, job_state::running,
                                job_state::cancelling, job_state::succeeded,   job_state::failed, job_state::timed_out,
                                job_state::cancelled,  job_state::interrupted, job_state::skipped};

job_record running_job() {
  job_record job;
  job.id = job_id{1};
  job.state = job_state::running;
  job.attempt = 1;
  return job;
}

attempt_result ended(attempt_outcome outcome, std::optional<std::int32_t> exit_code = {}, std::int32_t attempt = 1) {
  attempt_result result;
  result.key = {job_id{1}, attempt};
  result.outcome = outcome;
  result.exit_code = exit_code;
  return result;
}

struct expectation {
  attempt_outcome outcome;
  job_state state;
  job_reason reason;
};

void check_verdict(const job_record& job, const expectation& wanted) {
  const auto end = judge(job, ended(wanted.outcome));
  CAF_MESSAGE(to_string(wanted.outcome));
  CAF_CHECK_EQUAL(std::string{to_string(end.state)}, std::string{to_string(wanted.state)});
  CAF_CHECK_EQUAL(std::string{to_string(end.reason)}, std::string{to_string(wanted.reason)});
}

} // namespace

CAF_TEST(every state and reason is found again by its name) {
  for (auto state : all_states)
    CAF_CHECK(parse_job_state(to_string(state)) == state);
  for (auto number = 0; number <= static_cast<int>(job_reason::not_started); ++number) {
    auto reason = static_cast<job_reason>(number);
    CAF_CHECK(parse_job_reason(to_string(reason)) == reason);
  }
  for (auto number = 0; number <= static_cast<int>(attempt_outcome::lease_expired); ++number) {
    auto outcome = static_cast<attempt_outcome>(number);
    CAF_CHECK(parse_attempt_outcome(to_string(outcome)) == outcome);
  }
  CAF_CHECK(!parse_job_state("asleep"));
  CAF_CHECK(!parse_job_reason(""));
  CAF_CHECK(!parse_step_state("Running"));
}

CAF_TEST(no move leaves a final state and every other state can be left) {
  std::set<job_state> left;
  for (const auto& move : transitions()) {
    CAF_CHECK(!is_final(move.from));
    CAF_CHECK(!move.caused_by.empty());
    left.insert(move.from);
  }
  for (auto state : all_states)
    CAF_CHECK_EQUAL(left.contains(state), !is_final(state));
}

CAF_TEST(a job that is told to end can only become cancelled) {
  for (auto state : all_states)
    CAF_CHECK_EQUAL(is_permitted(job_state::cancelling, state), state == job_state::cancelled);
}

CAF_TEST(an ended attempt decides the state of a job without a policy) {
  const auto job = running_job();
  check_verdict(job, {attempt_outcome::exited, job_state::failed, job_reason::exit_code});
  check_verdict(job, {attempt_outcome::signalled, job_state::failed, job_reason::signal});
  check_verdict(job, {attempt_outcome::spawn_failed, job_state::failed, job_reason::spawn_failed});
  check_verdict(job, {attempt_outcome::time_limit, job_state::timed_out, job_reason::time_limit});
  check_verdict(job, {attempt_outcome::no_output, job_state::timed_out, job_reason::no_output});
  check_verdict(job, {attempt_outcome::cancelled, job_state::cancelled, job_reason::cancelled_by});
  check_verdict(job, {attempt_outcome::worker_crashed, job_state::failed, job_reason::worker_crashed});
  check_verdict(job, {attempt_outcome::node_stopped, job_state::interrupted, job_reason::node_stopped});
  check_verdict(job, {attempt_outcome::node_restarted, job_state::interrupted, job_reason::node_restarted});
  check_verdict(job, {attempt_outcome::lease_expired, job_state::interrupted, job_reason::lease_expired});
  check_verdict(job, {attempt_outcome::not_started, job_state::queued, job_reason::not_started});
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 0)).state == job_state::succeeded);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 0)).reason == job_reason::none);
}

CAF_TEST(a job that is told to end is cancelled whatever its attempt says) {
  auto job = running_job();
  job.state = job_state::cancelling;
  job.spec.on_interrupt = interrupt_policy::requeue;
  job.spec.max_attempts = 9;
  for (auto number = 0; number <= static_cast<int>(attempt_outcome::lease_expired); ++number) {
    const auto end = judge(job, ended(static_cast<attempt_outcome>(number), 0));
    CAF_CHECK(end.state == job_state::cancelled);
    CAF_CHECK(end.reason == job_reason::cancelled_by);
  }
}

CAF_TEST(an interrupted job that asked for it is queued again until its limit) {
  auto job = running_job();
  job.spec.on_interrupt = interrupt_policy::requeue;
  job.spec.max_interrupts = 2;
  for (auto outcome :
       {attempt_outcome::worker_crashed, attempt_outcome::node_restarted, attempt_outcome::lease_expired}) {
    job.interrupts = 1;
    const auto again = judge(job, ended(outcome));
    CAF_CHECK(again.state == job_state::queued);
    CAF_CHECK(again.reason == job_reason::requeued);
    CAF_CHECK(again.counts_interrupt && again.gives_attempt_back);
    job.interrupts = 2;
    CAF_CHECK(is_final(judge(job, ended(outcome)).state));
  }
}

CAF_TEST(a requeue tells what ended the attempt) {
  auto job = running_job();
  job.spec.on_interrupt = interrupt_policy::requeue;
  CAF_CHECK(judge(job, ended(attempt_outcome::worker_crashed)).cause == job_reason::worker_crashed);
  CAF_CHECK(judge(job, ended(attempt_outcome::node_restarted)).cause == job_reason::node_restarted);
}

CAF_TEST(a clean drain uses up neither an attempt nor an interrupt) {
  auto job = running_job();
  job.spec.on_interrupt = interrupt_policy::requeue;
  job.interrupts = job.spec.max_interrupts;
  const auto end = judge(job, ended(attempt_outcome::node_stopped));
  CAF_CHECK(end.state == job_state::queued);
  CAF_CHECK(end.gives_attempt_back);
  CAF_CHECK(!end.counts_interrupt);
}

CAF_TEST(a failure is retried while attempts are left and its reason is listed) {
  auto job = running_job();
  job.spec.max_attempts = 3;
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 1)).state == job_state::scheduled);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 2)).reason == job_reason::retry);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 2)).cause == job_reason::exit_code);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 3)).state == job_state::failed);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 0, 1)).state == job_state::succeeded);
  CAF_CHECK(judge(job, ended(attempt_outcome::spawn_failed, {}, 1)).state == job_state::failed);
}

CAF_TEST(attempts that do not count leave room for retries) {
  auto job = running_job();
  job.spec.max_attempts = 2;
  job.uncounted = 2;
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 3)).state == job_state::scheduled);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 4)).state == job_state::failed);
}

CAF_TEST(the back off doubles with every attempt and ends at an hour) {
  auto job = running_job();
  job.spec.max_attempts = 100;
  job.spec.backoff = 5s;
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 1)).delay == 5s);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 2)).delay == 10s);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 4)).delay == 40s);
  CAF_CHECK(judge(job, ended(attempt_outcome::exited, 1, 99)).delay == 1h);
}

CAF_TEST(jitter stays within a quarter and is the same for the same attempt) {
  std::set<std::int64_t> seen;
  for (auto id = std::int64_t{1}; id <= 100; ++id) {
    const auto wait = with_jitter(10s, {job_id{id}, 1});
    CAF_CHECK(wait >= 7500ms && wait <= 12500ms);
    CAF_CHECK(wait == with_jitter(10s, {job_id{id}, 1}));
    seen.insert(wait.count());
  }
  CAF_CHECK(seen.size() > 50);
}

CAF_TEST(priority moves a job ahead by whole ageing steps and no further) {
  const timestamp noon{std::chrono::hours{12}};
  CAF_CHECK(order_key(noon, 1, 60s) < order_key(noon, 0, 60s));
  CAF_CHECK(order_key(noon, 1, 60s) < order_key(noon - 59s, 0, 60s));
  CAF_CHECK(order_key(noon, 1, 60s) > order_key(noon - 61s, 0, 60s));
  CAF_CHECK(order_key(noon, -1, 60s) > order_key(noon + 59s, 0, 60s));
}

CAF_TEST(a shell line is run by sh and an argv as it is) {
  const command_line line{true, {"echo $A"}};
  CAF_CHECK_EQUAL(line.argv(), (std::vector<std::string>{"/bin/sh", "-c", "echo $A"}));
  const command_line words{false, {"echo", "$A"}};
  CAF_CHECK_EQUAL(words.argv(), (std::vector<std::string>{"echo", "$A"}));
}

CAF_TEST(a signal is shown by its name) {
  CAF_CHECK_EQUAL(signal_name(11), "SIGSEGV");
  CAF_CHECK_EQUAL(signal_name(9), "SIGKILL");
  CAF_CHECK_EQUAL(signal_name(4711), "SIG4711");
}
