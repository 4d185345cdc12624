#include "actors/runner/cgroup.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <vector>

namespace kcx {

namespace {

namespace fs = std::filesystem;

/// The parts of the node's own cgroup: itself, and its jobs.
constexpr const char* node_part = "kcx-node";
constexpr const char* jobs_part = "kcx-jobs";

std::string first_line(const fs::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in{line};
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

bool write_file(const fs::path& file, const std::string& text) {
  const unique_fd fd{::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  return fd && ::write(fd.value(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Where cgroup v2 is mounted: "36 35 0:30 / /sys/fs/cgroup rw,… - cgroup2 cgroup2 rw".
fs::path mount_point(const fs::path& mounts) {
  std::ifstream in{mounts};
  for (std::string line; std::getline(in, line);) {
    const auto words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() > 4 && words.end() - dash > 1 && *(dash + 1) == "cgroup2")
      return words[4];
  }
  return {};
}

/// "0::/system.slice/kcx.service".
fs::path own_path(const fs::path& file) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::/"))
      return line.substr(4);
  return {};
}

cgroup_access only_rlimits(std::string why) {
  cgroup_access access;
  access.detail = "limits are those of setrlimit: " + std::move(why);
  return access;
}

cgroup_access known_controllers(const fs::path& own) {
  cgroup_access access;
  for (const auto& word : words_of(first_line(own / "cgroup.controllers"))) {
    access.memory = access.memory || word == "memory";
    access.cpu = access.cpu || word == "cpu";
    access.pids = access.pids || word == "pids";
  }
  return access;
}

std::string controllers(const cgroup_access& access, const std::string& before) {
  std::string text;
  for (const auto& [has, name] : {std::pair{access.memory, "memory"}, {access.cpu, "cpu"}, {access.pids, "pids"}})
    if (has)
      text += (text.empty() ? "" : " ") + before + name;
  return text;
}

/// Leaves the cgroup itself without processes and hands its controllers on to the jobs' part.
bool divide(const fs::path& own, const cgroup_access& access) {
  const auto self = std::to_string(::getpid());
  ::mkdir((own / node_part).c_str(), 0755);
  if (!write_file(own / node_part / "cgroup.procs", self))
    return false;
  ::mkdir((own / jobs_part).c_str(), 0755);
  if (write_file(own / "cgroup.subtree_control", controllers(access, "+")) &&
      write_file(own / jobs_part / "cgroup.subtree_control", controllers(access, "+")))
    return true;
  const auto number = errno;
  static_cast<void>(write_file(own / "cgroup.procs", self));
  ::rmdir((own / jobs_part).c_str());
  ::rmdir((own / node_part).c_str());
  errno = number;
  return false;
}

} // namespace

void remove_cgroup(const fs::path& path) {
  std::error_code failed;
  // From below upwards.
  for (fs::directory_iterator each{path, failed}, end; !failed && each != end; each.increment(failed))
    if (each->is_directory(failed))
      remove_cgroup(each->path());
  ::rmdir(path.c_str());
}

cgroup_access prepare_cgroups(const cgroup_sources& sources) {
  const auto mount = mount_point(sources.mounts);
  if (mount.empty())
    return only_rlimits("cgroup v2 is not mounted here");
  auto own = mount / own_path(sources.own);
  // A node that replaces itself finds that it is in its part already.
  if (own.filename() == node_part)
    own = own.parent_path();
  auto access = known_controllers(own);
  if (!access.memory && !access.cpu && !access.pids)
    return only_rlimits("the node's cgroup has no memory, cpu or pids controller");
  if (!divide(own, access))
    return only_rlimits(std::string{"the node's cgroup is not its own: "} + std::strerror(errno));
  access.jobs = own / jobs_part;
  std::error_code failed;
  for (fs::directory_iterator each{access.jobs, failed}, end; !failed && each != end; each.increment(failed))
    if (each->is_directory(failed))
      remove_cgroup(each->path());
  access.detail = "limits of whole jobs by cgroup v2: " + controllers(access, "");
  return access;
}

expected<job_cgroup> job_cgroup::create(const fs::path& path, const resource_limits& limits) {
  if (::mkdir(path.c_str(), 0755) != 0)
    return system_failure("cannot make the cgroup " + path.string());
  job_cgroup made{path};
  const auto set = [&](const char* name, const std::string& value) -> outcome {
    if (write_file(path / name, value))
      return done{};
    return system_failure("cannot set " + std::string{name} + " of the cgroup " + path.string());
  };
  constexpr std::uint64_t period_us = 100'000;
  outcome all = done{};
  if (limits.memory_bytes) {
    all = set("memory.max", std::to_string(*limits.memory_bytes));
    // Else what is above the limit would go to the swap. Not every kernel counts that.
    static_cast<void>(write_file(path / "memory.swap.max", "0"));
  }
  if (all && limits.processes)
    all = set("pids.max", std::to_string(*limits.processes));
  if (all && limits.cpu_millis)
    all = set("cpu.max", std::to_string(*limits.cpu_millis * period_us / 1'000) + ' ' + std::to_string(period_us));
  if (!all)
    return std::move(all).error();
  made.entrance_.reset(::open((path / "cgroup.procs").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!made.entrance_)
    return system_failure("cannot open the cgroup " + path.string());
  return made;
}

job_cgroup::job_cgroup(job_cgroup&& other) noexcept
  : path_{std::move(other.path_)}, entrance_{std::move(other.entrance_)} {
  other.path_.clear();
}

job_cgroup::~job_cgroup() {
  if (!path_.empty())
    remove_cgroup(path_);
}

bool job_cgroup::ran_out_of_memory() const {
  std::ifstream in{path_ / "memory.events"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("oom_kill "))
      return line != "oom_kill 0";
  return false;
}

} // namespace kcx
