/// Finding and signalling whole process trees, by /proc. Linux only.
///
/// A tree is known by parentage, not by session or process group, so that a process which left those is still found.
/// Its root must be a child subreaper: then an orphan of the tree becomes a child of the root instead of leaving the
/// tree.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
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

/// What /proc tells of a process, or of a thread by its id; nothing if there is none.
[[nodiscard]] std::optional<process_entry> entry_of(pid_t pid);

/// Every process that can be seen.
[[nodiscard]] std::vector<process_entry> list_processes();

/// All descendants of `root`, without itself; parents come before their children. Children of `root` listed in `except`
/// are left out with their descendants.
[[nodiscard]] std::vector<process_entry> descendants_of(pid_t root, std::span<const pid_t> except = {});

/// Sends SIGTERM once to each living descendant of the calling process. Returns how many were found alive.
std::size_t terminate_descendants(std::span<const pid_t> except = {});

/// What a hunt came to: nobody was there, for certain; somebody was met; or nobody was met, which proves nothing.
enum class found { none, some, unsure };

/// Finds processes also where they fork and exit faster than /proc can be read. `all` looks at every process, `one` at
/// the one of this id (or at nobody, or a thread); both end whom they are after, and return whether they met any.
///
/// Who exits is gone before a look gets to it, and the child it left came too late to be listed: that nobody was met
/// proves nothing. It does if no process was made during the look, since a parent lives until its child can be seen:
/// of such a chain somebody is there at each moment. Looking at all takes too long for that, so `one` is asked of
/// those made since then, again and again, until that was not disturbed. Gives up after `patience`. Where the kernel
/// does not tell which process is the newest (/proc/sys/kernel/ns_last_pid), nothing is proved.
[[nodiscard]] found hunt(const std::function<bool()>& all, const std::function<bool(pid_t)>& one,
                         std::chrono::milliseconds patience);

/// Whether `root` is among the ancestors of a process, but not by way of its children in `except`.
[[nodiscard]] bool descends_from(pid_t pid, pid_t root, std::span<const pid_t> except = {});

/// Hunts each living descendant of the calling process for a few milliseconds with SIGKILL, also to the groups they
/// are in so that a process just forked is hit too. Who was hit may not be gone yet: the caller repeats until
/// waitpid() says that no child is left, or until it gets `none`.
found kill_descendants(std::span<const pid_t> except = {});

/// Whether the initial environment of a process holds exactly this entry ("NAME=value"). False if it cannot be read.
[[nodiscard]] bool has_environment_entry(pid_t pid, std::string_view entry);

/// Whether the working directory of a process lies below `directory` (absolute, without a trailing slash), also where
/// that was removed meanwhile. False if it cannot be read.
[[nodiscard]] bool works_below(pid_t pid, std::string_view directory);

} // namespace kcx
