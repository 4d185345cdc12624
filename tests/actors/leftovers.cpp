#define CAF_SUITE leftovers
#include "actors/workers/leftovers.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <filesystem>

using namespace kcx;
using namespace kcx::test;
namespace fs = std::filesystem;

CAF_TEST(a dead runner leaves neither a workspace nor a cgroup) {
  temp_dir dir;
  unfinished_run left{{{7}, 1}, dir / "workspaces/7-1", false, dir / "artifacts/7-1", dir / "kcx-jobs/7-1"};
  fs::create_directories(dir / "workspaces/7-1/deep");
  fs::create_directories(dir / "kcx-jobs/7-1/made/by/it");
  remove_unfinished(left);
  CAF_CHECK(fs::is_empty(dir / "workspaces"));
  CAF_CHECK(fs::is_empty(dir / "kcx-jobs"));
  remove_unfinished(left);
}

CAF_TEST(a removed job takes along what lies beside its workspace) {
  temp_dir dir;
  fs::create_directories(dir / "workspaces/7-1/deep");
  for (const auto* name : {"7-1.out", "7-2.out", "7-2", "8-1.out"})
    write_file(dir / "workspaces" / name, "x");
  remove_job_files(dir.path(), {{{7}, 2}});
  CAF_CHECK_EQUAL(std::distance(fs::directory_iterator{dir / "workspaces"}, fs::directory_iterator{}), 1);
  CAF_CHECK(fs::exists(dir / "workspaces/8-1.out"));
}
