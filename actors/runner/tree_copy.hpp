/// Copies files from one directory tree into another, a piece at a time: artifacts out of a workspace, and into one.
///
/// Used by the runner, between whose pieces its loop goes on. Regular files only: symbolic links are never followed and
/// other file systems never entered, whatever the tree was made to look like. No process may change either tree
/// meanwhile.
#pragma once

#include "actors/runner/path_patterns.hpp"
#include "config/error.hpp"
#include "config/posix.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace kcx {

struct copy_order {
  std::filesystem::path from;
  /// Made with mode 0700, and its parent too, when the first file needs it. What stands in the place of a file is
  /// replaced.
  std::filesystem::path to;
  /// Which files, see path_patterns; none: all.
  std::vector<std::string> patterns;
  std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most_files = std::numeric_limits<std::uint64_t>::max();
  /// Free space that is left to others.
  std::uint64_t reserve_bytes = 0;
  /// Files and directories that belong to others than this account and are closed to them are left out: whoever could
  /// not read them himself shall not have them read by root.
  std::optional<uid_t> reader;
  /// Who gets what is made; else it is this process's own, and its files are closed to others.
  std::optional<std::pair<uid_t, gid_t>> owner;
  /// It fills a workspace: the first file that cannot be copied ends it with a failure, and others may read what is
  /// made, as they may what the job makes.
  bool fills_workspace = false;
  /// Whether a file may be kept under this path below `from`; the others are left out. None: all may.
  std::function<bool(const std::string& path)> may_name;
  /// Copied files are on the disk for good before they count.
  bool sync = false;
};

struct copy_report {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  /// Files that matched and were left out, each for another cause than a bound.
  std::uint64_t left_out = 0;
  /// The first of them, with the cause.
  std::string first_left_out;
  /// A bound or the disk kept files out; says which one.
  std::string cut;
  /// Patterns that nothing matched.
  std::vector<std::string> unmatched;
  /// Ended before its time.
  std::optional<error> failure;
};

class tree_copy {
public:
  explicit tree_copy(copy_order order);

  /// Copies a few MiB, or looks at a few hundred entries. Whether there is more to do.
  bool step();

  /// What was done. Complete once step() has returned false.
  [[nodiscard]] copy_report report() const;

private:
  struct level {
    unique_fd source;
    /// Opened with the first file.
    unique_fd target;
    std::string name;
    /// Those left to look at, the next one last.
    std::vector<std::string> entries;
    path_patterns::places places;
    /// All of it is wanted.
    bool whole = false;
  };
  struct open_file {
    unique_fd from;
    unique_fd to;
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t done = 0;
    mode_t mode = 0;
    timespec modified{};
  };

  void enter(unique_fd directory, std::string name, path_patterns::places places, bool whole);
  void look_at(const std::string& name);
  void open(const std::string& name);
  void copy_piece();
  /// How many bytes were copied; negative with errno.
  ssize_t move_bytes(std::size_t most);
  void close_file();
  /// The directory that the present level's files go into; -1 with errno.
  int target();
  int make_target(level& at, int parent);
  void leave_out(const std::string& name, const std::string& cause);
  void cut(const std::string& cause);
  [[nodiscard]] bool closed_to_reader(uid_t owner, mode_t mode, mode_t needed) const noexcept;
  [[nodiscard]] std::string path_of(const std::string& name) const;

  copy_order order_;
  path_patterns patterns_;
  std::vector<level> levels_;
  std::optional<open_file> file_;
  copy_report report_;
  bool ended_ = false;
  /// Not every file system can copy inside the kernel.
  bool in_kernel_ = true;
};

} // namespace kcx
