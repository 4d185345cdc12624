#include "actors/cli/node/doctor.hpp"

#include "actors/cli/view/text.hpp"
#include "config/data_directory.hpp"
#include "config/process_facts.hpp"
#include "storage/sqlite/maintenance.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>

namespace kcx::cli {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr double gibibyte = 1024.0 * 1024 * 1024;
/// What the node keeps free unless told otherwise (min-free).
constexpr double least_free = 16.0 * 1024 * 1024;

std::string quoted_mode(mode_t mode) {
  std::ostringstream text;
  text << '0' << std::oct << (mode & 07777U);
  return text.str();
}

std::string account(uid_t id) {
  return id == 0 ? "root" : "user " + std::to_string(id);
}

/// A file of the data directory: there, of the right owner, and closed to others but for `allowed`.
finding check_owner(std::string what, const fs::path& path, mode_t allowed, const std::string& right_mode) {
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0)
    return {std::move(what), verdict::fail, "cannot examine " + path.string() + ": " + std::strerror(errno), ""};
  if (about.st_uid != ::geteuid() && ::geteuid() != 0)
    return {std::move(what), verdict::fail,
            path.string() + " belongs to " + account(about.st_uid) + ", you are " + account(::geteuid()),
            "Run kcx and kcx-node as " + account(about.st_uid) + "."};
  if ((about.st_mode & 077U & ~allowed) != 0)
    return {std::move(what), verdict::fail,
            path.string() + " has mode " + quoted_mode(about.st_mode) + ": others can get at it",
            "chmod " + right_mode + " " + path.string()};
  return {std::move(what), verdict::ok, path.string() + ", mode " + quoted_mode(about.st_mode), ""};
}

finding check_directory(const fs::path& data) {
  std::error_code failed;
  if (!fs::is_directory(data, failed))
    return {"data directory", verdict::fail, data.string() + " is no directory",
            "Name the node's data directory by --data, or start a node on it first."};
  // For root it must be passable: jobs of other accounts work below it.
  auto found = check_owner("data directory", data, 011, ::geteuid() == 0 ? "711" : "700");
  if (found.how == verdict::ok && ::access(data.c_str(), W_OK) != 0)
    return {"data directory", verdict::fail, data.string() + " cannot be written: " + std::strerror(errno),
            "Is the file system mounted read-only?"};
  return found;
}

finding check_file_system(const fs::path& data) {
  struct statfs about {};
  if (::statfs(data.c_str(), &about) != 0)
    return {"file system", verdict::fail, std::string{"cannot be examined: "} + std::strerror(errno), ""};
  if (const auto name = unreliable_file_system(static_cast<long>(about.f_type)))
    return {"file system", verdict::fail,
            "the data directory lies on " + std::string{*name} + ", whose locks and syncs are not reliable",
            "Move the data directory to a local disk."};
  std::ostringstream type;
  type << std::hex << about.f_type;
  return {"file system", verdict::ok, "a local one (type 0x" + type.str() + ")", ""};
}

finding check_space(const fs::path& data) {
  struct statvfs about {};
  if (::statvfs(data.c_str(), &about) != 0)
    return {"free space", verdict::fail, std::string{"cannot be examined: "} + std::strerror(errno), ""};
  const auto free = static_cast<double>(about.f_bavail) * static_cast<double>(about.f_frsize);
  const auto all = static_cast<double>(about.f_blocks) * static_cast<double>(about.f_frsize);
  auto seen = size_text(free) + " of " + size_text(all);
  const std::string remedy = "Make room, shorten keep and log-limit, or move the data directory to a larger disk.";
  if (free < least_free)
    return {"free space", verdict::fail, seen + ": the node takes no jobs below min-free", remedy};
  if (about.f_files > 0 && about.f_favail < 1'000)
    return {"free space", verdict::fail, std::to_string(about.f_favail) + " files can be made, then none", remedy};
  if (free < gibibyte && free < all / 10)
    return {"free space", verdict::warn, std::move(seen), remedy};
  return {"free space", verdict::ok, std::move(seen), ""};
}

/// Whether a node holds the directory's lock; nothing if that cannot be seen, with errno. Read from the kernel's list:
/// to try the lock could keep a node that starts at that moment from getting it.
std::optional<bool> held(const fs::path& data) {
  struct stat about {};
  if (::stat((data / "node.lock").c_str(), &about) != 0)
    return errno == ENOENT ? std::optional{false} : std::nullopt;
  const auto inode = ':' + std::to_string(about.st_ino) + ' ';
  std::ifstream locks{"/proc/locks"};
  for (std::string line; std::getline(locks, line);)
    if (line.find(" FLOCK ") != std::string::npos && line.find(inode) != std::string::npos)
      return true;
  return false;
}

/// What to do where this account may not look.
std::string ask_its_account(const fs::path& data) {
  struct stat about {};
  return ::stat(data.c_str(), &about) == 0 ? "Run kcx as " + account(about.st_uid) + "."
                                           : "Run kcx as the account of the node.";
}

finding check_node(const fs::path& data, const node_answer& answer) {
  if (!answer.node.is_object()) {
    const auto locked = held(data);
    if (!locked)
      return {"node", verdict::fail,
              "whether one runs cannot be seen: " + (data / "node.lock").string() + ": " + std::strerror(errno),
              ask_its_account(data)};
    if (*locked && answer.not_asked)
      return {"node", verdict::fail, "one runs but cannot be asked: " + answer.failure, ask_its_account(data)};
    if (*locked)
      return {"node", verdict::fail, "it runs but does not answer: " + answer.failure,
              "Look at its log. If it is stuck: /actors on its inspection port tells where."};
    return {"node", verdict::warn, "none runs on this data directory", "kcx-node --data " + data.string()};
  }
  const auto pid = answer.node.value("pid", 0);
  if (!answer.ready)
    return {"node", verdict::warn,
            "process " + std::to_string(pid) + " runs but is not ready: " + visible(answer.not_ready),
            "Look again in a moment; its log tells more."};
  return {"node", verdict::ok, "process " + std::to_string(pid) + " is ready", ""};
}

finding check_version(const node_answer& answer) {
  if (!answer.node.is_object())
    return {"version", verdict::ok, "kcx " KCX_VERSION, ""};
  const auto node = answer.node.value("version", std::string{"unknown"});
  if (node == KCX_VERSION)
    return {"version", verdict::ok, "kcx and kcx-node are " + node, ""};
  return {"version", verdict::warn, "kcx is " KCX_VERSION ", kcx-node " + visible(node),
          "Install both from one build, and restart the node."};
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
    .count();
}

finding check_clock(const std::optional<database_report>& database) {
  // Start times, retention and expiry of tokens follow the wall clock.
  if (database && database->newest && database->newest->time_since_epoch().count() > now_ms() + 60'000)
    return {"clock", verdict::fail, "the newest job was submitted in the future: the clock went back since",
            "Set the clock; until it has caught up, start times and retention are wrong."};
  timex about{};
  const auto state = ::adjtimex(&about);
  if (state == TIME_ERROR || (about.status & STA_UNSYNC) != 0)
    return {"clock", verdict::warn, "it is not known to be synchronized",
            "Run an NTP client such as chrony or systemd-timesyncd."};
  return {"clock", verdict::ok, "synchronized", ""};
}

finding check_database(const fs::path& data, std::optional<database_report>& report) {
  auto examined = examine_database(data / "kcx.db");
  if (!examined && examined.error().code == ec::not_found && held(data).value_or(false))
    return {"database", verdict::fail, "kcx.db is gone while a node runs: nothing more is accepted",
            "Stop the node and put the file back, or restore a backup (docs/operations.md)."};
  if (!examined && examined.error().code == ec::not_found)
    return {"database", verdict::warn, "there is none yet", "The node makes it at its first start."};
  // Nothing is known of the file then, least of all that it is damaged.
  if (!examined && examined.error().code == ec::system_failed)
    return {"database", verdict::fail, examined.error().message, ask_its_account(data)};
  if (!examined)
    return {"database", verdict::fail, examined.error().message,
            "Stop the node and restore a backup (docs/operations.md)."};
  report = *std::move(examined);
  if (!report->damage.empty())
    return {"database", verdict::fail, "damaged: " + visible(report->damage.front()),
            "Stop the node and restore a backup (docs/operations.md)."};
  if (report->version < report->known_version)
    return {"database", verdict::ok,
            "sound; version " + std::to_string(report->version) + ", the node brings it to " +
              std::to_string(report->known_version),
            ""};
  return {"database", verdict::ok, "sound; " + counted(report->jobs, "job"), ""};
}

finding check_wal(const fs::path& data) {
  std::error_code failed;
  const auto size = fs::file_size(data / "kcx.db-wal", failed);
  if (failed)
    return {"write-ahead log", verdict::ok, "none", ""};
  auto seen = size_text(static_cast<double>(size));
  if (static_cast<double>(size) > gibibyte / 4)
    return {"write-ahead log", verdict::warn, std::move(seen),
            "Something reads the database all the time and keeps it from being folded in: end it."};
  return {"write-ahead log", verdict::ok, std::move(seen), ""};
}

/// The value of a variable in the environment of a process, nothing if that has none.
std::optional<std::string> variable_of(const std::string& all, std::string_view name) {
  for (std::size_t at = 0; at < all.size();) {
    const auto end = std::min(all.find('\0', at), all.size());
    const auto word = std::string_view{all}.substr(at, end - at);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return std::string{word.substr(name.size() + 1)};
    at = end + 1;
  }
  return std::nullopt;
}

/// Processes of this node's jobs that no running job accounts for.
finding check_leftovers(const std::string& mark, const node_answer& answer) {
  std::string pids;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator{"/proc", failed}) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos)
      continue;
    const auto environment = environment_of(std::atoi(name.c_str()));
    if (variable_of(environment, "KCX_NODE_ID") != mark)
      continue;
    const auto job = variable_of(environment, "KCX_JOB_ID");
    const bool runner = !job && answer.node.is_object();
    const bool expected =
      job && std::find(answer.running.begin(), answer.running.end(), std::atoll(job->c_str())) != answer.running.end();
    if (!runner && !expected)
      pids += ' ' + name;
  }
  if (pids.empty())
    return {"left-over processes", verdict::ok, "none", ""};
  return {"left-over processes", verdict::warn, "processes of jobs that do not run:" + pids,
          answer.node.is_object()
            ? "Look again in some seconds: a job may just have started or ended. Else end them by hand."
            : "The node ends them when it starts."};
}

} // namespace

std::vector<finding> examine_node(const fs::path& data, const node_answer& answer) {
  std::vector<finding> all{check_directory(data)};
  std::error_code failed;
  if (!fs::is_directory(data, failed))
    return all;
  all.push_back(check_file_system(data));
  all.push_back(check_space(data));
  if (fs::exists(data / "admin.token", failed))
    all.push_back(check_owner("admin token", data / "admin.token", 0, "600"));
  all.push_back(check_node(data, answer));
  all.push_back(check_version(answer));
  std::optional<database_report> database;
  all.push_back(check_database(data, database));
  all.push_back(check_wal(data));
  all.push_back(check_clock(database));
  if (database)
    all.push_back(check_leftovers(process_mark(database->node_id, data), answer));
  return all;
}

} // namespace kcx::cli
