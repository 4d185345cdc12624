#include "actors/runner/tree_copy.hpp"

#include "config/open_beneath.hpp"
#include "storage/disk_guard.hpp"

#include <algorithm>
#include <functional>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace kcx {

namespace {

constexpr std::size_t piece_bytes = 4U << 20;
constexpr int piece_entries = 256;
/// Descriptors are what a deeper tree would run out of.
constexpr std::size_t max_depth = 64;

std::string in_bytes(std::uint64_t number) {
  return std::to_string(number) + " bytes";
}

} // namespace

tree_copy::tree_copy(copy_order order) : order_{std::move(order)}, patterns_{order_.patterns} {
  unique_fd root{::open(order_.from.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
  if (!root) {
    report_.failure = system_failure("cannot open " + order_.from.string());
    ended_ = true;
    return;
  }
  enter(std::move(root), {}, patterns_.begin(), order_.patterns.empty());
}

bool tree_copy::step() {
  for (int i = 0; i < piece_entries && !ended_; ++i) {
    if (file_) {
      copy_piece();
      break;
    }
    if (levels_.empty()) {
      ended_ = true;
    } else if (levels_.back().entries.empty()) {
      if (order_.sync && levels_.back().target)
        ::fsync(levels_.back().target.value());
      levels_.pop_back();
    } else {
      const auto name = std::move(levels_.back().entries.back());
      levels_.back().entries.pop_back();
      look_at(name);
    }
  }
  return !ended_;
}

copy_report tree_copy::report() const {
  auto report = report_;
  report.unmatched = patterns_.unmatched();
  return report;
}

void tree_copy::enter(unique_fd directory, std::string name, path_patterns::places places, bool whole) {
  auto entries = names_in(directory.value());
  std::sort(entries.begin(), entries.end(), std::greater<>{});
  levels_.push_back({std::move(directory), {}, std::move(name), std::move(entries), std::move(places), whole});
}

void tree_copy::look_at(const std::string& name) {
  const auto& at = levels_.back();
  auto [inside, matched] = patterns_.step(at.places, name);
  const bool wanted = at.whole || matched;
  if (!wanted && inside.empty())
    return;
  struct stat about {};
  if (::fstatat(at.source.value(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
    return leave_out(name, std::strerror(errno));
  if (!S_ISDIR(about.st_mode)) {
    if (wanted && S_ISREG(about.st_mode))
      open(name);
    else if (wanted)
      leave_out(name, S_ISLNK(about.st_mode) ? "a symbolic link" : "no regular file");
    return;
  }
  if (levels_.size() >= max_depth)
    return leave_out(name, "more than " + std::to_string(max_depth) + " directories deep");
  if (closed_to_reader(about.st_uid, about.st_mode, S_IROTH | S_IXOTH))
    return leave_out(name, "closed to the account of the job");
  auto directory = open_beneath(at.source.value(), name.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory)
    return leave_out(name, std::strerror(errno));
  enter(std::move(directory), name, std::move(inside), wanted);
}

void tree_copy::open(const std::string& name) {
  open_file file;
  file.name = name;
  file.from = open_beneath(levels_.back().source.value(), name.c_str(), O_RDONLY | O_NONBLOCK);
  struct stat about {};
  if (!file.from || ::fstat(file.from.value(), &about) != 0)
    return leave_out(name, std::strerror(errno));
  if (!S_ISREG(about.st_mode))
    return leave_out(name, "no regular file");
  if (closed_to_reader(about.st_uid, about.st_mode, S_IROTH))
    return leave_out(name, "closed to the account of the job");
  if (order_.may_name && !order_.may_name(path_of(name)))
    return leave_out(name, "its path holds a secret");
  file.size = static_cast<std::uint64_t>(about.st_size);
  file.mode = about.st_mode;
  file.modified = about.st_mtim;
  if (report_.files >= order_.most_files)
    return cut("only " + std::to_string(order_.most_files) + " files are kept");
  if (file.size > order_.most_bytes - report_.bytes)
    return cut(path_of(name) + " with " + in_bytes(file.size) + " would pass the limit of " +
               in_bytes(order_.most_bytes));
  const auto into = target();
  if (into < 0)
    return cut("cannot make a directory for it: " + std::string{std::strerror(errno)});
  constexpr auto flags = O_WRONLY | O_CREAT | O_EXCL;
  file.to = open_beneath(into, name.c_str(), flags, 0600);
  if (!file.to && errno == EEXIST && ::unlinkat(into, name.c_str(), 0) == 0)
    file.to = open_beneath(into, name.c_str(), flags, 0600);
  if (!file.to)
    return cut("cannot make a copy of " + path_of(name) + ": " + std::strerror(errno));
  file_ = std::move(file);
}

void tree_copy::copy_piece() {
  auto& file = *file_;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, file.size - file.done));
  struct statvfs disk {};
  const bool full = order_.reserve_bytes > 0 && ::fstatvfs(file.to.value(), &disk) == 0 &&
                    disk.f_bavail * disk.f_frsize < order_.reserve_bytes + wanted;
  const auto n = full ? -1 : move_bytes(wanted);
  if (n < 0) {
    const std::string cause = full ? no_room_beside(order_.reserve_bytes) : std::strerror(errno);
    ::unlinkat(levels_.back().target.value(), file.name.c_str(), 0);
    const auto name = std::move(file.name);
    file_.reset();
    return cut("cannot copy " + path_of(name) + ": " + cause);
  }
  file.done += static_cast<std::uint64_t>(n);
  if (n == 0 || file.done >= file.size)
    close_file();
}

ssize_t tree_copy::move_bytes(std::size_t most) {
  const auto from = file_->from.value();
  const auto to = file_->to.value();
  if (most == 0)
    return 0;
  if (in_kernel_) {
    const auto n = ::copy_file_range(from, nullptr, to, nullptr, most, 0);
    if (n >= 0 || (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP))
      return n;
    in_kernel_ = false;
  }
  static char buffer[256 * 1024];
  const auto n = ::read(from, buffer, std::min(most, sizeof buffer));
  for (ssize_t done = 0; done < n;) {
    const auto written = ::write(to, buffer + done, static_cast<std::size_t>(n - done));
    if (written < 0)
      return -1;
    done += written;
  }
  return n;
}

void tree_copy::close_file() {
  auto& file = *file_;
  const auto fd = file.to.value();
  const bool runs = (file.mode & S_IXUSR) != 0;
  // Times and rights are a convenience: a file system that does not take them has the bytes all the same.
  if (order_.owner)
    static_cast<void>(::fchown(fd, order_.owner->first, order_.owner->second) == 0);
  ::fchmod(fd, static_cast<mode_t>(order_.fills_workspace ? (runs ? 0755 : 0644) : (runs ? 0700 : 0600)));
  const timespec times[2] = {{0, UTIME_OMIT}, file.modified};
  ::futimens(fd, times);
  if (order_.sync)
    ::fdatasync(fd);
  ++report_.files;
  report_.bytes += file.done;
  file_.reset();
}

int tree_copy::target() {
  auto parent = -1;
  for (auto& each : levels_) {
    parent = make_target(each, parent);
    if (parent < 0)
      return -1;
  }
  return parent;
}

int tree_copy::make_target(level& at, int parent) {
  if (at.target)
    return at.target.value();
  if (parent < 0) {
    if (::mkdir(order_.to.c_str(), 0700) != 0 && errno == ENOENT) {
      ::mkdir(order_.to.parent_path().c_str(), 0700);
      ::mkdir(order_.to.c_str(), 0700);
    }
    at.target.reset(::open(order_.to.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    return at.target.value();
  }
  const bool made = ::mkdirat(parent, at.name.c_str(), order_.fills_workspace ? 0755 : 0700) == 0;
  at.target = open_beneath(parent, at.name.c_str(), O_RDONLY | O_DIRECTORY);
  if (made && at.target && order_.owner)
    static_cast<void>(::fchown(at.target.value(), order_.owner->first, order_.owner->second) == 0);
  return at.target.value();
}

void tree_copy::leave_out(const std::string& name, const std::string& cause) {
  const auto text = path_of(name) + ": " + cause;
  if (order_.fills_workspace)
    return cut(text);
  if (report_.left_out++ == 0)
    report_.first_left_out = text;
}

void tree_copy::cut(const std::string& cause) {
  if (report_.cut.empty())
    report_.cut = cause;
  if (!order_.fills_workspace)
    return;
  report_.failure = error{ec::system_failed, cause, {}};
  ended_ = true;
}

bool tree_copy::closed_to_reader(uid_t owner, mode_t mode, mode_t needed) const noexcept {
  return order_.reader && owner != *order_.reader && (mode & needed) != needed;
}

std::string tree_copy::path_of(const std::string& name) const {
  std::string path;
  for (const auto& each : levels_)
    path += each.name.empty() ? "" : each.name + '/';
  return path + name;
}

} // namespace kcx
