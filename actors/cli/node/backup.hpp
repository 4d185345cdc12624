/// A copy of a node's data directory that a node can be started on. Made from the directory itself, while the node runs
/// or not; the node is not asked.
#pragma once

#include "config/error.hpp"

#include <cstdint>
#include <filesystem>

namespace kcx::cli {

/// What goes with the database.
struct backup_parts {
  bool logs = true;
  bool artifacts = true;
};

struct copied_files {
  std::uint64_t files = 0;
  /// Bytes that take room: what was cut out of a log takes none.
  std::uint64_t bytes = 0;
};

struct backup_facts {
  std::uint64_t database_bytes = 0;
  copied_files logs;
  copied_files artifacts;
};

/// Copies the database as it is at one moment (all that was acknowledged by then) and the logs and artifacts of the
/// attempts it knows to the new directory `target`; no token, no workspace. It stands under that name only when it is
/// complete and on disk, until then under "TARGET.partial". Fails with ec::invalid_setting before anything is copied
/// (no data directory; `target` has no name, lies inside of `data`, or it or its partial exists), or as copy_database()
/// does; the message names the file that could not be read or written.
[[nodiscard]] expected<backup_facts> make_backup(const std::filesystem::path& data, const std::filesystem::path& target,
                                                 backup_parts with);

} // namespace kcx::cli
