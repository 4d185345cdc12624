#include "actors/runner/tree_removal.hpp"

#include "config/open_beneath.hpp"

#include <cerrno>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace kcx {

namespace {

/// Directories nested deeper than this are moved up, so that descriptors do not run out.
constexpr std::size_t deepest_level = 64;

/// Opens a directory for reading, giving its owner all rights first where they are missing.
unique_fd open_up(int parent, const char* name) {
  auto fd = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
  if (fd && ::geteuid() == 0)
    return fd;
  if (!fd && errno != EACCES)
    return fd;
  // Write and search permission are needed as well: unlinkat() would tell only entry by entry.
  const auto handle = open_beneath(parent, name, O_PATH | O_DIRECTORY);
  if (!handle)
    return {};
  struct stat status {};
  if (::fstat(handle.value(), &status) != 0)
    return {};
  if ((status.st_mode & S_IRWXU) != S_IRWXU) {
    // By its descriptor, which is the very directory and cannot have become a link.
    const auto self = "/proc/self/fd/" + std::to_string(handle.value());
    if (::chmod(self.c_str(), 0700) != 0)
      return {};
  }
  return fd ? std::move(fd) : open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
}

} // namespace

tree_removal::tree_removal(const std::filesystem::path& directory)
  : path_{directory.string()}, name_{directory.filename().string()} {
  if (name_.empty() || name_ == "." || name_ == "..") {
    result_ = error{ec::invalid_input, "\"" + path_ + "\" does not name a workspace", {}};
    return;
  }
  parent_.reset(::open(directory.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent_) {
    if (errno != ENOENT)
      result_ = system_failure("cannot open " + directory.parent_path().string());
    return;
  }
  // Most jobs leave nothing behind.
  if (::unlinkat(parent_.value(), name_.c_str(), AT_REMOVEDIR) == 0)
    return;
  const int refused = errno;
  if (refused == ENOTDIR) {
    if (::unlinkat(parent_.value(), name_.c_str(), 0) != 0)
      result_ = system_failure("cannot remove " + path_);
    return;
  }
  auto root = open_up(parent_.value(), name_.c_str());
  if (root) {
    enter(std::move(root), name_);
  } else if (errno != ENOENT) {
    // A file that the directory around it does not let go of.
    if (errno == ENOTDIR)
      errno = refused;
    result_ = system_failure("cannot remove " + path_);
  }
}

bool tree_removal::step() {
  for (std::size_t removed = 0; removed < piece_entries && !levels_.empty();) {
    const auto* item = ::readdir(levels_.back().items.get());
    const std::string_view name{item != nullptr ? item->d_name : ""};
    if (name == "." || name == "..")
      continue;
    ++removed;
    if (item != nullptr)
      remove(item->d_name, item->d_type);
    else
      leave();
  }
  return !levels_.empty();
}

outcome tree_removal::result() const {
  return result_;
}

void tree_removal::enter(unique_fd directory, std::string name) {
  open_directory items{::fdopendir(directory.value()), ::closedir};
  if (!items)
    return fail(name.c_str(), errno);
  static_cast<void>(directory.release());
  levels_.push_back({std::move(items), std::move(name)});
}

void tree_removal::remove(const char* name, unsigned char type) {
  const auto parent = ::dirfd(levels_.back().items.get());
  if (type != DT_DIR) {
    if (::unlinkat(parent, name, 0) == 0)
      return;
    if (errno != EISDIR && !(errno == EPERM && type == DT_UNKNOWN))
      return fail(name, errno);
  }
  if (::unlinkat(parent, name, AT_REMOVEDIR) == 0)
    return;
  if (levels_.size() >= deepest_level)
    return move_up(parent, name);
  auto child = open_up(parent, name);
  if (!child)
    return fail(name, errno);
  enter(std::move(child), name);
}

void tree_removal::move_up(int parent, const char* name) {
  // Moving a directory changes its "..", so it must be writable like any other.
  const auto child = open_up(parent, name);
  const auto fresh = ".kcx-removing-" + std::to_string(++count_);
  if (child && ::renameat(parent, name, ::dirfd(levels_.front().items.get()), fresh.c_str()) == 0)
    moved_ = true;
  else
    fail(name, errno);
}

void tree_removal::leave() {
  if (levels_.size() == 1 && std::exchange(moved_, false)) {
    // What was moved up landed here, perhaps behind the place that was read last.
    ::rewinddir(levels_.back().items.get());
    return;
  }
  const auto name = std::move(levels_.back().name);
  levels_.pop_back();
  const auto parent = levels_.empty() ? parent_.value() : ::dirfd(levels_.back().items.get());
  // Where something could not be removed, the directories above it cannot be either.
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0)
    fail(name.c_str(), errno);
}

void tree_removal::fail(const char* name, int number) {
  if (result_)
    result_ =
      error{ec::system_failed, "workspace " + path_ + ": cannot remove \"" + name + "\": " + std::strerror(number), {}};
}

} // namespace kcx
