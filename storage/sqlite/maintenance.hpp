/// What tools beside the node do with its database: look at it and copy it. Safe while a node uses it, as nothing here
/// ever writes to it: a read-only connection neither checkpoints nor changes the file.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kcx {

struct database_report {
  /// Of the file, and the newest this program knows.
  std::int32_t version = 0;
  std::int32_t known_version = 0;
  std::string node_id;
  std::int64_t jobs = 0;
  /// When the newest job was submitted, if there is one.
  std::optional<timestamp> newest;
  /// What SQLite found wrong, at most ten sentences; none if the file is sound.
  std::vector<std::string> damage;
};

/// Reads the whole file: some seconds for a gigabyte. Fails with ec::not_found (no file), ec::storage_unusable (no
/// queue, or too damaged to be read), ec::system_failed (the file may not be read) or ec::storage_failed.
[[nodiscard]] expected<database_report> examine_database(const std::filesystem::path& file);

/// Copies the database as it was at one moment, with all that was committed until then, to `copy`, which must not
/// exist; checks the copy, gives it a node id of its own and syncs it. Its mode is 0600. Fails as examine_database
/// does, and with ec::conflict (`copy` exists) and ec::storage_full; no copy is left then.
[[nodiscard]] outcome copy_database(const std::filesystem::path& file, const std::filesystem::path& copy);

/// Of each job that was started, its latest attempt. Fails as examine_database does.
[[nodiscard]] expected<std::unordered_map<std::int64_t, std::int32_t>>
latest_attempts(const std::filesystem::path& file);

} // namespace kcx
