/// A job store that fails when told, for the error paths that a real disk takes only on its worst day.
#pragma once

#include "storage/job_store.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kcx::test {

/// Remembers what was called, in order, and counts ids up. Owned by the actor under test; the script stays with the
/// test.
struct store_script {
  std::vector<std::string> calls;
  /// So many operations succeed before one fails or throws.
  std::size_t spared_operations = 0;
  /// Each is taken by the operation (or commit) that fails with it.
  std::optional<error> fail_operation;
  std::optional<error> fail_commit;
  /// The failing operation takes the whole transaction with it, as SQLite does on a full disk.
  bool failure_rolls_back = false;
  bool throw_in_operation = false;
  bool closed = false;
  /// What follows, commit by commit.
  std::deque<follow_up> follow_ups;
  std::vector<leased_attempt> leased;
  /// The answer that is kept for every idempotency key.
  std::optional<stored_answer> kept_answer;
  /// Results that were to be stored, in order.
  std::vector<attempt_result> finished;
  bool open = false;
  std::int64_t last_id = 0;
};

class scripted_store : public job_store {
public:
  explicit scripted_store(store_script& script) : script_{script} {}
  ~scripted_store() override { script_.closed = true; }

  outcome commit() override {
    script_.calls.emplace_back("commit");
    script_.open = false;
    if (auto failure = std::exchange(script_.fail_commit, std::nullopt))
      return *failure;
    return kcx::done{};
  }
  void rollback() noexcept override {
    script_.calls.emplace_back("rollback");
    script_.open = false;
  }
  bool in_transaction() const noexcept override { return script_.open; }

  expected<follow_up> settle(timestamp, std::size_t) override {
    if (script_.follow_ups.empty())
      return follow_up{};
    auto next = std::move(script_.follow_ups.front());
    script_.follow_ups.pop_front();
    script_.open = true;
    return next;
  }

  expected<accepted_jobs> submit(const submission& asked, timestamp now) override {
    if (auto failure = begin("submit"))
      return *failure;
    accepted_jobs accepted;
    for (const auto& spec : asked.specs) {
      job_record job;
      job.id = {++script_.last_id};
      job.spec = spec;
      job.created_at = now;
      accepted.jobs.push_back(job);
    }
    return accepted;
  }
  expected<std::optional<accepted_jobs>> submitted_before(const idempotency_key&, timestamp) override {
    if (!script_.kept_answer)
      return std::optional<accepted_jobs>{};
    accepted_jobs before;
    before.answer = script_.kept_answer;
    before.repeated = true;
    return std::optional{before};
  }
  expected<job_grant> claim(const claim_request& request, timestamp) override {
    if (auto failure = begin("claim"))
      return *failure;
    job_grant grant;
    grant.key = {request.job, 1};
    grant.nonce = request.nonce;
    return grant;
  }
  outcome confirm_start(attempt_key, timestamp) override { return simple("confirm_start"); }
  outcome record_step(attempt_key, const step_record&) override { return simple("record_step"); }
  expected<transition_result> finish(const attempt_result& result, timestamp) override {
    script_.finished.push_back(result);
    return moved("finish", result.key.job, job_state::succeeded);
  }
  expected<transition_result> cancel(job_id id, const std::string&, timestamp) override {
    return moved("cancel", id, job_state::cancelling);
  }
  expected<transition_result> update(job_id id, const job_patch&, timestamp) override {
    return moved("update", id, job_state::queued);
  }
  expected<promotion> promote_due(timestamp, std::size_t) override {
    if (auto failure = begin("promote_due"))
      return *failure;
    return promotion{};
  }
  expected<std::vector<transition_result>> end_held(const std::optional<std::string>&, attempt_outcome, timestamp,
                                                    std::size_t, const log_lookup&) override {
    if (auto failure = begin("end_held"))
      return *failure;
    return std::vector<transition_result>{};
  }
  expected<std::vector<leased_attempt>> leased_attempts() override { return script_.leased; }
  expected<ready_window> ready_jobs(std::size_t) override {
    script_.calls.emplace_back("ready_jobs");
    return ready_window{};
  }
  expected<ready_window> ready_jobs_behind(const ready_job&, std::size_t) override { return ready_window{}; }
  expected<job_record> retry(job_id, const std::map<std::string, std::string>&, timestamp, retry_what) override {
    if (auto failure = begin("retry"))
      return *failure;
    job_record job;
    job.id = {++script_.last_id};
    return job;
  }
  outcome discard_dead_letter(job_id) override { return simple("discard_dead_letter"); }
  outcome pause_queue(const std::string&, const std::string&, timestamp) override { return simple("pause_queue"); }
  outcome resume_queue(const std::string&) override { return simple("resume_queue"); }
  expected<std::vector<std::string>> paused_queues() override { return std::vector<std::string>{}; }
  expected<token_record> add_token(const new_token& token, timestamp now) override {
    if (auto failure = begin("add_token"))
      return *failure;
    return token_record{1, token, now};
  }
  outcome remove_token(std::int64_t) override { return simple("remove_token"); }
  outcome touch_tokens(const token_uses&) override { return simple("touch_tokens"); }
  outcome put_webhook(const std::string&, const webhook_spec&, timestamp) override { return simple("put_webhook"); }
  outcome remove_webhook(const std::string&) override { return simple("remove_webhook"); }
  outcome note_delivery(const delivery_try&) override { return simple("note_delivery"); }
  outcome redeliver(std::int64_t, timestamp) override { return simple("redeliver"); }
  expected<removed_job> remove(job_id id) override {
    if (auto failure = begin("remove"))
      return *failure;
    return removed_job{id, 1};
  }
  expected<std::vector<removed_job>> remove_expired(const retention_policy&, timestamp, std::size_t) override {
    if (auto failure = begin("remove_expired"))
      return *failure;
    return std::vector<removed_job>{};
  }
  std::int64_t owed_bytes() noexcept override { return 0; }
  expected<std::int64_t> checkpoint() override {
    script_.calls.emplace_back("checkpoint");
    return std::int64_t{0};
  }
  const std::string& node_id() const noexcept override { return node_id_; }

private:
  std::optional<error> begin(const char* what) {
    script_.calls.emplace_back(what);
    if (script_.spared_operations > 0) {
      --script_.spared_operations;
      script_.open = true;
      return std::nullopt;
    }
    if (std::exchange(script_.throw_in_operation, false))
      throw std::runtime_error{"scripted"};
    if (auto failure = std::exchange(script_.fail_operation, std::nullopt)) {
      if (script_.failure_rolls_back)
        script_.open = false;
      return failure;
    }
    script_.open = true;
    return std::nullopt;
  }
  outcome simple(const char* what) {
    if (auto failure = begin(what))
      return *failure;
    return kcx::done{};
  }
  expected<transition_result> moved(const char* what, job_id id, job_state state) {
    if (auto failure = begin(what))
      return *failure;
    transition_result result;
    result.change.id = id;
    result.change.state = state;
    result.change.attempt = 1;
    return result;
  }

  store_script& script_;
  std::string node_id_ = "scripted";
};

} // namespace kcx::test
