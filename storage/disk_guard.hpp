/// Tells when the disk of the data directory is too full to take on new work.
///
/// Used by the database actor, before it stores a submission or a claim: what is already running needs the rest of the
/// space to come to its end.
#pragma once

#include "config/error.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace kcx {

/// Why something is not written though there is space: so many bytes of it are for the database alone.
[[nodiscard]] inline std::string no_room_beside(std::uint64_t kept) {
  return "the disk has no room besides the " + std::to_string(kept) +
         " bytes that the option min-free keeps for the database";
}

/// Not thread safe; one per user.
class disk_guard {
public:
  /// `min_free` in bytes; 0 never refuses. The file system is asked at most once in `every`.
  disk_guard(std::filesystem::path directory, std::int64_t min_free,
             std::chrono::milliseconds every = std::chrono::milliseconds{100})
    : directory_{std::move(directory)}, min_free_{min_free}, every_{every} {}

  /// From now on so many bytes must be free.
  void require(std::int64_t min_free) noexcept { min_free_ = min_free; }

  /// Fails with ec::storage_full and both figures while less than `min_free` bytes are free to this account besides
  /// `owed` ones that are spoken for, or while there is room for less than 1,024 files (inodes). A file system that
  /// cannot be asked counts as roomy: writing to it will tell.
  [[nodiscard]] outcome check(std::int64_t owed = 0,
                              std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

private:
  std::filesystem::path directory_;
  std::int64_t min_free_;
  std::chrono::milliseconds every_;
  std::chrono::steady_clock::time_point ask_at_{};
  /// As it was when last asked.
  std::int64_t free_ = 0;
  std::uint64_t free_files_ = 0;
};

} // namespace kcx
