/// How the descriptors of the process are shared between connections and the rest of the node.
///
/// Whoever can connect can take descriptors, with no token at all. So connections get a part that leaves the database,
/// the logs and the runners theirs, whatever happens on the ports.
#pragma once

#include "config/error.hpp"

#include <cstddef>

namespace kcx::http {

/// Open connections that each port may have at most.
struct connection_share {
  std::size_t api = 0;
  std::size_t inspection = 0;
};

/// `open_files` is the limit of the process (RLIMIT_NOFILE). Fails with ec::system_failed, naming limit and need, if
/// too few would be left to serve anybody.
[[nodiscard]] expected<connection_share> share_connections(std::size_t open_files, std::size_t slots);

} // namespace kcx::http
