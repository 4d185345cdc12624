#include "actors/node/children.hpp"

#include "actors/database/database.hpp"
#include "actors/dispatcher/dispatcher.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/client/webhook_post.hpp"
#include "actors/inspector/inspector.hpp"
#include "actors/log_hub.hpp"
#include "actors/reader.hpp"
#include "actors/runner/secret_masker.hpp"
#include "actors/runner/workspace.hpp"
#include "actors/scheduler.hpp"
#include "actors/webhook_sender.hpp"
#include "actors/workers/leftovers.hpp"
#include "actors/workers/worker.hpp"
#include "actors/workers/worker_supervisor.hpp"
#include "storage/disk_guard.hpp"
#include "storage/disk_reserve.hpp"
#include "storage/log_reader.hpp"
#include "storage/sqlite/reader.hpp"
#include "storage/sqlite/store.hpp"

#include <caf/actor_system.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace {

/// Later, on a file thread.
void remove_files(const node_context& context, std::vector<removed_job> jobs) {
  context.files.post([dir = context.data.path(), jobs = std::move(jobs)] { remove_job_files(dir, jobs); });
}

// -- storage side -----------------------------------------------------------------------------------------------------

http::byte_mask make_mask(const std::vector<std::string>& secrets) {
  auto masker = std::make_shared<secret_masker>(std::make_shared<const secret_patterns>(secrets));
  return [masker](std::string_view bytes, bool last) {
    std::string safe;
    masker->feed(bytes, safe);
    if (last)
      masker->flush(safe);
    return safe;
  };
}

expected<database_actor> make_database(node_context& context, caf::local_actor& parent) {
  auto store = std::move(context.first_store);
  if (!store) {
    auto opened = open_store(context.options, context.data);
    if (!opened)
      return std::move(opened).error();
    store = *std::move(opened);
  }
  database_options options;
  options.log_of = find_log(context.data.path());
  options.mask = [](const std::vector<std::string>& secrets, std::string_view text) {
    return make_mask(secrets)(text, true);
  };
  const auto reserve = std::make_shared<disk_reserve>(context.data.reserve());
  options.admit = [&live = context.live, guard = std::make_shared<disk_guard>(context.data.path(), 0),
                   reserve](std::int64_t owed) {
    guard->require(live.now()->min_free);
    if (reserve->missing() > 0 && guard->check(owed + reserve->missing()))
      reserve->fill();
    return guard->check(owed);
  };
  options.make_room = [reserve](std::int64_t needed, bool refused) {
    return refused ? reserve->give_up(needed) : reserve->make_room(needed);
  };
  static_cast<void>(options.admit(store->owed_bytes())); // makes the reserve
  // Detached: it blocks on the disk.
  return database_actor{parent.spawn<database, caf::detached>(std::move(store), std::move(options))};
}

expected<reader_actor> make_reader(const node_context& context, caf::local_actor& parent) {
  auto source = open_sqlite_reader(context.data.database());
  if (!source)
    return std::move(source).error();
  // Detached: it blocks on the disk.
  return reader_actor{parent.spawn<reader, caf::detached>(*std::move(source), find_log(context.data.path()))};
}

// -- workers ----------------------------------------------------------------------------------------------------------

run_settings make_run_settings(const node_context& context) {
  const auto now = context.live.now();
  run_settings run;
  run.data_dir = context.data.path();
  run.node_id = context.node_id;
  run.stop_grace = now->stop_grace;
  run.job_user = now->job_user;
  run.cgroups = context.cgroups;
  run.log_limit = now->log_limit;
  run.artifacts_limit = now->artifacts_limit;
  // The other half is for the database: it must still be able to store how jobs ended.
  run.disk_reserve = now->min_free / 2;
  return run;
}

worker_actor make_worker(const node_context& context, caf::local_actor& parent, worker_place place) {
  worker_options options;
  options.name = std::move(place.name);
  options.labels = context.options.labels;
  options.run = [&context] { return make_run_settings(context); };
  options.runner_pid = place.runner_pid;
  return parent.spawn<worker>(std::move(options), std::move(place.runner), std::move(place.dispatcher),
                              std::move(place.log_hub), place.supervisor);
}

worker_supervisor_actor make_worker_supervisor(node_context& context, caf::local_actor& parent,
                                               const node_actors& others) {
  worker_supervisor_options options;
  options.slots = context.slots;
  options.resized = [&context](std::uint32_t slots) { context.slots = slots; };
  options.runners = context.runners;
  options.clean_up = [&context](unfinished_run left) {
    context.files.post([left = std::move(left)] { remove_unfinished(left); });
  };
  options.make_worker = [&context](caf::local_actor& supervisor, worker_place place) {
    return make_worker(context, supervisor, std::move(place));
  };
  return parent.spawn<worker_supervisor>(std::move(options), others.database, others.dispatcher, others.log_hub);
}

// -- the outside ------------------------------------------------------------------------------------------------------

scheduler_actor make_scheduler(const node_context& context, caf::local_actor& parent, const node_actors& others) {
  scheduler_options options;
  options.retention = retention_of(*context.live.now());
  options.attempt_ended = [&context](attempt_key key) { context.archiver.add(key); };
  options.remove_files = [&context](std::vector<removed_job> jobs) { remove_files(context, std::move(jobs)); };
  return parent.spawn<scheduler>(others.database, std::move(options));
}

webhook_sender_actor make_webhook_sender(const node_context& context, caf::local_actor& parent,
                                         const node_actors& others) {
  webhook_sender_options options;
  options.backoff = context.options.webhook_backoff;
  options.send = [post = context.couriers.executor(),
                  stop = context.stopping](delivery what, const std::function<void(delivery_try)>& done) {
    post([what = std::move(what), done, stop] {
      http::webhook_limits limits;
      limits.stop = stop;
      done(http::post_webhook(what, wall_clock_now(), limits));
    });
  };
  return parent.spawn<webhook_sender>(others.database, others.readers, std::move(options));
}

nlohmann::json describe(const node_context& context) {
  return {{"version", KCX_VERSION},
          {"pid", ::getpid()},
          {"started_at", to_rfc3339(context.started_at)},
          {"data_dir", context.data.path().string()},
          {"http", context.http_url},
          {"inspect", context.inspect_url},
          {"limits", context.cgroups.detail}};
}

http_bridge_actor make_bridge(node_context& context, caf::local_actor& parent, const node_actors& others) {
  bridge_settings settings;
  settings.tokens = context.tokens;
  settings.data_dir = context.data.path();
  settings.node = describe(context);
  settings.slots = [&context] { return context.slots.load(); };
  settings.fault_injection = context.options.fault_injection;
  settings.files = context.files.executor();
  settings.remove_files = [&context](removed_job job) { remove_files(context, {job}); };
  settings.claim_log_bounds = [&context] {
    const auto now = context.live.now();
    return log_bounds{static_cast<std::uint64_t>(now->log_limit), static_cast<std::uint64_t>(now->min_free / 2)};
  };
  settings.make_mask = make_mask;
  bridge_peers peers{others.database, others.readers,    others.log_hub,       others.worker_supervisor,
                     others.root,     others.dispatcher, others.webhook_sender};
  return parent.spawn<http_bridge>(std::move(peers), std::move(settings));
}

} // namespace

retention_policy retention_of(const settings& options) {
  retention_policy policy;
  for (const auto& [name, age] : options.keep)
    policy[parse_job_state(name).value()].age = age;
  for (const auto& [name, count] : options.keep_count)
    policy[parse_job_state(name).value()].count = count;
  return policy;
}

expected<std::unique_ptr<job_store>> open_store(const settings& options, const data_directory& data) {
  sqlite_options sqlite;
  sqlite.ageing_step = options.ageing_step;
  sqlite.used_ids = highest_job_on_disk(data.path());
  if (std::error_code unknown; sqlite.used_ids.value > 0 && !std::filesystem::exists(data.database(), unknown))
    spdlog::warn("there is no database {}, though files of job {} are there: it begins without the former jobs",
                 data.database().string(), sqlite.used_ids.value);
  const auto open = [&] { return open_sqlite_store(data.database(), wall_clock_now(), sqlite); };
  // Marking what a dead node held needs space, too. Its workspaces go soon after.
  disk_reserve reserve{data.reserve()};
  if (reserve.make_room(disk_reserve::whole))
    spdlog::warn("the disk of {} is full to the last: the reserve was given up", data.path().string());
  auto store = open();
  if (!store && store.error().code == ec::storage_full && reserve.give_up(disk_reserve::whole))
    store = open();
  return store;
}

log_lookup find_log(const std::filesystem::path& data_dir) {
  return [data_dir](attempt_key key) -> std::optional<log_summary> {
    const auto path = log_path(data_dir, key.job.value, key.attempt);
    std::error_code missing;
    if (!std::filesystem::exists(path, missing))
      return std::nullopt;
    const auto log = log_reader::open(path);
    if (!log)
      return log_summary{};
    const auto extent = log->extent();
    if (!extent)
      return log_summary{};
    return log_summary{static_cast<std::int64_t>(extent->size), extent->gap_end > 0 || extent->lost};
  };
}

child_factories make_factories(node_context& context) {
  child_factories make;
  make.readers = static_cast<std::size_t>(context.options.readers);
  make.database = [&context](caf::local_actor& parent) { return make_database(context, parent); };
  make.reader = [&context](caf::local_actor& parent) { return make_reader(context, parent); };
  make.log_hub = [](caf::local_actor& parent) -> log_hub_actor { return parent.spawn<log_hub>(); };
  make.dispatcher = [](caf::local_actor& parent, const node_actors& others) -> dispatcher_actor {
    return parent.spawn<dispatcher>(others.database);
  };
  make.worker_supervisor = [&context](caf::local_actor& parent, const node_actors& others) {
    return make_worker_supervisor(context, parent, others);
  };
  make.scheduler = [&context](caf::local_actor& parent, const node_actors& others) {
    return make_scheduler(context, parent, others);
  };
  make.webhook_sender = [&context](caf::local_actor& parent, const node_actors& others) {
    return make_webhook_sender(context, parent, others);
  };
  make.http_bridge = [&context](caf::local_actor& parent, const node_actors& others) {
    return make_bridge(context, parent, others);
  };
  make.inspector = [&context](caf::local_actor& parent, const node_actors& others) -> inspector_actor {
    inspector_settings settings;
    settings.node = describe(context);
    // Without a token: where the admin token lies is nobody's business.
    settings.node.erase("data_dir");
    settings.slots = [&context] { return context.slots.load(); };
    settings.tokens = context.tokens;
    return parent.spawn<inspector>(others.readers, std::move(settings));
  };
  return make;
}

void connect(node_context& context, const node_actors& actors) {
  context.bridge_gate->open(actors.http_bridge);
  context.inspector_gate->open(actors.inspector);
  std::vector<std::pair<std::string, status_actor>> asked;
  const auto add = [&asked](const char* name, const auto& handle) {
    asked.emplace_back(name, caf::actor_cast<status_actor>(handle));
  };
  add("root_supervisor", actors.root);
  add("database", actors.database);
  for (const auto& each : actors.readers)
    add("reader", each);
  add("log_hub", actors.log_hub);
  add("dispatcher", actors.dispatcher);
  add("worker_supervisor", actors.worker_supervisor);
  add("scheduler", actors.scheduler);
  add("webhook_sender", actors.webhook_sender);
  add("http_bridge", actors.http_bridge);
  add("inspector", actors.inspector);
  caf::anon_send(actors.inspector, rewire_atom_v, std::move(asked));
}

} // namespace kcx
