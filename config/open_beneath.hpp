/// Opening files that somebody else may have arranged, without ever leaving the directory they are looked for in.
#pragma once

#include "config/posix.hpp"

#include <cstdint>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <memory>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <vector>

namespace kcx {

/// Opens `path`, relative to the directory `parent` and below it: no symbolic link is followed, no other file system
/// entered, no ".." obeyed. `flags` as of open(2); the descriptor closes on exec. Without success it is empty and errno
/// tells why: ELOOP for a link, EXDEV for what would lead out.
[[nodiscard]] inline unique_fd open_beneath(int parent, const char* path, int flags, mode_t mode = 0) noexcept {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC | O_NOFOLLOW;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  return unique_fd{static_cast<int>(::syscall(SYS_openat2, parent, path, &how, sizeof how))};
}

/// The names in an open directory, "." and ".." left out, in no order; none if it is none.
[[nodiscard]] inline std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> items{::fdopendir(::fcntl(directory, F_DUPFD_CLOEXEC, 3)), ::closedir};
  while (const auto* item = items ? ::readdir(items.get()) : nullptr) {
    const std::string_view name{item->d_name};
    if (name != "." && name != "..")
      names.emplace_back(name);
  }
  return names;
}

} // namespace kcx
