#include "tests/actors/inspector/inspector_harness.hpp"

#include "actors/http/message/auth.hpp"
#include "actors/inspector/inspector.hpp"
#include "actors/interfaces.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>

#include <utility>

namespace kcx::test {

namespace {

using harness = inspector_harness;

const error no_such{ec::not_found, "no such thing", {}};

/// On actor_base, so that the registry has it.
class fake_database : public actor_base<status_actor> {
public:
  fake_database(caf::actor_config& cfg, harness* owner) : actor_base{cfg, "database"}, owner_{owner} {}

  behavior_type make_behavior() override {
    return {
      [this](status_atom) {
        auto promise = make_response_promise<actor_status>();
        asked_.push_back(promise);
        if (!owner_->database_silent)
          for (auto& each : std::exchange(asked_, {}))
            each.deliver(actor_status{{"commits", 12}, {"operations", 48}, {"largest_batch", 9}});
        return promise;
      },
      [this](fault_atom, const std::string& text) { fault(text); },
    };
  }

private:
  harness* owner_;
  std::vector<caf::typed_response_promise<actor_status>> asked_;
};

reader_actor::behavior_type fake_reader(reader_actor::pointer self, harness* owner) {
  return {
    [](get_atom, job_id) { return expected<job_record>{no_such}; },
    [=](list_atom, const job_filter&) {
      auto promise = self->make_response_promise<expected<job_page>>();
      if (!owner->reader_silent)
        promise.deliver(expected<job_page>{job_page{owner->jobs, {}}});
      return promise;
    },
    [](log_atom, job_id, std::int32_t) { return expected<log_location>{no_such}; },
    [=](stats_atom) {
      ++owner->counts;
      auto promise = self->make_response_promise<expected<queue_stats>>();
      if (!owner->reader_silent)
        promise.deliver(expected<queue_stats>{owner->stats});
      return promise;
    },
    [](events_atom, const event_filter&) { return expected<event_page>{no_such}; },
    [](token_atom) { return expected<std::vector<token_record>>{no_such}; },
    [](webhook_atom) { return expected<std::vector<project_webhook>>{no_such}; },
    [](deliver_atom, timestamp) { return expected<due_deliveries>{no_such}; },
    [](deliver_atom, const delivery_filter&) { return expected<delivery_page>{no_such}; },
    [](queues_atom) { return expected<std::vector<queue_info>>{no_such}; },
    [](queues_atom, const std::string&) { return expected<queue_info>{no_such}; },
    [](why_atom, job_id) { return expected<job_blockers>{no_such}; },
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
  }
};

} // namespace

struct inspector_harness::impl {
  explicit impl(harness* of) : owner{of} {}

  harness* owner;
  test_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())};
  status_actor database;
  reader_actor reader;
  inspector_actor inspector;
  std::shared_ptr<http::token_table> tokens = std::make_shared<http::token_table>(
    http::token_table::options{.admin_digest = http::token_digest(harness::admin_token)});
  std::vector<inspector_actor> former;

  void settle() {
    while (scheduler.try_run_once()) {
    }
  }

  void start_inspector() {
    inspector_settings settings;
    settings.tokens = tokens;
    settings.node = {{"version", "1.2.3"}, {"http", "http://127.0.0.1:7070"}};
    settings.slots = [this] { return owner->slots; };
    settings.clock = [this] { return owner->now; };
    inspector = system.spawn<kcx::inspector>(std::vector{reader}, std::move(settings));
    caf::anon_send(inspector, rewire_atom_v, inspector::watched_actors{{"database", database}});
    settle();
  }

  void replace_inspector() {
    // It stays allocated as long as somebody has its handle.
    former.push_back(inspector);
    settle();
    start_inspector();
  }
};

inspector_harness::inspector_harness() : impl_{std::make_unique<impl>(this)} {
  auto& my = *impl_;
  my.database = my.system.spawn<fake_database>(this);
  my.reader = my.system.spawn(fake_reader, this);
  my.start_inspector();
}

inspector_harness::~inspector_harness() {
  caf::anon_send_exit(impl_->inspector, caf::exit_reason::kill);
  caf::anon_send_exit(impl_->database, caf::exit_reason::kill);
  caf::anon_send_exit(impl_->reader, caf::exit_reason::kill);
  impl_->settle();
}

std::shared_ptr<std::optional<http::response>>
inspector_harness::ask(const std::string& method, const std::string& path, http::header_fields headers) {
  auto slot = std::make_shared<std::optional<http::response>>();
  auto exchange = std::make_shared<http_exchange>();
  exchange->request.method = method;
  exchange->request.path = path;
  exchange->request.headers = std::move(headers);
  exchange->respond = [slot](http::response answer) {
    *slot = std::move(answer);
    return true;
  };
  caf::anon_send(impl_->inspector, http_atom_v, http_exchange_ptr{std::move(exchange)});
  impl_->settle();
  return slot;
}

http::token_table& inspector_harness::tokens() {
  return *impl_->tokens;
}

void inspector_harness::advance(std::chrono::milliseconds by) {
  impl_->scheduler.advance_time(by);
  impl_->settle();
}

std::uint64_t inspector_harness::inspector_id() const {
  return impl_->inspector.id();
}

std::uint64_t inspector_harness::database_id() const {
  return impl_->database.id();
}

std::size_t inspector_harness::holders_of_database() const {
  return caf::actor_cast<caf::actor_control_block*>(impl_->database)->strong_refs;
}

void inspector_harness::start_draining() {
  caf::anon_send(impl_->inspector, drain_atom_v);
  impl_->settle();
}

void inspector_harness::end_silence() {
  database_silent = false;
  caf::anon_send(impl_->database, status_atom_v);
  impl_->settle();
}

void inspector_harness::crash_and_replace() {
  caf::anon_send(impl_->inspector, fault_atom_v, std::string{"for the test"});
  impl_->replace_inspector();
}

void inspector_harness::stop_and_replace() {
  caf::anon_send_exit(impl_->inspector, caf::exit_reason::user_shutdown);
  impl_->replace_inspector();
}

} // namespace kcx::test
