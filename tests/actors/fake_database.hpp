/// A database actor that keeps nothing: it notes what it is asked, and the test answers when it wants to.
#pragma once

#include "actors/interfaces.hpp"

#include <caf/actor_config.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kcx::test {

/// A question that waits for the answer of the test. A promise may be kept only inside its actor's handlers, so the
/// answer goes there by a message (fault_atom, which fakes do not need otherwise): settle() after it.
template <class Asked, class Reply>
struct open_question {
  Asked asked;
  caf::typed_response_promise<Reply> promise;
  std::shared_ptr<std::deque<std::function<void()>>> due;
  status_actor fake;

  void answer(Reply reply) {
    due->push_back([promise = promise, reply = std::move(reply)]() mutable { promise.deliver(std::move(reply)); });
    caf::anon_send(fake, fault_atom_v, std::string{});
  }
};

/// Gives a fake actor (`Base` is its interface's base class) the means to leave answers to the test.
template <class Base>
class answering : public Base {
public:
  using Base::Base;

protected:
  template <class Reply, class Asked>
  caf::typed_response_promise<Reply> note(std::deque<open_question<Asked, Reply>>& questions, Asked asked) {
    auto promise = this->template make_response_promise<Reply>();
    questions.push_back({std::move(asked), promise, due_, caf::actor_cast<status_actor>(this)});
    return promise;
  }

  /// The handler of fault_atom.
  void answer_next() {
    const auto answer = std::move(due_->front());
    due_->pop_front();
    answer();
  }

private:
  std::shared_ptr<std::deque<std::function<void()>>> due_ = std::make_shared<std::deque<std::function<void()>>>();
};

struct database_record {
  std::deque<open_question<claim_request, expected<job_grant>>> claims;
  std::deque<open_question<attempt_key, outcome>> starts;
  std::vector<std::pair<attempt_key, step_record>> steps;
  std::deque<open_question<attempt_result, expected<transition_result>>> completions;
  std::deque<open_question<std::string, outcome>> abandons;
  std::deque<open_question<int, expected<std::optional<timestamp>>>> promotes;
  std::deque<open_question<int, expected<std::int64_t>>> checkpoints;
  std::deque<open_question<retention_policy, expected<std::vector<removed_job>>>> removals;
  std::deque<open_question<ready_listener_actor, expected<ready_snapshot>>> subscriptions;
  std::deque<open_question<ready_job, expected<ready_snapshot>>> refills;
  std::deque<open_question<work_exchange, expected<exchange_result>>> exchanges;
  std::vector<work_offers> offers;
};

class fake_database : public answering<database_actor::base> {
public:
  fake_database(caf::actor_config& cfg, std::shared_ptr<database_record> record)
    : answering{cfg}, record_{std::move(record)} {}

  behavior_type make_behavior() override {
    return {
      [](enqueue_atom, const submission&) -> expected<accepted_jobs> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](enqueue_atom, const submissions&) -> expected<submission_results> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [this](claim_atom, const claim_request& asked) { return note<expected<job_grant>>(record_->claims, asked); },
      [this](start_atom, attempt_key key) { return note<outcome>(record_->starts, key); },
      [this](step_atom, attempt_key key, const step_record& step) -> outcome {
        record_->steps.emplace_back(key, step);
        return kcx::done{};
      },
      [this](complete_atom, const attempt_result& result) {
        return note<expected<transition_result>>(record_->completions, result);
      },
      [this](exchange_atom, const work_exchange& wanted) {
        return note<expected<exchange_result>>(record_->exchanges, wanted);
      },
      [](renew_atom, const std::vector<lease_token>&) -> expected<std::vector<renewal>> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](get_atom, const lease_token&) -> expected<job_grant> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [this](offer_atom, const work_offers& given) { record_->offers.push_back(given); },
      [this](abandon_atom, const std::string& worker) { return note<outcome>(record_->abandons, worker); },
      [](cancel_atom, job_id, const std::string&) -> expected<transition_result> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](update_atom, job_id, const job_patch&) -> expected<transition_result> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](retry_atom, const retry_request&) -> expected<job_record> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](discard_atom, job_id) -> outcome {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](bulk_atom, const bulk_request&) -> expected<std::vector<bulk_result>> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](pause_atom, const std::string&, const std::string&) -> outcome {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](resume_atom, const std::string&) -> outcome {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](remove_atom, job_id) -> expected<removed_job> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [this](remove_atom, const retention_policy& policy) {
        return note<expected<std::vector<removed_job>>>(record_->removals, policy);
      },
      [](token_atom, const new_token&) -> expected<token_record> {
        return error{ec::internal, "not part of these tests", {}};
      },
      [](revoke_atom, std::int64_t) -> outcome { return kcx::done{}; },
      [](token_atom, const token_uses&) -> outcome { return kcx::done{}; },
      [](webhook_atom, const std::string&, const webhook_spec&) -> outcome { return kcx::done{}; },
      [](webhook_atom, const std::string&) -> outcome { return kcx::done{}; },
      [](deliver_atom, const delivery_try&) -> outcome { return kcx::done{}; },
      [](deliver_atom, std::int64_t) -> outcome { return kcx::done{}; },
      [this](promote_atom) { return note<expected<std::optional<timestamp>>>(record_->promotes, 0); },
      [this](checkpoint_atom) { return note<expected<std::int64_t>>(record_->checkpoints, 0); },
      [this](subscribe_atom, const ready_listener_actor& listener) {
        return note<expected<ready_snapshot>>(record_->subscriptions, listener);
      },
      [this](refill_atom, const ready_job& last) { return note<expected<ready_snapshot>>(record_->refills, last); },
      [](subscribe_atom, const change_listener_actor&) {},
      [](flush_atom) {},
      [](tick_atom) {},
      [](sweep_atom, bool) {},
      [](status_atom) { return actor_status{}; },
      [this](fault_atom, const std::string&) { answer_next(); },
    };
  }

  // An open promise keeps its actor, which must not keep the promise.
  void on_exit() override { record_.reset(); }

private:
  std::shared_ptr<database_record> record_;
};

/// The oldest open question, taken out.
template <class Question>
Question next(std::deque<Question>& questions) {
  auto first = std::move(questions.front());
  questions.pop_front();
  return first;
}

} // namespace kcx::test
