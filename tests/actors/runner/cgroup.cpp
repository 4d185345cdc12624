#define CAF_SUITE cgroup
#include "actors/runner/cgroup.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <filesystem>
#include <string>

using namespace kcx;
using namespace kcx::test;
namespace fs = std::filesystem;

namespace {

/// What the kernel would show a node in the cgroup /a/b, with plain files in the place of its own.
struct fake_kernel {
  temp_dir dir;
  fs::path own = dir / "mount/a/b";
  cgroup_sources sources{dir / "mountinfo", dir / "cgroup"};

  explicit fake_kernel(const std::string& controllers) {
    fs::create_directories(own);
    write_file(sources.mounts, "22 1 0:5 / /proc rw - proc proc rw\n36 35 0:30 / " + (dir / "mount").string() +
                                 " rw,nosuid - cgroup2 cgroup2 rw\n");
    write_file(sources.own, "4:memory:/x\n0::/a/b\n");
    write_file(own / "cgroup.controllers", controllers);
  }
};

} // namespace

CAF_TEST(without cgroup v2 or its controllers limits are those of setrlimit) {
  fake_kernel kernel{"hugetlb rdma\n"};
  auto access = prepare_cgroups(kernel.sources);
  CAF_CHECK(access.jobs.empty());
  CAF_CHECK_EQUAL(access.detail,
                  "limits are those of setrlimit: the node's cgroup has no memory, cpu or pids controller");
  CAF_CHECK(!fs::exists(kernel.own / "kcx-jobs"));
  write_file(kernel.sources.mounts, "22 1 0:5 / /proc rw - proc proc rw\n");
  access = prepare_cgroups(kernel.sources);
  CAF_CHECK_EQUAL(access.detail, "limits are those of setrlimit: cgroup v2 is not mounted here");
}

CAF_TEST(a cgroup of its own is divided and handed on) {
  fake_kernel kernel{"cpuset cpu memory\n"};
  fs::create_directories(kernel.own / "kcx-jobs/9-1/inner");
  const auto access = prepare_cgroups(kernel.sources);
  CAF_CHECK_EQUAL(access.jobs.string(), (kernel.own / "kcx-jobs").string());
  CAF_CHECK(access.memory && access.cpu && !access.pids);
  CAF_CHECK_EQUAL(access.detail, "limits of whole jobs by cgroup v2: memory cpu");
  CAF_CHECK_EQUAL(read_file(kernel.own / "kcx-node/cgroup.procs"), std::to_string(::getpid()));
  CAF_CHECK_EQUAL(read_file(kernel.own / "cgroup.subtree_control"), "+memory +cpu");
  CAF_CHECK_EQUAL(read_file(access.jobs / "cgroup.subtree_control"), "+memory +cpu");
  CAF_CHECK(!fs::exists(access.jobs / "9-1")); // an earlier node's
}

CAF_TEST(a cgroup that is not its own is left as it is) {
  fake_kernel kernel{"memory\n"};
  fs::create_directory(kernel.own / "cgroup.subtree_control"); // writing to it fails
  const auto access = prepare_cgroups(kernel.sources);
  CAF_CHECK(access.jobs.empty());
  CAF_CHECK_EQUAL(access.detail.substr(0, 66), "limits are those of setrlimit: the node's cgroup is not its own: I");
}

CAF_TEST(the cgroup of a job has its limits) {
  temp_dir dir;
  resource_limits limits;
  limits.memory_bytes = 64 << 20;
  limits.processes = 10;
  limits.cpu_millis = 1'500;
  {
    const auto made = job_cgroup::create(dir / "12-1", limits);
    CAF_REQUIRE(made.has_value());
    CAF_CHECK_EQUAL(read_file(dir / "12-1/memory.max"), "67108864");
    CAF_CHECK_EQUAL(read_file(dir / "12-1/memory.swap.max"), "0");
    CAF_CHECK_EQUAL(read_file(dir / "12-1/pids.max"), "10");
    CAF_CHECK_EQUAL(read_file(dir / "12-1/cpu.max"), "150000 100000");
    CAF_CHECK(made->entrance() > 2 && !made->ran_out_of_memory());
    write_file(dir / "12-1/memory.events", "low 0\noom 1\noom_kill 1\n");
    CAF_CHECK(made->ran_out_of_memory());
  }
  const auto none = job_cgroup::create(dir / "no/such/parent", limits);
  CAF_CHECK(!none && none.error().message.find("cannot make the cgroup") == 0);
}
