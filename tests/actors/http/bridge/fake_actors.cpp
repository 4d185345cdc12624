#include "tests/actors/http/bridge/fake_actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace kcx::test {

namespace {

/// Answers with `value`, or never.
template <class T, class Self>
caf::typed_response_promise<T> reply(Self* self, bool silent, T value) {
  auto promise = self->template make_response_promise<T>();
  if (!silent)
    promise.deliver(std::move(value));
  return promise;
}

expected<accepted_jobs> stored(fake_node& node, const submission& asked) {
  if (node.enqueue_failure)
    return *node.enqueue_failure;
  if (asked.once)
    node.keys.push_back(*asked.once);
  if (node.enqueue_answer)
    return *node.enqueue_answer;
  accepted_jobs result;
  for (const auto& each : asked.specs) {
    node.enqueued.push_back(each);
    auto job = some_job(static_cast<std::int64_t>(node.enqueued.size()), job_state::queued);
    job.spec = each;
    node.jobs[job.id.value] = job;
    result.jobs.push_back(job);
  }
  return result;
}

/// One that has a unique key is refused.
expected<submission_results> stored_each(fake_node& node, const submissions& asked) {
  node.chunks.push_back(asked.size());
  if (node.enqueue_failure)
    return *node.enqueue_failure;
  submission_results results;
  for (const auto& each : asked) {
    if (each.specs.front().unique_key.empty())
      results.push_back(stored(node, each));
    else
      results.push_back(error{ec::conflict, "that key is taken", {{"/unique_key", "is taken"}}});
  }
  return results;
}

const error no_such{ec::not_found, "no such thing", {}};

/// Refuses job 13; gives each other its number plus 100 as the new one.
expected<std::vector<bulk_result>> act_on(fake_node& node, const bulk_request& wanted) {
  node.bulks.emplace_back(static_cast<int>(wanted.action), wanted.jobs);
  std::vector<bulk_result> results;
  for (const auto job : wanted.jobs) {
    bulk_result result{job};
    result.state = job_state::cancelled;
    if (job.value == 13)
      result.failure = error{ec::conflict, "job 13 is like that", {}};
    else if (wanted.action == bulk_action::requeue)
      result.created = job_id{job.value + 100};
    results.push_back(std::move(result));
  }
  return results;
}

event_page page_of(const fake_node& node, const event_filter& filter) {
  event_page page{{}, node.events.empty() ? 0 : node.events.back().number, false};
  if (!filter.after)
    return page;
  for (const auto& each : node.events) {
    if (each.number <= *filter.after)
      continue;
    if (page.items.size() == filter.limit) {
      page.last = page.items.back().number;
      page.more = true;
      break;
    }
    page.items.push_back(each);
  }
  return page;
}

} // namespace

job_record some_job(std::int64_t id, job_state state, std::int32_t attempt) {
  job_record job;
  job.id = job_id{id};
  job.spec.name = "job " + std::to_string(id);
  job.spec.command = command_line{false, {"true"}};
  job.state = state;
  job.attempt = attempt;
  job.created_at = timestamp{std::chrono::seconds{1'000'000}};
  job.version = 1;
  return job;
}

database_actor::behavior_type fake_database(database_actor::pointer self, fake_node* node) {
  return {
    [=](enqueue_atom, const submission& asked) { return reply(self, node->database_silent, stored(*node, asked)); },
    [=](enqueue_atom, const submissions& asked) {
      return reply(self, node->database_silent, stored_each(*node, asked));
    },
    [](claim_atom, const claim_request&) { return expected<job_grant>{no_such}; },
    [](start_atom, attempt_key) { return outcome{no_such}; },
    [](step_atom, attempt_key, const step_record&) { return outcome{no_such}; },
    [](complete_atom, const attempt_result&) { return expected<transition_result>{no_such}; },
    [](abandon_atom, const std::string&) { return outcome{no_such}; },
    [=](cancel_atom, job_id, const std::string& who) {
      node->cancelled_by.push_back(who);
      return reply(self, node->database_silent, node->cancel_answer.value_or(no_such));
    },
    [=](update_atom, job_id job, const job_patch& patch) {
      node->patches.emplace_back(job, patch);
      return node->cancel_answer.value_or(no_such);
    },
    [=](retry_atom, const retry_request& wanted) {
      node->retries.push_back({wanted.job, wanted.secrets, wanted.what == retry_what::dead_letter});
      return node->retry_answer.value_or(no_such);
    },
    [=](discard_atom, job_id job) {
      node->discarded.push_back(job);
      return node->simple_answer;
    },
    [=](bulk_atom, const bulk_request& wanted) { return act_on(*node, wanted); },
    [=](pause_atom, const std::string& queue, const std::string& who) {
      node->paused[queue] = who;
      return node->simple_answer;
    },
    [=](resume_atom, const std::string& queue) {
      node->paused.erase(queue);
      return node->simple_answer;
    },
    [=](remove_atom, job_id job) {
      return node->simple_answer ? expected<removed_job>{removed_job{job, 2}} : node->simple_answer.error();
    },
    [](remove_atom, const retention_policy&) { return expected<std::vector<removed_job>>{no_such}; },
    [=](token_atom, const new_token& token) {
      token_record stored{static_cast<std::int64_t>(node->tokens.size()) + 1, token, timestamp{}};
      if (!node->database_silent)
        node->tokens.push_back(stored);
      return reply(self, node->database_silent, expected<token_record>{stored});
    },
    [=](revoke_atom, std::int64_t id) {
      const auto gone = std::erase_if(node->tokens, [&](const token_record& each) { return each.id == id; });
      return reply(self, node->database_silent, gone == 1 ? outcome{kcx::done{}} : outcome{no_such});
    },
    [=](token_atom, const token_uses& uses) {
      node->token_uses.insert(node->token_uses.end(), uses.begin(), uses.end());
      return outcome{kcx::done{}};
    },
    [=](webhook_atom, const std::string& project, const webhook_spec& hook) {
      node->webhooks[project] = hook;
      return node->simple_answer;
    },
    [=](webhook_atom, const std::string& project) {
      return node->webhooks.erase(project) == 1 ? outcome{kcx::done{}} : outcome{no_such};
    },
    [](deliver_atom, const delivery_try&) { return outcome{kcx::done{}}; },
    [=](deliver_atom, std::int64_t id) {
      node->redelivered.push_back(id);
      return node->simple_answer;
    },
    [](promote_atom) { return expected<std::optional<timestamp>>{no_such}; },
    [](checkpoint_atom) { return expected<std::int64_t>{no_such}; },
    [](subscribe_atom, const ready_listener_actor&) { return expected<ready_snapshot>{no_such}; },
    [](refill_atom, const ready_job&) { return expected<ready_snapshot>{no_such}; },
    [=](exchange_atom, const work_exchange& wanted) {
      for (const auto& each : wanted.ended)
        node->given_back.push_back(each.key);
      return expected<exchange_result>{exchange_result{}};
    },
    [](renew_atom, const std::vector<lease_token>&) { return expected<std::vector<renewal>>{no_such}; },
    [](get_atom, const lease_token&) { return expected<job_grant>{no_such}; },
    [](offer_atom, const work_offers&) {},
    [](sweep_atom, bool) {},
    [=](subscribe_atom, const change_listener_actor&) { ++node->change_subscriptions; },
    [](flush_atom) {},
    [](tick_atom) {},
    [=](status_atom) { return reply(self, node->database_silent, actor_status::object()); },
    [](fault_atom, const std::string&) {},
  };
}

reader_actor::behavior_type fake_reader(reader_actor::pointer self, fake_node* node, std::size_t number) {
  const auto silent = [=] {
    ++node->reads[number];
    return node->reader_silent[number];
  };
  return {
    [=](get_atom, job_id id) {
      const auto found = node->jobs.find(id.value);
      return reply(self, silent(), found == node->jobs.end() ? expected<job_record>{no_such} : found->second);
    },
    [=](list_atom, const job_filter& filter) {
      node->filters.push_back(filter);
      job_page page{{}, node->next_page};
      for (auto each = node->jobs.rbegin(); each != node->jobs.rend(); ++each)
        page.items.push_back(each->second);
      return reply(self, silent(), expected<job_page>{std::move(page)});
    },
    [=](log_atom, job_id id, std::int32_t attempt) {
      // 0 is the latest one.
      const auto found = node->log_bytes.find({id, attempt == 0 ? node->jobs[id.value].attempt : attempt});
      if (found == node->log_bytes.end())
        return reply(self, silent(), expected<log_location>{no_such});
      return reply(self, silent(), expected<log_location>{{found->first, {found->second, false}, found->second >= 0}});
    },
    [=](events_atom, const event_filter& filter) {
      node->event_filters.push_back(filter);
      return reply(self, silent(), expected<event_page>{page_of(*node, filter)});
    },
    [=](token_atom) { return reply(self, silent(), expected<std::vector<token_record>>{node->tokens}); },
    [=](webhook_atom) {
      std::vector<project_webhook> hooks;
      for (const auto& [project, hook] : node->webhooks)
        hooks.push_back({project, {hook.url, {}, hook.events}, !hook.secret.empty(), timestamp{}});
      return reply(self, silent(), expected<std::vector<project_webhook>>{std::move(hooks)});
    },
    [](deliver_atom, timestamp) { return expected<due_deliveries>{no_such}; },
    [=](deliver_atom, const delivery_filter& filter) {
      node->delivery_filters.push_back(filter);
      return reply(self, silent(), expected<delivery_page>{node->deliveries});
    },
    [=](stats_atom) { return reply(self, silent() || node->counting, expected<queue_stats>{node->stats}); },
    [=](queues_atom) {
      return reply(self, silent() || node->counting, expected<std::vector<queue_info>>{node->queues});
    },
    [=](queues_atom, const std::string& name) {
      const auto found = std::ranges::find(node->queues, name, &queue_info::name);
      queue_info queue;
      queue.name = name;
      return reply(self, silent(), expected<queue_info>{found == node->queues.end() ? queue : *found});
    },
    [=](why_atom, job_id) { return reply(self, silent(), expected<job_blockers>{node->blockers}); },
    [](status_atom) { return actor_status::object(); },
    [](fault_atom, const std::string&) {},
  };
}

log_hub_actor::behavior_type fake_hub(log_hub_actor::pointer, fake_node* node) {
  return {
    [](grew_atom, attempt_key, std::int64_t) {},
    [=](follow_atom, attempt_key key, follower_id id, const follower_host_actor&) {
      node->followed.emplace_back(key, id);
    },
    [=](unfollow_atom, attempt_key key, follower_id id) { node->unfollowed.emplace_back(key, id); },
    [](tick_atom) {},
    [](changed_atom, const job_changes&) {},
    [](status_atom) { return actor_status::object(); },
    [](fault_atom, const std::string&) {},
  };
}

dispatcher_actor::behavior_type fake_dispatcher(dispatcher_actor::pointer self, fake_node* node) {
  struct waiting {
    caf::typed_response_promise<expected<exchange_result>> promise;
    std::size_t ends = 0;
  };
  auto asked = std::make_shared<std::vector<waiting>>();
  return {
    [=](claim_atom, const work_request&, const attempt_holder_actor&) { return expected<job_grant>{no_such}; },
    [](register_atom, const held_attempt&, const attempt_holder_actor&) {},
    [=](exchange_atom, const remote_request& wanted) {
      auto promise = self->make_response_promise<expected<exchange_result>>();
      node->claims.push_back(wanted.worker);
      asked->push_back({promise, wanted.ended.size()});
      return promise;
    },
    [](expire_atom, std::uint64_t) {},
    [](start_atom, attempt_key) { return outcome{no_such}; },
    [](step_atom, attempt_key, const step_record&) { return outcome{no_such}; },
    [](complete_atom, const attempt_result&) { return expected<transition_result>{no_such}; },
    [](drain_atom) {},
    [](rewire_atom, const database_actor&) {},
    [](fleet_atom, const fleet&) {},
    [](why_atom, job_id) { return dispatch_view{}; },
    [](tick_atom) {},
    [](subscribe_atom, std::uint64_t) {},
    [=](ready_atom, const ready_notice&) {
      for (auto& each : std::exchange(*asked, {})) {
        exchange_result told;
        told.ended.assign(each.ends, transition_result{});
        told.granted.emplace_back(job_grant{{{7}, 1}, some_job(7, job_state::running, 1).spec, {}, false, 4711});
        each.promise.deliver(expected<exchange_result>{std::move(told)});
      }
    },
    [](status_atom) { return actor_status::object(); },
    [](fault_atom, const std::string&) {},
  };
}

worker_supervisor_actor::behavior_type fake_workers(worker_supervisor_actor::pointer self, fake_node* node) {
  return {
    [=](list_atom) {
      std::vector<worker_info> workers{{"node/1", "busy", attempt_key{{12}, 2}, 4711}, {"node/2", "idle", {}, 0}};
      return reply(self, node->workers_silent, std::move(workers));
    },
    [](runner_atom, std::uint32_t, std::uint64_t, const runner_event&) {},
    [=](slots_atom, std::uint32_t slots) {
      node->slots = slots;
      return node->simple_answer;
    },
    [=](cordon_atom, const std::string& worker, bool on) {
      node->cordons.emplace_back(worker, on);
      return node->simple_answer;
    },
    [](exited_atom, std::uint32_t, std::uint64_t) {},
    [](swept_atom, std::uint32_t, std::uint64_t) {},
    [](stop_atom, stop_mode) { return outcome{kcx::done{}}; },
    [](fault_atom, std::uint32_t, const std::string&) {},
    [](rewire_atom, const database_actor&) {},
    [](rewire_atom, const dispatcher_actor&) {},
    [](rewire_atom, const log_hub_actor&) {},
    [](start_atom) {},
    [](tick_atom) {},
    [](status_atom) { return actor_status::object(); },
    [](fault_atom, const std::string&) {},
  };
}

root_supervisor_actor::behavior_type fake_root(root_supervisor_actor::pointer, fake_node* node) {
  return {
    [=](stop_atom, stop_mode mode) {
      node->drains += mode == stop_mode::drain ? 1 : 100;
      return outcome{kcx::done{}};
    },
    [=](fault_atom, const std::string& name, std::uint32_t index) {
      if (node->fault_failure)
        return outcome{*node->fault_failure};
      node->faults.emplace_back(name, index);
      return outcome{kcx::done{}};
    },
    [](slots_atom, std::uint32_t) {},
    [](update_atom, const retention_policy&) {},
    [](start_atom, std::uint32_t) {},
    [](status_atom) { return actor_status::object(); },
    [](fault_atom, const std::string&) {},
  };
}

} // namespace kcx::test
