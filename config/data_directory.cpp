#include "config/data_directory.hpp"

#include "config/posix.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace kcx {

namespace {

namespace fs = std::filesystem;

constexpr std::array folders{"logs", "workspaces", "artifacts"};
constexpr std::size_t token_bytes = 32;

std::string cause(int number) {
  return std::generic_category().message(number);
}

error failed(const std::string& what, int number) {
  return {ec::system_failed, what + ": " + cause(number), {}};
}

/// At most 4 KiB, all that the small files here hold.
std::string read_some(int file) {
  std::string text(4'096, '\0');
  auto size = ::pread(file, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

bool is_ours(const std::string& name) {
  constexpr std::array known{"node.lock",  "node.json", "admin.token", "kcx.db",    "logs",
                             "workspaces", "artifacts", "reserve",     "lost+found"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

// A typing error such as `--data ~` must not turn somebody's directory into ours: its mode is changed below.
outcome check_owned(const fs::path& path) {
  std::error_code unreadable;
  bool empty = true;
  bool ours = false;
  for (const auto& entry : fs::directory_iterator{path, unreadable}) {
    empty = false;
    ours = ours || is_ours(entry.path().filename().string());
  }
  if (unreadable)
    return failed("cannot read the data directory " + path.string(), unreadable.value());
  if (!empty && !ours)
    return error{ec::invalid_setting,
                 "option --data cannot be \"" + path.string() +
                   "\": the directory holds other files; allowed is an empty or new directory, or one made by kcx",
                 {}};
  return done{};
}

outcome check_file_system(const fs::path& path) {
  struct statfs about {};
  if (::statfs(path.c_str(), &about) != 0)
    return failed("cannot examine the file system of " + path.string(), errno);
  if (auto name = unreliable_file_system(static_cast<long>(about.f_type)))
    return error{ec::invalid_setting,
                 "option --data cannot be \"" + path.string() + "\": it lies on " + std::string{*name} +
                   ", where neither file locks nor syncs are reliable enough for the database; use a local disk",
                 {}};
  return done{};
}

error in_use(const fs::path& path, int lock) {
  auto holder = read_some(lock);
  holder.erase(std::min(holder.find('\n'), holder.size()));
  bool is_number = !holder.empty() && holder.find_first_not_of("0123456789") == std::string::npos;
  std::string program;
  if (is_number)
    std::getline(std::ifstream{"/proc/" + holder + "/comm"}, program);
  auto who = !is_number ? std::string{"another process"}
                        : (program.empty() ? std::string{"kcx-node"} : program) + ", process " + holder;
  return {ec::data_in_use, "data directory " + path.string() + " is in use by " + who, {}};
}

/// Waits for the lock: a node that was killed has it until the last of its threads has come back from the disk.
bool lock_within(int file, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause{20};
  for (;; patience -= pause) {
    if (::flock(file, LOCK_EX | LOCK_NB) == 0)
      return true;
    const int number = errno;
    if (number != EWOULDBLOCK || patience <= std::chrono::milliseconds{0}) {
      errno = number;
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
}

expected<int> take_lock(const fs::path& path, std::chrono::milliseconds patience) {
  auto file = path / "node.lock";
  unique_fd lock{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!lock)
    return failed("cannot open " + file.string(), errno);
  if (!lock_within(lock.value(), patience)) {
    if (errno == EWOULDBLOCK)
      return in_use(path, lock.value());
    return failed("cannot lock " + file.string(), errno);
  }
  // The number is for people. A disk without a free byte must not keep a node out that will make room on it.
  const bool told = ::ftruncate(lock.value(), 0) == 0 && write_all(lock.value(), std::to_string(::getpid()) + '\n');
  if (!told && errno != ENOSPC && errno != EDQUOT)
    return failed("cannot write " + file.string(), errno);
  return lock.release();
}

std::string new_token() {
  std::array<unsigned char, token_bytes> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return {};
  std::string text;
  for (auto byte : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

bool is_token(std::string_view text) {
  return text.size() >= token_bytes && text.size() <= 256 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") ==
           std::string_view::npos;
}

} // namespace

std::optional<std::string_view> unreliable_file_system(long type) noexcept {
  switch (static_cast<unsigned long>(type) & 0xFFFFFFFFUL) {
  case 0x6969: return "NFS";
  case 0x517B: return "SMB";
  case 0xFF534D42: return "CIFS";
  case 0xFE534D42: return "SMB2";
  case 0x01021997: return "9p";
  case 0x65735546: return "FUSE";
  case 0x5346414F: return "AFS";
  case 0x6B414653: return "AFS";
  case 0x73757245: return "Coda";
  case 0x00C36400: return "Ceph";
  case 0x0BD00BD0: return "Lustre";
  case 0x47504653: return "GPFS";
  case 0x01161970: return "GFS2";
  case 0x7461636F: return "OCFS2";
  case 0x786F4256: return "a VirtualBox share";
  default: return std::nullopt;
  }
}

outcome replace_file(const fs::path& file, std::string_view content) {
  auto pattern = file.string() + ".XXXXXX";
  unique_fd out{::mkostemp(pattern.data(), O_CLOEXEC)};
  if (!out)
    return failed("cannot create a file beside " + file.string(), errno);
  if (!write_all(out.value(), content) || ::fsync(out.value()) != 0 || ::rename(pattern.c_str(), file.c_str()) != 0) {
    auto number = errno;
    ::unlink(pattern.c_str());
    return failed("cannot write " + file.string(), number);
  }
  if (!sync_directory(file.parent_path()))
    return failed("cannot sync the directory of " + file.string(), errno);
  return done{};
}

expected<data_directory> data_directory::open(const fs::path& path, std::chrono::milliseconds patience) {
  std::error_code problem;
  auto whole = fs::absolute(path, problem).lexically_normal();
  if (!whole.has_filename())
    whole = whole.parent_path();
  fs::create_directories(whole.parent_path(), problem);
  if (::mkdir(whole.c_str(), 0700) != 0 && errno != EEXIST)
    return failed("cannot create the data directory " + whole.string(), errno);
  // Without symbolic links, as the kernel tells where processes work: by that the left-overs of a crash are found.
  whole = fs::canonical(whole, problem);
  if (problem)
    return failed("cannot find out where the data directory " + path.string() + " lies", problem.value());
  if (auto checked = check_file_system(whole); !checked)
    return std::move(checked).error();
  if (auto checked = check_owned(whole); !checked)
    return std::move(checked).error();
  auto lock = take_lock(whole, patience);
  if (!lock)
    return std::move(lock).error();
  data_directory opened{whole, *lock};
  if (auto made = opened.make_folders(); !made)
    return std::move(made).error();
  if (auto loaded = opened.load_token(); !loaded)
    return std::move(loaded).error();
  return opened;
}

data_directory::data_directory(data_directory&& other) noexcept
  : path_{std::move(other.path_)}, lock_{std::exchange(other.lock_, -1)},
    announced_{std::exchange(other.announced_, false)}, token_{std::move(other.token_)}, warnings_{std::move(
                                                                                           other.warnings_)} {}

data_directory::~data_directory() {
  retract();
  if (lock_ < 0)
    return;
  // Before the lock goes, so that a later holder's number is never wiped.
  [[maybe_unused]] auto ignored = ::ftruncate(lock_, 0);
  ::close(lock_);
}

outcome data_directory::make_folders() {
  struct stat about {};
  if (::stat(path_.c_str(), &about) != 0)
    return failed("cannot examine " + path_.string(), errno);
  // Logs, database and workspaces hold what jobs print and are given. Only root can run jobs as others, who must get to
  // their workspaces, though not see what else there is.
  const mode_t mode = ::geteuid() == 0 ? 0711 : 0700;
  if ((about.st_mode & 077U & ~mode) != 0)
    warnings_.push_back("data directory " + path_.string() + " was open to other accounts and is no longer");
  if ((about.st_mode & 07777U) != mode && ::chmod(path_.c_str(), mode) != 0)
    return failed("cannot change the mode of the data directory " + path_.string(), errno);
  for (const auto* file : {"kcx.db", "kcx.db-wal", "kcx.db-shm"})
    ::chmod((path_ / file).c_str(), 0600); // those that are there
  // Left by a node that crashed: it points at a port somebody else may have by now.
  ::unlink((path_ / "node.json").c_str());
  for (const auto* folder : folders) {
    const auto whole = path_ / folder;
    if (::mkdir(whole.c_str(), 0700) != 0 && errno != EEXIST)
      return failed("cannot create " + whole.string(), errno);
    if (std::error_code ignored; !fs::is_directory(whole, ignored))
      return failed("cannot use " + whole.string(), ENOTDIR);
  }
  if (::chmod((path_ / "workspaces").c_str(), mode) != 0)
    return failed("cannot change the mode of " + (path_ / "workspaces").string(), errno);
  return done{};
}

outcome data_directory::load_token() {
  auto file = path_ / "admin.token";
  unique_fd in{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!in && errno == ENOENT) {
    token_ = new_token();
    if (token_.empty())
      return failed("cannot get random bytes for the admin token", errno);
    return replace_file(file, token_ + '\n');
  }
  struct stat about {};
  if (!in || ::fstat(in.value(), &about) != 0)
    return failed("cannot read " + file.string(), errno);
  if ((about.st_mode & 077U) != 0) {
    if (::fchmod(in.value(), 0600) != 0)
      return failed(file.string() + " can be read by other accounts and its mode cannot be changed", errno);
    warnings_.push_back(file.string() + " could be read by other accounts; its mode is 0600 now. Remove the file and "
                                        "restart the node for a new token if others may have seen it");
  }
  token_ = read_some(in.value());
  token_.erase(token_.find_last_not_of(" \t\r\n") + 1);
  if (!is_token(token_))
    return error{ec::invalid_setting,
                 file.string() +
                   " holds no token (32 to 256 letters, digits or -._~+/=); remove it, and the node makes "
                   "a new one at its next start",
                 {}};
  return done{};
}

outcome data_directory::announce(const node_addresses& where) {
  nlohmann::ordered_json document{
    {"pid", ::getpid()}, {"http", where.http}, {"inspect", where.inspect}, {"version", KCX_VERSION}};
  auto written = replace_file(path_ / "node.json", document.dump() + '\n');
  announced_ = announced_ || written.has_value();
  return written;
}

void data_directory::retract() noexcept {
  if (std::exchange(announced_, false))
    ::unlink((path_ / "node.json").c_str());
}

std::string process_mark(const std::string& node_id, const fs::path& directory) {
  struct stat about {};
  if (::stat(directory.c_str(), &about) != 0)
    return node_id;
  std::ostringstream mark;
  mark << node_id << std::hex << '-' << about.st_dev << '-' << about.st_ino;
  return mark.str();
}

} // namespace kcx
