/// How a node's actors are made: from its settings and from what outlives them.
#pragma once

#include "actors/http/api/token_table.hpp"
#include "actors/http/logs/file_thread.hpp"
#include "actors/http/server/gate.hpp"
#include "actors/node/log_archiver.hpp"
#include "actors/root_supervisor.hpp"
#include "actors/runner/cgroup.hpp"
#include "actors/runner/process_io.hpp"
#include "actors/runner/runner_host.hpp"
#include "config/data_directory.hpp"
#include "config/live_settings.hpp"
#include "storage/job_store.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

namespace kcx {

/// What outlives the actors and what they are made from. Must itself outlive the actor system.
struct node_context {
  /// As the node was started with them: for what only a restart changes.
  const settings& options;
  /// As they are now.
  live_settings& live;
  const data_directory& data;
  std::string node_id;
  cgroup_access cgroups;
  process_io& processes;
  /// Of all worker supervisors, one after the other: whoever sweeps must know of the runners that a former one told to
  /// die.
  std::shared_ptr<runner_host> runners;
  http::file_threads& files;
  log_archiver& archiver;
  /// Where webhooks are sent: it waits for others' servers.
  http::file_threads& couriers;
  /// The open store for the first database actor; a later one opens the file anew.
  std::unique_ptr<job_store> first_store;
  /// Who may call the API.
  std::shared_ptr<http::token_table> tokens;
  std::string http_url;
  std::string inspect_url;
  timestamp started_at;
  /// Jobs that run at the same time, whoever set it last: the settings or PATCH /v1/node.
  std::atomic<std::uint32_t> slots;
  /// Requested when the node stops: what waits for others' servers gives up.
  std::stop_token stopping;
  /// Where the servers' requests go; opened anew with each restart of their actors.
  std::shared_ptr<http::gate<http_bridge_actor>> bridge_gate;
  std::shared_ptr<http::gate<inspector_actor>> inspector_gate;
};

/// Opens the database file as the settings have it; see open_sqlite_store().
[[nodiscard]] expected<std::unique_ptr<job_store>> open_store(const settings& options, const data_directory& data);

/// Tells how far the log of an attempt has come whose holder cannot say any more.
[[nodiscard]] log_lookup find_log(const std::filesystem::path& data_dir);

/// How long final jobs are kept, as the settings have it.
[[nodiscard]] retention_policy retention_of(const settings& options);

/// The factories for the root supervisor.
[[nodiscard]] child_factories make_factories(node_context& context);

/// What follows each start or restart: gates open to the new actors, the inspector knows whom to ask.
void connect(node_context& context, const node_actors& actors);

} // namespace kcx
