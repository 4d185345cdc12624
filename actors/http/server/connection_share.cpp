#include "actors/http/server/connection_share.hpp"

#include "actors/http/server/server.hpp"

#include <algorithm>
#include <string>

namespace kcx::http {

namespace {

/// Database, readers, logs being written to, libraries, and connections that are only told that there are too many.
constexpr std::size_t base = 224;
/// A socket and a pidfd, and as much again while a runner is replaced; logs of its job.
constexpr std::size_t per_slot = 8;
/// Its socket, and data and index of a log that it follows.
constexpr std::size_t per_connection = 3;
constexpr std::size_t fewest = 32;

} // namespace

expected<connection_share> share_connections(std::size_t open_files, std::size_t slots) {
  const auto reserved = base + per_slot * slots;
  const auto connections = open_files > reserved ? (open_files - reserved) / per_connection : 0;
  if (connections < fewest)
    return error{ec::system_failed,
                 "this process may have only " + std::to_string(open_files) + " files open (ulimit -n); with " +
                   std::to_string(slots) + " slots at least " + std::to_string(reserved + per_connection * fewest) +
                   " are needed",
                 {}};
  const auto most = server_limits{}.connections;
  const auto inspection = std::min(most, connections / 4);
  return connection_share{std::min(most, connections - inspection), inspection};
}

} // namespace kcx::http
