/// The queue in an SQLite file: the write side. See job_store.hpp for what each operation does.
///
/// One connection in the whole machine may write and checkpoint this file, and it is this one: SQLite before 3.51.3 may
/// damage a file that two connections write or checkpoint at the same moment. The node's lock on its data directory
/// sees to it; other programs may hold the file's write lock for a while, which is storage_busy here.
#pragma once

#include "config/error.hpp"
#include "storage/job_store.hpp"

#include <chrono>
#include <filesystem>
#include <memory>

namespace kcx {

struct sqlite_options {
  /// How long one operation waits for another process that holds the file, before it is storage_busy. Those behind it
  /// wait hardly at all until one has got hold of it.
  std::chrono::milliseconds busy_timeout{5'000};
  /// What one step of priority is worth in waiting time. See order_key().
  std::chrono::milliseconds ageing_step{60'000};
  /// The shortest time between two emptyings of the write-ahead log, which erased secrets may still stand in: a busy
  /// node soon writes over them anyway.
  std::chrono::milliseconds log_emptying_interval{10'000};
  /// From this size on the write-ahead log is begun anew although readers are busy, and a checkpoint waits so long for
  /// them.
  std::int64_t largest_log = std::int64_t{64} << 20;
  std::chrono::milliseconds reader_patience{500};
  /// How long it is not tried again after they were waited for in vain.
  std::chrono::milliseconds reader_pause{5'000};
  /// Ids up to this one are never given: files of such jobs exist, though an older copy of the database that was put
  /// back may not know them.
  job_id used_ids{};
};

/// Opens the database, creating or migrating it. Readers must be opened after it and closed before it.
/// Fails with storage_unusable if the file is damaged, of another program or of a newer version, or empty where jobs
/// have been (then nothing was written), with storage_busy, storage_full or storage_failed as the operating system has
/// it.
[[nodiscard]] expected<std::unique_ptr<job_store>> open_sqlite_store(const std::filesystem::path& file, timestamp now,
                                                                     const sqlite_options& options = {});

} // namespace kcx
