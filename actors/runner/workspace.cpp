#include "actors/runner/workspace.hpp"

#include "config/open_beneath.hpp"

#include <dirent.h>
#include <memory>
#include <sys/stat.h>
#include <vector>

namespace kcx {

namespace {

/// Directories nested deeper than this are moved up, so that neither descriptors nor stack run out.
constexpr std::size_t max_depth = 64;

/// Opens a directory for reading, giving its owner all rights first where they are missing.
unique_fd open_directory(int parent, const char* name) {
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

class remover {
public:
  explicit remover(int root) : root_{root} {}

  /// Empties the directory at `root`. True if nothing is left in it.
  bool run() {
    // What was moved up lands in the root, so look again until a pass moves nothing.
    do {
      moved_ = false;
      unique_fd top{::fcntl(root_, F_DUPFD_CLOEXEC, 3)};
      empty(std::move(top), 1);
    } while (moved_);
    return failure_.empty();
  }

  [[nodiscard]] const std::string& failure() const { return failure_; }

private:
  void fail(const char* name, int number) {
    if (failure_.empty())
      failure_ = std::string{"cannot remove \""} + name + "\": " + std::strerror(number);
  }

  void empty(unique_fd directory, std::size_t depth) {
    const auto fd = directory.value();
    const std::unique_ptr<DIR, int (*)(DIR*)> items{::fdopendir(fd), ::closedir};
    if (!items)
      return fail(".", errno);
    static_cast<void>(directory.release());
    ::rewinddir(items.get());
    while (const auto* item = ::readdir(items.get())) {
      const std::string_view name{item->d_name};
      if (name != "." && name != "..")
        remove(fd, item->d_name, item->d_type, depth);
    }
  }

  void remove(int parent, const char* name, unsigned char type, std::size_t depth) {
    if (type != DT_DIR) {
      if (::unlinkat(parent, name, 0) == 0)
        return;
      if (errno != EISDIR && !(errno == EPERM && type == DT_UNKNOWN))
        return fail(name, errno);
    }
    if (::unlinkat(parent, name, AT_REMOVEDIR) == 0)
      return;
    if (depth >= max_depth)
      return move_up(parent, name);
    auto child = open_directory(parent, name);
    if (!child)
      return fail(name, errno);
    empty(std::move(child), depth + 1);
    if (::unlinkat(parent, name, AT_REMOVEDIR) != 0)
      fail(name, errno);
  }

  void move_up(int parent, const char* name) {
    // Moving a directory changes its "..", so it must be writable like any other.
    const auto child = open_directory(parent, name);
    const auto fresh = ".kcx-removing-" + std::to_string(++count_);
    if (child && ::renameat(parent, name, root_, fresh.c_str()) == 0)
      moved_ = true;
    else
      fail(name, errno);
  }

  int root_;
  bool moved_ = false;
  std::size_t count_ = 0;
  std::string failure_;
};

} // namespace

std::filesystem::path workspace_path(const std::filesystem::path& data_dir, std::int64_t job_id, std::int32_t attempt) {
  return data_dir / "workspaces" / (std::to_string(job_id) + '-' + std::to_string(attempt));
}

std::filesystem::path output_path(const std::filesystem::path& workspace) {
  return workspace.string() + ".out";
}

outcome create_workspace(const std::filesystem::path& workspace, uid_t uid, gid_t gid) {
  auto made = ::mkdir(workspace.c_str(), 0700) == 0;
  if (!made && errno == ENOENT && (::mkdir(workspace.parent_path().c_str(), 0711) == 0 || errno == EEXIST))
    made = ::mkdir(workspace.c_str(), 0700) == 0;
  if (!made && errno == EEXIST)
    return error{ec::conflict, "the workspace " + workspace.string() + " exists already", {}};
  if (!made)
    return system_failure("cannot make the workspace " + workspace.string());
  if (uid != static_cast<uid_t>(-1) && ::chown(workspace.c_str(), uid, gid) != 0) {
    auto failure = system_failure("cannot give the workspace " + workspace.string() + " to the user of the job");
    ::rmdir(workspace.c_str());
    return failure;
  }
  return done{};
}

outcome remove_workspace(const std::filesystem::path& workspace) {
  const auto name = workspace.filename().string();
  if (name.empty() || name == "." || name == "..")
    return error{ec::invalid_input, "\"" + workspace.string() + "\" does not name a workspace", {}};
  const unique_fd parent{::open(workspace.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!parent) {
    if (errno == ENOENT)
      return done{};
    return system_failure("cannot open " + workspace.parent_path().string());
  }
  // Most jobs leave nothing behind.
  if (::unlinkat(parent.value(), name.c_str(), AT_REMOVEDIR) == 0)
    return done{};
  auto root = open_directory(parent.value(), name.c_str());
  if (!root) {
    if (errno == ENOENT)
      return done{};
    return system_failure("cannot open the workspace " + workspace.string());
  }
  remover work{root.value()};
  if (!work.run())
    return error{ec::system_failed, "workspace " + workspace.string() + ": " + work.failure(), {}};
  if (::unlinkat(parent.value(), name.c_str(), AT_REMOVEDIR) != 0)
    return system_failure("cannot remove the workspace " + workspace.string());
  return done{};
}

} // namespace kcx
