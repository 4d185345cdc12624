/// Small helpers for code that talks to the kernel directly: an owning file descriptor, an error that carries the
/// system's own words, and reading and writing that is not put off by signals.
#pragma once

#include "config/error.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace kcx {

/// Owns one file descriptor and closes it. Movable; -1 means none.
class unique_fd {
public:
  unique_fd() noexcept = default;
  explicit unique_fd(int fd) noexcept : fd_{fd} {}
  unique_fd(unique_fd&& other) noexcept : fd_{other.release()} {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other)
      reset(other.release());
    return *this;
  }
  ~unique_fd() { reset(); }

  [[nodiscard]] int value() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

  /// Gives the descriptor away; the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  /// Closes what is held and holds `fd` instead.
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = fd;
  }

private:
  int fd_ = -1;
};

/// Reads from a fixed place, as often as it takes. How many bytes were read: fewer at the end, or with errno set.
[[nodiscard]] inline std::size_t read_at(int fd, char* to, std::size_t size, std::uint64_t offset) noexcept {
  std::size_t done = 0;
  while (done < size) {
    const auto n = ::pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

/// ec::storage_full for a full disk or quota, otherwise ec::system_failed; the text is `what: <system's text>`.
[[nodiscard]] inline error system_failure(std::string what, int number = errno) {
  const auto full = number == ENOSPC || number == EDQUOT;
  what += ": ";
  what += std::strerror(number);
  return {full ? ec::storage_full : ec::system_failed, std::move(what), {}};
}

/// Writes to a fixed place, as often as it takes. How many bytes were written; errno tells why they are fewer.
[[nodiscard]] inline std::size_t write_at(int fd, std::string_view bytes, std::uint64_t offset) noexcept {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto n = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

/// Writes all of `bytes`, however often that takes. False, with errno, as soon as the system refuses.
inline bool write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Makes what was created, renamed or removed in the directory last over a power cut. False, with errno, if that fails.
[[nodiscard]] inline bool sync_directory(const std::string& path) noexcept {
  const unique_fd folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return folder && ::fsync(folder.value()) == 0;
}

/// Fills the standard descriptors that this process was started without, so that no file it opens gets such a number
/// and is then written to as if it were standard output. Reading and writing them fails as it would have. Call it
/// first.
inline void keep_standard_descriptors() noexcept {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/", O_PATH); // The lowest free number: this one.
}

} // namespace kcx
