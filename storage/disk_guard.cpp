#include "storage/disk_guard.hpp"

#include <limits>
#include <string>
#include <sys/statvfs.h>

namespace kcx {

namespace {

/// A job makes about ten files at once: its workspace, log, index and outputs. What runs must find room for its own,
/// too.
constexpr std::uint64_t least_free_files = 1'024;

} // namespace

outcome disk_guard::check(std::int64_t owed, std::chrono::steady_clock::time_point now) {
  if (min_free_ <= 0)
    return done{};
  if (now >= ask_at_) {
    struct statvfs about {};
    const bool known = ::statvfs(directory_.c_str(), &about) == 0;
    free_ =
      known ? static_cast<std::int64_t>(about.f_bavail * about.f_frsize) : std::numeric_limits<std::int64_t>::max();
    // File systems without a fixed number of files tell none at all.
    free_files_ = known && about.f_files > 0 ? about.f_favail : std::numeric_limits<std::uint64_t>::max();
    ask_at_ = now + every_;
  }
  if (free_files_ < least_free_files)
    return error{ec::storage_full,
                 "the disk of " + directory_.string() + " has room for " + std::to_string(free_files_) +
                   " files (inodes), less than the " + std::to_string(least_free_files) +
                   " that KCX keeps free; no new work is taken until there is space",
                 {}};
  // Not a sum: "unknown" is as large as a number can be.
  if (free_ >= min_free_ && free_ - min_free_ >= owed)
    return done{};
  return error{ec::storage_full,
               "the disk of " + directory_.string() + " has " + std::to_string(free_) + " bytes free" +
                 (owed > 0 ? ", " + std::to_string(owed) + " of them for what is stored already," : std::string{","}) +
                 " less than the " + std::to_string(min_free_) +
                 " of the option min-free; no new work is taken until there is space",
               {}};
}

} // namespace kcx
