/// The tables of the queue, as numbered migrations. `PRAGMA user_version` tells how many of them a file has had.
#pragma once

#include "config/error.hpp"
#include "storage/sqlite/connection.hpp"
#include "storage/time.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace kcx::sqlite {

/// "KCXq": tells a queue from any other SQLite file. Stored in every database: never change.
inline constexpr std::int32_t application_id = 0x4B435871;

/// Append only: a migration that was released is never edited.
[[nodiscard]] std::span<const char* const> migrations() noexcept;

/// Brings the schema to the newest version, in one transaction. Throws SQLite::Exception.
void migrate(connection& db, timestamp now);

/// The one connection that writes, migrated and with all its settings. Throws SQLite::Exception.
[[nodiscard]] std::unique_ptr<connection> open_writer(const std::filesystem::path& file, timestamp now,
                                                      std::chrono::milliseconds busy_timeout);

/// Looks at a file without writing to it: done if it is new, empty or a sound queue of this or an earlier version; else
/// storage_unusable with the reason. The search for damage ends after a second at most.
[[nodiscard]] outcome inspect(const std::filesystem::path& file);

/// Whether a file that passed inspect() is there and has no table. Throws SQLite::Exception.
[[nodiscard]] bool is_empty(const std::filesystem::path& file);

} // namespace kcx::sqlite
