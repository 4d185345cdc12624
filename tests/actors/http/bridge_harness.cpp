#include "tests/actors/http/bridge_harness.hpp"

#include "actors/http/auth.hpp"
#include "actors/http/bridge.hpp"
#include "actors/interfaces.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

namespace kcx::test {

namespace {

// -- fakes ------------------------------------------------------------------------------------------------------------

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
      return gone == 1 ? outcome{kcx::done{}} : outcome{no_such};
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
    [](exchange_atom, const work_exchange&) { return expected<exchange_result>{no_such}; },
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
    [=](stats_atom) { return reply(self, silent(), expected<queue_stats>{node->stats}); },
    [=](queues_atom) { return reply(self, silent(), expected<std::vector<queue_info>>{node->queues}); },
    [=](why_atom, job_id) { return reply(self, silent(), expected<job_blockers>{no_such}); },
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

struct test_config : caf::actor_system_config {
  test_config() {
    add_message_types<caf::id_block::kcx_messages>();
    add_message_types<caf::id_block::kcx_handles>();
    config_file_path = "";
    set("scheduler.policy", caf::atom("testing"));
    set("logger.verbosity", caf::atom("quiet"));
  }
};

http::request made(const std::string& method, const std::string& target, ask_options options) {
  http::request ask;
  ask.method = method;
  ask.target = target;
  ask.path = target.substr(0, target.find('?'));
  if (const auto at = target.find('?'); at != std::string::npos) {
    auto rest = target.substr(at + 1) + "&";
    for (std::size_t end = rest.find('&'); end != std::string::npos; end = rest.find('&')) {
      const auto pair = rest.substr(0, end);
      const auto equals = pair.find('=');
      ask.query.emplace_back(pair.substr(0, equals), equals == std::string::npos ? "" : pair.substr(equals + 1));
      rest.erase(0, end + 1);
    }
  }
  for (const auto& [name, value] : options.headers)
    ask.headers.add(name, value);
  if (!options.other_token.empty())
    ask.headers.add("Authorization", "Bearer " + options.other_token);
  else if (options.token)
    ask.headers.add("Authorization", "Bearer " + std::string{bridge_harness::token});
  ask.body = std::move(options.body);
  ask.incoming = std::move(options.incoming);
  return ask;
}

} // namespace

// -- answers ----------------------------------------------------------------------------------------------------------

nlohmann::json& bridge_answer::json() {
  if (!parsed_)
    parsed_ = answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
  return *parsed_;
}

std::string bridge_answer::code() {
  if (header("Content-Type") != "application/problem+json")
    return {};
  return json().value("code", "");
}

std::string bridge_answer::header(std::string_view name) const {
  return answer ? std::string{answer->headers.find(name).value_or("")} : std::string{};
}

struct body_reader::state {
  std::shared_ptr<http::body_source> source;
  std::string text;
  bool waiting = false;
  bool ended = false;
  bool failed = false;
};

body_reader::body_reader(const http::response& answer) : state_{std::make_shared<state>()} {
  state_->source = answer.stream;
  if (!answer.stream) {
    state_->text = answer.body;
    state_->ended = true;
  }
}

void body_reader::ask() {
  state_->waiting = true;
  state_->source->next(1'000, [weak = std::weak_ptr{state_}](http::chunk piece) {
    const auto self = weak.lock();
    if (!self)
      return;
    self->waiting = false;
    self->text += piece.bytes;
    self->ended = piece.last;
    self->failed = piece.failed;
  });
}

std::string body_reader::take() {
  while (!state_->waiting && !ended() && !failed())
    ask();
  return std::exchange(state_->text, {});
}

bool body_reader::ended() const {
  return state_->ended;
}

bool body_reader::failed() const {
  return state_->failed;
}

void body_reader::hang_up() {
  if (state_->source)
    state_->source->cancel();
  state_->source.reset();
}

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

// -- the harness ------------------------------------------------------------------------------------------------------

struct bridge_harness::impl {
  test_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())};
  database_actor database;
  std::vector<reader_actor> readers;
  log_hub_actor hub;
  worker_supervisor_actor workers;
  root_supervisor_actor root;
  http_bridge_actor bridge;
  /// Tests compare with parts of answers they hold no longer. Goes first: bodies know the bridge.
  std::vector<std::shared_ptr<bridge_answer>> answers;

  void settle() {
    while (scheduler.try_run_once()) {
    }
  }
};

bridge_harness::bridge_harness(const std::filesystem::path& data_dir, bool fault_injection)
  : impl_{std::make_unique<impl>()} {
  auto& my = *impl_;
  my.database = my.system.spawn(fake_database, &node);
  for (std::size_t number = 0; number < 2; ++number)
    my.readers.push_back(my.system.spawn(fake_reader, &node, number));
  my.hub = my.system.spawn(fake_hub, &node);
  my.workers = my.system.spawn(fake_workers, &node);
  my.root = my.system.spawn(fake_root, &node);
  http::token_table::options who;
  who.admin_digest = http::token_digest(token);
  who.clock = [this] { return now; };
  tokens = std::make_shared<http::token_table>(std::move(who));
  bridge_settings settings;
  settings.tokens = tokens;
  settings.data_dir = data_dir;
  settings.node = {{"version", "1.2.3"}};
  settings.slots = [this] { return node.slots; };
  settings.fault_injection = fault_injection;
  settings.files = [this](const std::function<void()>& work) {
    if (hold_files)
      held_files.push_back(work);
    else
      work();
  };
  settings.remove_files = [this](removed_job job) { node.removed.push_back(job.id); };
  settings.clock = [this] { return now; };
  settings.jobs_per_request = 3;
  settings.waiters = 2;
  bridge_peers peers{my.database, my.readers, my.hub, my.workers, my.root};
  my.bridge = my.system.spawn<http_bridge>(std::move(peers), std::move(settings));
  my.settle();
}

bridge_harness::~bridge_harness() {
  auto& my = *impl_;
  caf::anon_send_exit(my.bridge, caf::exit_reason::kill);
  caf::anon_send_exit(my.database, caf::exit_reason::kill);
  for (const auto& each : my.readers)
    caf::anon_send_exit(each, caf::exit_reason::kill);
  caf::anon_send_exit(my.hub, caf::exit_reason::kill);
  caf::anon_send_exit(my.workers, caf::exit_reason::kill);
  caf::anon_send_exit(my.root, caf::exit_reason::kill);
  my.settle();
}

std::shared_ptr<bridge_answer> bridge_harness::ask(const std::string& method, const std::string& target,
                                                   ask_options options) {
  auto result = impl_->answers.emplace_back(std::make_shared<bridge_answer>());
  auto exchange = std::make_shared<http_exchange>();
  exchange->request = made(method, target, std::move(options));
  // Runs when the last copy of `respond` goes.
  const std::shared_ptr<void> guard{nullptr, [result](void*) { result->dropped = !result->answer; }};
  exchange->respond = [result, guard](http::response answer) {
    if (result->answer)
      return false;
    result->answer = std::move(answer);
    return true;
  };
  caf::anon_send(impl_->bridge, http_atom_v, http_exchange_ptr{std::move(exchange)});
  impl_->settle();
  return result;
}

std::shared_ptr<bridge_answer> bridge_harness::post(const std::string& target, const std::string& body) {
  return ask("POST", target, {body, {{"Content-Type", "application/json; charset=utf-8"}}});
}

void bridge_harness::run_held_files() {
  for (; !held_files.empty(); held_files.pop_front())
    held_files.front()();
  impl_->settle();
}

void bridge_harness::advance(std::chrono::milliseconds by) {
  impl_->scheduler.advance_time(by);
  impl_->settle();
}

void bridge_harness::change(job_id job, job_state state, std::int32_t attempt) {
  auto& stored = node.jobs.at(job.value);
  stored.state = state;
  stored.attempt = attempt;
  ++stored.version;
  job_change change{job, state, job_reason::none, attempt, "node/1", {}};
  const job_changes changes = std::make_shared<const std::vector<job_change>>(1, change);
  caf::anon_send(impl_->bridge, changed_atom_v, changes);
  impl_->settle();
}

void bridge_harness::grew(std::uint64_t follower) {
  caf::anon_send(impl_->bridge, grew_atom_v, follower);
  impl_->settle();
}

void bridge_harness::start_draining() {
  caf::anon_send(impl_->bridge, drain_atom_v);
  impl_->settle();
}

void bridge_harness::crash() {
  caf::anon_send(impl_->bridge, fault_atom_v, std::string{"for the test"});
  impl_->settle();
}

void bridge_harness::kill_database() {
  caf::anon_send_exit(impl_->database, caf::exit_reason::kill);
  impl_->settle();
}

void bridge_harness::kill_reader(std::size_t number) {
  caf::anon_send_exit(impl_->readers.at(number), caf::exit_reason::kill);
  impl_->settle();
}

void bridge_harness::replace_database() {
  kill_database();
  impl_->database = impl_->system.spawn(fake_database, &node);
  caf::anon_send(impl_->bridge, rewire_atom_v, impl_->database);
  impl_->settle();
}

void bridge_harness::replace_log_hub() {
  caf::anon_send_exit(impl_->hub, caf::exit_reason::kill);
  impl_->hub = impl_->system.spawn(fake_hub, &node);
  caf::anon_send(impl_->bridge, rewire_atom_v, impl_->hub);
  impl_->settle();
}

std::size_t bridge_harness::holders_of_root() const {
  return caf::actor_cast<caf::actor_control_block*>(impl_->root)->strong_refs;
}

std::int64_t bridge_harness::status(const std::string& key) {
  caf::scoped_actor self{impl_->system};
  std::int64_t result = -1;
  auto answer = self->request(impl_->bridge, caf::infinite, status_atom_v);
  impl_->settle();
  answer.receive([&](const actor_status& status) { result = status.value(key, -1); }, [](const caf::error&) {});
  return result;
}

} // namespace kcx::test
