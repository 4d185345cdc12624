/// Removes a directory with all below it, a piece at a time, without ever leaving it.
///
/// Used by the runner, between whose pieces its loop goes on, and by remove_workspace(). Never follows a symbolic link,
/// never enters another file system: every step down is an openat2() below the directory before. Directories without
/// permissions are opened up; depth and number of entries do not matter. No process may change the tree meanwhile.
#pragma once

#include "config/error.hpp"
#include "config/posix.hpp"

#include <cstddef>
#include <dirent.h>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kcx {

class tree_removal {
public:
  /// At most so many entries go in one step.
  static constexpr std::size_t piece_entries = 64;

  /// Removes the directory if it is empty, or the file or link that lies in its place; anything else is left to step().
  explicit tree_removal(const std::filesystem::path& directory);

  /// Removes a few entries. Whether there is more to do.
  bool step();

  /// Complete once step() has returned false. A directory that was not there is no error. Fails with ec::invalid_input
  /// if the last part of the path is not a plain name, ec::system_failed with the first entry that could not be
  /// removed; everything else is gone then.
  [[nodiscard]] outcome result() const;

private:
  using open_directory = std::unique_ptr<DIR, int (*)(DIR*)>;

  struct level {
    open_directory items;
    std::string name;
  };

  void enter(unique_fd directory, std::string name);
  void remove(const char* name, unsigned char type);
  void move_up(int parent, const char* name);
  /// Goes on where the present directory was entered, or ends.
  void leave();
  void fail(const char* name, int number);

  std::string path_;
  std::string name_;
  unique_fd parent_;
  /// The way down to where it is.
  std::vector<level> levels_;
  bool moved_ = false;
  std::size_t count_ = 0;
  outcome result_ = done{};
};

} // namespace kcx
