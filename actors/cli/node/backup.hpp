/// A copy of a node's data directory that a node can be started on. Made from the directory itself, while the node runs
/// or not; the node is not asked.
#pragma once

#include "config/error.hpp"

#include <cstdint>
#include <filesystem>

namespace kcx::cli {

struct backup_facts {
  std::uint64_t database_bytes = 0;
  std::uint64_t log_files = 0;
  /// Bytes that take room: what was cut out of a log takes none.
  std::uint64_t log_bytes = 0;
};

/// Copies the database as it is at one moment (all that was acknowledged by then) and, with `logs`, the logs that go
/// with it, to the new directory `target`; no token, no workspace. It stands under that name only when it is complete
/// and on disk, until then under "TARGET.partial". Fails with ec::invalid_setting (no data directory, `target` or its
/// partial exists), or as copy_database() does.
[[nodiscard]] expected<backup_facts> make_backup(const std::filesystem::path& data, const std::filesystem::path& target,
                                                 bool logs);

} // namespace kcx::cli
