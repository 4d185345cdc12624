/// Limits of whole jobs by cgroup v2, where the node is allowed to make cgroups. Elsewhere setrlimit() has to do, which
/// counts each process by itself.
///
/// The node looks once at its start (prepare_cgroups); the runner makes one cgroup per attempt that needs it
/// (job_cgroup) and starts the job's processes in it.
#pragma once

#include "config/error.hpp"
#include "config/posix.hpp"
#include "storage/job.hpp"

#include <filesystem>
#include <string>

namespace kcx {

/// What the node may do with cgroups.
struct cgroup_access {
  /// Each attempt gets a cgroup below it. Empty: none can be made.
  std::filesystem::path jobs;
  bool memory = false;
  bool cpu = false;
  bool pids = false;
  /// For people: what is used, or why nothing is.
  std::string detail;
};

/// Where the kernel tells about cgroups; tests pass files of their own.
struct cgroup_sources {
  std::filesystem::path mounts = "/proc/self/mountinfo";
  std::filesystem::path own = "/proc/self/cgroup";
};

/// Finds out whether this process's cgroup is its own (systemd: `Delegate=yes`), and if so moves the process into a
/// child of it, since only cgroups without processes hand controllers on. Removes what an earlier node left. Changes
/// nothing where it may not, or where other processes live in the cgroup. Call it before other threads and processes
/// start.
[[nodiscard]] cgroup_access prepare_cgroups(const cgroup_sources& sources = {});

/// Removes a cgroup without processes, and those inside it that its job made.
void remove_cgroup(const std::filesystem::path& path);

/// The cgroup of one attempt. Removed with this object, which needs its processes to be gone.
class job_cgroup {
public:
  /// Makes it with these limits (memory_bytes, processes, cpu_millis). Fails with ec::system_failed, naming the limit.
  [[nodiscard]] static expected<job_cgroup> create(const std::filesystem::path& path, const resource_limits& limits);

  job_cgroup(job_cgroup&& other) noexcept;
  job_cgroup& operator=(job_cgroup&&) = delete;
  ~job_cgroup();

  /// Writing "0" to this descriptor moves a process in.
  [[nodiscard]] int entrance() const noexcept { return entrance_.value(); }

  /// Whether the kernel ended a process for want of memory below the limit.
  [[nodiscard]] bool ran_out_of_memory() const;

private:
  explicit job_cgroup(std::filesystem::path path) : path_{std::move(path)} {}

  std::filesystem::path path_;
  unique_fd entrance_;
};

} // namespace kcx
