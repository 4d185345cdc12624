#include "tests/actors/http/bridge/harness.hpp"

#include "actors/http/bridge/bridge.hpp"
#include "actors/http/message/auth.hpp"
#include "storage/time.hpp"
#include "tests/actors/http/bridge/fake_actors.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

namespace kcx::test {

namespace {

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
  ask.id = options.id;
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

// -- the harness ------------------------------------------------------------------------------------------------------

struct bridge_harness::impl {
  test_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())};
  database_actor database;
  std::vector<reader_actor> readers;
  dispatcher_actor dispatcher;
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
  my.dispatcher = my.system.spawn(fake_dispatcher, &node);
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
  bridge_peers peers{my.database, my.readers, my.hub, my.workers, my.root, my.dispatcher};
  my.bridge = my.system.spawn<http_bridge>(std::move(peers), std::move(settings));
  my.settle();
}

bridge_harness::~bridge_harness() {
  auto& my = *impl_;
  caf::anon_send_exit(my.bridge, caf::exit_reason::kill);
  caf::anon_send_exit(my.database, caf::exit_reason::kill);
  for (const auto& each : my.readers)
    caf::anon_send_exit(each, caf::exit_reason::kill);
  caf::anon_send_exit(my.dispatcher, caf::exit_reason::kill);
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

std::string bridge_harness::make_token(const std::string& scope, std::chrono::milliseconds lasts) {
  const nlohmann::json wanted{{"name", "ci"}, {"scopes", {scope}}, {"expires_at", to_rfc3339(now + lasts)}};
  return post("/v1/tokens", wanted.dump())->json().value("token", "");
}

void bridge_harness::job_is_ready() {
  caf::anon_send(impl_->dispatcher, ready_atom_v, ready_notice{});
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

void bridge_harness::abandon(std::uint64_t request) {
  caf::anon_send(impl_->bridge, unfollow_atom_v, request);
  impl_->settle();
}

std::size_t bridge_harness::timers() const {
  return impl_->scheduler.clock().schedule().size();
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
