#define CAF_SUITE tree_removal
#include "actors/runner/tree_removal.hpp"

#include "actors/runner/workspace.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

using namespace kcx;
namespace fs = std::filesystem;

CAF_TEST(very deep trees are removed with few descriptors) {
  test::temp_dir data;
  const auto path = workspace_path(data.path(), 1, 1);
  CAF_REQUIRE(create_workspace(path).has_value());
  int fd = ::open(path.c_str(), O_PATH | O_DIRECTORY);
  for (int i = 0; i < 600; ++i) {
    CAF_REQUIRE(::mkdirat(fd, "directory", 0700) == 0);
    const int next = ::openat(fd, "directory", O_PATH | O_DIRECTORY);
    CAF_REQUIRE(next >= 0);
    ::close(fd);
    fd = next;
  }
  ::close(fd);
  CAF_CHECK(remove_workspace(path).has_value());
  CAF_CHECK(!fs::exists(path));
}

CAF_TEST(wide trees are removed whole in pieces) {
  test::temp_dir data;
  const auto path = workspace_path(data.path(), 1, 1);
  CAF_REQUIRE(create_workspace(path).has_value());
  for (int i = 0; i < 20; ++i) {
    const auto sub = path / std::to_string(i);
    fs::create_directory(sub);
    const int fd = ::open(sub.c_str(), O_PATH | O_DIRECTORY);
    for (int k = 0; k < 100; ++k)
      ::close(::openat(fd, std::to_string(k).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ::close(fd);
  }
  const auto entries = [&] {
    return std::distance(fs::recursive_directory_iterator{path}, fs::recursive_directory_iterator{});
  };
  tree_removal work{path};
  for (auto left = entries(); work.step(); left = entries())
    CAF_CHECK_LESS_OR_EQUAL(left - entries(), static_cast<std::ptrdiff_t>(tree_removal::piece_entries));
  CAF_CHECK(work.result().has_value());
  CAF_CHECK(!fs::exists(path));
}

CAF_TEST(what cannot be removed does not keep the rest) {
  // Only root can make such a file, which nobody can remove.
  test::temp_dir data;
  const auto path = workspace_path(data.path(), 1, 1);
  CAF_REQUIRE(create_workspace(path).has_value());
  for (const auto* name : {"a", "b", "c"}) {
    fs::create_directories(path / name / "sub");
    test::write_file(path / name / "sub/file", "x");
  }
  const auto stubborn = path / "b/sub/file";
  const auto flags = [&](const char* change) {
    return std::system(("chattr " + std::string{change} + " " + stubborn.string() + " 2>/dev/null").c_str()) == 0;
  };
  if (!flags("+i"))
    return;
  const auto removed = remove_workspace(path);
  CAF_CHECK(flags("-i"));
  CAF_REQUIRE(!removed);
  CAF_CHECK_NOT_EQUAL(removed.error().message.find("cannot remove \"file\": Operation not permitted"),
                      std::string::npos);
  CAF_CHECK_EQUAL(std::distance(fs::recursive_directory_iterator{path}, fs::recursive_directory_iterator{}), 3);
}
