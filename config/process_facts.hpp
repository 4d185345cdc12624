/// What /proc tells of a process that its threads share.
///
/// The main thread may have ended before others: then the process lives on, but /proc/PID, which shows the main thread,
/// has neither memory nor directories any more. Each thread that lives has the same ones, so the first that answers is
/// taken.
#pragma once

#include "config/posix.hpp"

#include <climits>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/types.h>

namespace kcx {

/// The first text that is not empty of what `read` makes of the directories of the threads ("/proc/PID/task/TID/"), the
/// main thread's coming first.
template <class Read>
[[nodiscard]] std::string first_of_threads(pid_t pid, Read read) {
  const auto tasks = "/proc/" + std::to_string(pid) + "/task/";
  const std::unique_ptr<DIR, int (*)(DIR*)> items{::opendir(tasks.c_str()), ::closedir};
  while (const auto* item = items ? ::readdir(items.get()) : nullptr) {
    if (item->d_name[0] == '.')
      continue;
    if (auto text = read(tasks + item->d_name + '/'); !text.empty())
      return text;
  }
  return {};
}

/// The initial environment: NAME=value, each with a NUL behind it. Empty if it cannot be read.
[[nodiscard]] inline std::string environment_of(pid_t pid) {
  return first_of_threads(pid, [](const std::string& thread) {
    const unique_fd fd{::open((thread + "environ").c_str(), O_RDONLY | O_CLOEXEC)};
    std::string text;
    char buffer[16384];
    for (auto n = ::read(fd.value(), buffer, sizeof buffer); n > 0; n = ::read(fd.value(), buffer, sizeof buffer))
      text.append(buffer, static_cast<std::size_t>(n));
    return text;
  });
}

/// The working directory, also where that was removed meanwhile. Empty if it cannot be read.
[[nodiscard]] inline std::string working_directory_of(pid_t pid) {
  return first_of_threads(pid, [](const std::string& thread) {
    char target[PATH_MAX];
    const auto size = ::readlink((thread + "cwd").c_str(), target, sizeof target);
    return std::string{target, size > 0 ? static_cast<std::size_t>(size) : 0};
  });
}

} // namespace kcx
