#include "storage/disk_reserve.hpp"

#include "config/posix.hpp"

#include <algorithm>
#include <fcntl.h>
#include <limits>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace {

/// File systems hand space out in blocks; less than this is not worth a call.
constexpr std::int64_t least_piece = 64 * 1024;

} // namespace

disk_reserve::disk_reserve(std::filesystem::path file) : file_{std::move(file)} {
  struct stat about {};
  if (::stat(file_.c_str(), &about) == 0)
    size_ = std::min<std::int64_t>(about.st_size, whole);
}

std::int64_t disk_reserve::free_bytes() const noexcept {
  struct statvfs about {};
  if (::statvfs(file_.parent_path().c_str(), &about) != 0)
    return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(about.f_bavail * about.f_frsize);
}

bool disk_reserve::make_room(std::int64_t needed) noexcept {
  if (size_ == 0)
    return false;
  const auto free = free_bytes();
  return free < needed && give_up(needed - free);
}

bool disk_reserve::give_up(std::int64_t bytes) noexcept {
  if (size_ == 0)
    return false;
  const auto left = std::max<std::int64_t>(0, size_ - std::max(bytes, least_piece));
  // Of a file that somebody removed there is nothing to give.
  const bool given = (left > 0 ? ::truncate(file_.c_str(), left) : ::unlink(file_.c_str())) == 0;
  size_ = given ? left : 0;
  return given;
}

void disk_reserve::fill() noexcept {
  if (missing() == 0 || free_bytes() < 3 * whole + missing())
    return;
  const unique_fd file{::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file)
    return;
  if (::posix_fallocate(file.value(), 0, whole) == 0)
    size_ = whole;
  else if (::ftruncate(file.value(), size_) != 0)
    ::unlink(file_.c_str());
}

} // namespace kcx
