#include "actors/node/node.hpp"

#include "actors/http/server/connection_share.hpp"
#include "actors/http/server/server.hpp"
#include "actors/node/children.hpp"
#include "actors/node/ports.hpp"
#include "actors/runner/job_environment.hpp"
#include "actors/runner/process_runner_host.hpp"
#include "actors/runner/process_sweep.hpp"
#include "actors/runner/spawn.hpp"
#include "actors/workers/leftovers.hpp"
#include "config/live_settings.hpp"
#include "config/logging.hpp"
#include "storage/sqlite/reader.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <stop_token>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// How many held attempts of a dead node are ended per transaction.
constexpr std::size_t recovery_round = 1'000;

/// How long a stopping listener waits for requests in flight.
constexpr std::chrono::milliseconds listener_grace{3'000};

/// How long runners that are still there at the very end may take to end their jobs.
constexpr std::chrono::milliseconds runner_patience{5'000};

struct actor_config : caf::actor_system_config {
  explicit actor_config(const settings& options) {
    add_message_types<caf::id_block::kcx_messages>();
    add_message_types<caf::id_block::kcx_handles>();
    config_file_path = "";
    // One shared queue: half the latency of work stealing here, and no thread that spins when idle.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", static_cast<std::size_t>(options.scheduler_threads));
    // A busy actor lets others have its thread now and then.
    set("scheduler.max-throughput", std::size_t{50});
  }
};

/// Who jobs run as must be known before the first one starts.
outcome check_account(const settings& options) {
  const bool root = ::geteuid() == 0;
  if (options.job_user.empty()) {
    if (root)
      spdlog::warn(
        "this node runs as root, and so does every job that names no user: whoever may submit jobs owns this "
        "machine. Set job-user, or run the node as an account of its own (docs/security.md)");
    return kcx::done{};
  }
  const auto wanted = find_account(options.job_user);
  if (!wanted)
    return error{
      ec::invalid_setting, "option --job-user cannot be \"" + options.job_user + "\": " + wanted.error().message, {}};
  if (!root && wanted->uid != ::geteuid())
    return error{ec::invalid_setting,
                 "option --job-user cannot be \"" + options.job_user +
                   "\": only a node that runs as root can run jobs as another account",
                 {}};
  return kcx::done{};
}

cgroup_access choose_limits(const settings& options) {
  cgroup_access access;
  access.detail = "limits are those of setrlimit: the option cgroups is off";
  if (options.cgroups)
    access = prepare_cgroups();
  spdlog::info("{}", access.detail);
  return access;
}

/// Ends the processes a dead node left behind, then marks its jobs: in this order, so that a job that is queued again
/// never runs beside its former self.
outcome recover(job_store& store, const data_directory& data) {
  const auto swept =
    sweep_marked(node_marker(process_mark(store.node_id(), data.path())), (data.path() / "workspaces").string());
  if (!swept)
    return swept.error();
  if (*swept > 0)
    spdlog::warn("ended {} processes that an earlier node left behind", *swept);
  std::size_t count = 0;
  for (;;) {
    const auto ended = store.end_held(std::nullopt, attempt_outcome::node_restarted, wall_clock_now(), recovery_round,
                                      find_log(data.path()));
    if (!ended)
      return ended.error();
    if (auto committed = store.commit(); !committed)
      return committed;
    if (ended->empty())
      break;
    count += ended->size();
  }
  if (count > 0)
    spdlog::warn("{} jobs were running when an earlier node died; each went on by its own on_interrupt", count);
  return kcx::done{};
}

outcome check_runner(const settings& options) {
  const auto refused = [&](const std::string& cause) {
    return error{ec::invalid_setting,
                 "option --runner cannot be \"" + options.runner.string() + "\": " + cause +
                   "; allowed is the program kcx-runner",
                 {}};
  };
  std::error_code failed;
  const auto about = std::filesystem::status(options.runner, failed);
  if (!std::filesystem::is_regular_file(about))
    return refused(failed ? failed.message() : "it is no file");
  if (::access(options.runner.c_str(), X_OK) != 0)
    return refused(std::generic_category().message(errno));
  return kcx::done{};
}

template <class Handle>
expected<std::unique_ptr<http::server>> listen_for(const endpoint& where, const char* what,
                                                   http::server_options options,
                                                   std::shared_ptr<http::gate<Handle>> gate) {
  options.address = where.address;
  options.port = where.port;
  options.warn = [what](std::string_view text) { spdlog::warn("{}: {}", what, text); };
  return http::server::start(std::move(options), [gate](http::request ask, http::responder way_back) {
    gate->handle(std::move(ask), std::move(way_back));
  });
}

std::size_t open_files_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1'024;
}

std::shared_ptr<runner_host> make_runners(process_io& processes, const settings& options, const std::string& mark) {
  runner_options runner;
  runner.path = options.runner.string();
  runner.env = runner_environment(mark);
  runner.orphan_grace = options.stop_grace;
  return make_runner_host(processes, std::move(runner));
}

/// As many as the webhook sender has under way at the same time.
constexpr std::size_t webhook_threads = 8;

} // namespace

// Members are in the order of construction and go in reverse: the process thread outlives the actors, since runners end
// with it.
class node::impl {
public:
  impl(settings options, data_directory data, std::unique_ptr<job_store> store, cgroup_access cgroups,
       std::function<void()> on_end, std::function<void()> on_drain)
    : options_{std::move(options)}, live_{options_}, data_{std::move(data)},
      archiver_{data_.path(), [this] { return live_.now()->compress_logs_after; }},
      context_{options_,
               live_,
               data_,
               process_mark(store->node_id(), data_.path()),
               std::move(cgroups),
               processes_,
               make_runners(processes_, options_, process_mark(store->node_id(), data_.path())),
               files_,
               archiver_,
               couriers_,
               std::move(store),
               {},
               {},
               {},
               wall_clock_now(),
               static_cast<std::uint32_t>(options_.slots),
               stopping_.get_token(),
               std::make_shared<http::gate<http_bridge_actor>>(),
               std::make_shared<http::gate<inspector_actor>>()},
      on_end_{std::move(on_end)}, on_drain_{std::move(on_drain)}, config_{options_}, system_{config_} {}

  ~impl() {
    context_.bridge_gate->close();
    context_.inspector_gate->close();
    api_.reset();
    inspection_.reset();
    // It has ended by now, unless the start failed half way.
    if (root_)
      caf::anon_send_exit(root_, caf::exit_reason::user_shutdown);
    root_ = nullptr;
    // Not before: what is given up now is sent again after the next start, and counts as no failure.
    stopping_.request_stop();
    couriers_.stop();
    system_.await_all_actors_done();
    processes_.stop(runner_patience);
    context_.runners.reset(); // what still waits there holds actors
  }

  outcome listen() {
    auto tokens = load_tokens(options_, data_);
    if (!tokens)
      return std::move(tokens).error();
    context_.tokens = *std::move(tokens);
    const auto connections = http::share_connections(open_files_limit(), static_cast<std::size_t>(options_.slots));
    if (!connections)
      return connections.error();
    auto to_api = api_options(options_, context_.tokens);
    to_api.limits.connections = connections->api;
    to_api.abandoned = [gate = context_.bridge_gate](std::uint64_t, std::uint64_t request) {
      if (const auto bridge = gate->now())
        caf::anon_send(bridge, unfollow_atom_v, request);
    };
    auto api = listen_for(options_.http, "http", std::move(to_api), context_.bridge_gate);
    if (!api)
      return std::move(api).error();
    api_ = *std::move(api);
    auto to_inspector = inspection_options(options_, context_.tokens);
    to_inspector.limits.connections = connections->inspection;
    auto inspection = listen_for(options_.inspect, "inspection", std::move(to_inspector), context_.inspector_gate);
    if (!inspection)
      return std::move(inspection).error();
    inspection_ = *std::move(inspection);
    context_.http_url = api_->url();
    context_.inspect_url = inspection_->url();
    return kcx::done{};
  }

  outcome start_actors() {
    auto leftovers = find_leftovers(data_.path());
    root_options options;
    options.factories = make_factories(context_);
    options.fault_injection = options_.fault_injection;
    options.wired = [this](const node_actors& actors) {
      connect(context_, actors);
      settled();
    };
    options.draining = on_drain_;
    options.close_listeners = [this] { close_listeners(); };
    // Detached: opening a database blocks.
    root_ = system_.spawn<root_supervisor, caf::detached>(std::move(options));
    root_->attach_functor([this](const caf::error& reason) { ended(reason); });
    settled_.get_future().wait();
    if (auto why = failure(); !why.empty())
      return error{ec::internal, std::move(why), {}};
    sweep_leftovers(
      data_.path(), std::move(leftovers), files_.executor(),
      [file = data_.database()] { return open_sqlite_reader(file); }, [this](attempt_key key) { archiver_.add(key); });
    return data_.announce({context_.http_url, context_.inspect_url});
  }

  void stop(bool drain) { caf::anon_send(root_, stop_atom_v, drain ? stop_mode::drain : stop_mode::now); }

  void reload(const settings& fresh) {
    const auto report = live_.reload(fresh);
    for (const auto& name : report.kept)
      spdlog::warn("SIGHUP: {} differs, but changes only when the node is started again", name);
    spdlog::info("SIGHUP: {}",
                 report.changed.empty() ? std::string{"no setting changed"} : "changed " + joined(report.changed));
    const auto now = live_.now();
    set_log_level(now->log);
    const auto changed = [&](std::string_view name) { return std::ranges::count(report.changed, name) > 0; };
    if (changed("slots"))
      caf::anon_send(root_, slots_atom_v, static_cast<std::uint32_t>(now->slots));
    if (changed("keep") || changed("keep-count"))
      caf::anon_send(root_, update_atom_v, retention_of(*now));
    archiver_.look_again();
    reload_files();
  }

  std::string failure() const {
    const std::lock_guard lock{mutex_};
    return failure_;
  }

  const node_context& context() const noexcept { return context_; }

private:
  /// What is read from files that settings name, and read again on SIGHUP although no setting changed.
  void reload_files() {
    if (options_.tls_certificate.empty())
      return;
    for (auto* each : {api_.get(), inspection_.get()}) {
      if (const auto loaded = each->reload_tls(); !loaded) {
        spdlog::error("SIGHUP: {}; the former certificate stays in use", loaded.error().message);
        return;
      }
    }
    spdlog::info("SIGHUP: the certificate files were read again");
  }

  void close_listeners() {
    data_.retract();
    api_->stop(listener_grace);
    inspection_->stop(listener_grace);
  }

  void ended(const caf::error& reason) {
    {
      const std::lock_guard lock{mutex_};
      if (reason && reason != caf::exit_reason::user_shutdown)
        failure_ = gave_up(reason) ? reason.context().get_as<std::string>(0) : caf::to_string(reason);
    }
    settled();
    on_end_();
  }

  /// The actors run for the first time, or will not.
  void settled() {
    std::call_once(settled_once_, [this] { settled_.set_value(); });
  }

  settings options_;
  live_settings live_;
  data_directory data_;
  process_io processes_;
  log_archiver archiver_;
  http::file_threads files_;
  std::stop_source stopping_;
  http::file_threads couriers_{webhook_threads};
  node_context context_;
  std::function<void()> on_end_;
  std::function<void()> on_drain_;
  mutable std::mutex mutex_;
  std::string failure_;
  std::once_flag settled_once_;
  std::promise<void> settled_;
  actor_config config_;
  caf::actor_system system_;
  std::unique_ptr<http::server> api_;
  std::unique_ptr<http::server> inspection_;
  root_supervisor_actor root_;
};

expected<std::unique_ptr<node>> node::start(settings options, std::function<void()> on_end,
                                            std::function<void()> on_drain) {
  if (auto checked = check_account(options); !checked)
    return std::move(checked).error();
  if (auto checked = check_runner(options); !checked)
    return std::move(checked).error();
  auto data = data_directory::open(options.data);
  if (!data)
    return std::move(data).error();
  for (const auto& warning : data->warnings())
    spdlog::warn("{}", warning);
  auto store = open_store(options, *data);
  if (!store)
    return std::move(store).error();
  if (auto recovered = recover(**store, *data); !recovered)
    return std::move(recovered).error();
  auto cgroups = choose_limits(options);
  auto parts = std::make_unique<impl>(std::move(options), *std::move(data), *std::move(store), std::move(cgroups),
                                      std::move(on_end), std::move(on_drain));
  if (auto listening = parts->listen(); !listening)
    return std::move(listening).error();
  if (auto started = parts->start_actors(); !started)
    return std::move(started).error();
  return std::unique_ptr<node>{new node{std::move(parts)}};
}

node::node(std::unique_ptr<impl> parts) : impl_{std::move(parts)} {}

node::~node() = default;

void node::stop(bool drain) {
  impl_->stop(drain);
}

void node::reload(const settings& fresh) {
  impl_->reload(fresh);
}

std::string node::failure() const {
  return impl_->failure();
}

const std::string& node::http_url() const noexcept {
  return impl_->context().http_url;
}

const std::string& node::inspect_url() const noexcept {
  return impl_->context().inspect_url;
}

} // namespace kcx
