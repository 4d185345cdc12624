/// Finding and signalling whole process trees, by /proc. Linux only.
///
/// A tree is known by parentage, not by session or process group, so that a process which left those is still found.
/// Its root must be a child subreaper: then an orphan of the tree becomes a child of the root instead of leaving the
/// tree.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace kcx {

/// A process as /proc/PID/stat shows it.
struct process_entry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  /// It has a controlling terminal: a person's, since no job gets one.
  bool terminal = false;
  /// Of the main thread: 'Z' if it has ended, which alone does not mean that the process has; see is_alive().
  char state = '?';
  int threads = 1;
};

/// Whether something of it still runs. A process whose main thread has ended lives on while it has other threads; a
/// zombie, dead and not yet reaped, has none.
[[nodiscard]] bool is_alive(const process_entry& entry) noexcept;

/// Every process that can be seen.
[[nodiscard]] std::vector<process_entry> list_processes();

/// All descendants of `root`, without itself; parents come before their children. Children of `root` listed in `except`
/// are left out with their descendants.
[[nodiscard]] std::vector<process_entry> descendants_of(pid_t root, std::span<const pid_t> except = {});

/// Sends SIGTERM once to each living descendant of the calling process. Returns how many were found alive.
std::size_t terminate_descendants(std::span<const pid_t> except = {});

/// Sends SIGKILL to each living descendant of the calling process, and to the groups they are in so that a process just
/// forked is hit too; looks again at once while that finds new ones, up to a bound. Returns how many it saw alive at
/// last: the caller repeats until waitpid() says that no child is left.
std::size_t kill_descendants(std::span<const pid_t> except = {});

/// Whether the initial environment of a process holds exactly this entry ("NAME=value"). False if it cannot be read.
[[nodiscard]] bool has_environment_entry(pid_t pid, std::string_view entry);

/// Whether the working directory of a process lies below `directory` (absolute, without a trailing slash), also where
/// that was removed meanwhile. False if it cannot be read.
[[nodiscard]] bool works_below(pid_t pid, std::string_view directory);

} // namespace kcx
