#include "storage/disk_guard.hpp"

#include <limits>
#include <string>
#include <sys/statvfs.h>

namespace kcx {

outcome disk_guard::check(std::int64_t owed, std::chrono::steady_clock::time_point now) {
  if (min_free_ <= 0)
    return done{};
  if (now >= ask_at_) {
    struct statvfs about {};
    const bool known = ::statvfs(directory_.c_str(), &about) == 0;
    free_ =
      known ? static_cast<std::int64_t>(about.f_bavail * about.f_frsize) : std::numeric_limits<std::int64_t>::max();
    ask_at_ = now + every_;
  }
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
