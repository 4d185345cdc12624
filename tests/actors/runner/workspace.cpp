#define CAF_SUITE workspace
#include "actors/runner/workspace.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace kcx;
namespace fs = std::filesystem;

CAF_TEST(a workspace is private and made once) {
  test::temp_dir data;
  const auto path = workspace_path(data.path(), 12, 3);
  CAF_CHECK_EQUAL(path.string(), (data / "workspaces/12-3").string());
  CAF_REQUIRE(create_workspace(path).has_value());
  CAF_CHECK(fs::status(path).permissions() == fs::perms::owner_all);
  const auto again = create_workspace(path);
  CAF_REQUIRE(!again);
  CAF_CHECK(again.error().code == ec::conflict);
}

CAF_TEST(removing a workspace follows no link out of it) {
  test::temp_dir data;
  fs::create_directory(data / "precious");
  test::write_file(data / "precious/file", "kept");
  const auto path = workspace_path(data.path(), 1, 1);
  CAF_REQUIRE(create_workspace(path).has_value());
  fs::create_directory_symlink(data / "precious", path / "link");
  fs::create_directory(path / "sub");
  fs::create_symlink("../../../precious/file", path / "sub/file");
  fs::create_hard_link(data / "precious/file", path / "hard");
  CAF_CHECK(remove_workspace(path).has_value());
  CAF_CHECK(!fs::exists(path));
  CAF_CHECK_EQUAL(test::read_file(data / "precious/file"), "kept");
}

CAF_TEST(a link or a file in the place of a workspace is removed and not followed) {
  test::temp_dir data;
  fs::create_directory(data / "precious");
  test::write_file(data / "precious/file", "kept");
  fs::create_directory(data / "workspaces");
  fs::create_directory_symlink(data / "precious", data / "workspaces/1-1");
  test::write_file(data / "workspaces/2-1", "a file");
  CAF_CHECK(remove_workspace(data / "workspaces/1-1").has_value());
  CAF_CHECK(remove_workspace(data / "workspaces/2-1").has_value());
  CAF_CHECK(fs::is_empty(data / "workspaces"));
  CAF_CHECK(fs::exists(data / "precious/file"));
}

CAF_TEST(only a plain name below a directory can be removed) {
  test::temp_dir data;
  CAF_CHECK(!remove_workspace(data.path() / ".."));
  CAF_CHECK(!remove_workspace(data.path().string() + "/"));
  CAF_CHECK(!remove_workspace("/"));
  CAF_CHECK(fs::exists(data.path()));
}

CAF_TEST(what is not there is removed already) {
  test::temp_dir data;
  CAF_CHECK(remove_workspace(data / "workspaces/1-1").has_value());
  CAF_CHECK(remove_workspace(data / "nothing").has_value());
}

CAF_TEST(whatever lies in the place of the outputs is removed and not followed) {
  test::temp_dir data;
  fs::create_directory(data / "precious");
  test::write_file(data / "precious/file", "kept");
  const auto path = workspace_path(data.path(), 1, 1);
  const auto output = output_path(path);
  CAF_CHECK(remove_output(path).has_value());
  CAF_REQUIRE(create_workspace(path).has_value());
  CAF_CHECK(remove_output(path).has_value());
  test::write_file(output, "n=1");
  CAF_CHECK(remove_output(path).has_value());
  CAF_CHECK(!fs::exists(fs::symlink_status(output)));
  fs::create_directory_symlink(data / "precious", output);
  CAF_CHECK(remove_output(path).has_value());
  CAF_CHECK(!fs::exists(fs::symlink_status(output)));
  fs::create_directories(output / "a/b");
  fs::create_directory_symlink(data / "precious", output / "a/link");
  CAF_CHECK(remove_output(path).has_value());
  CAF_CHECK(!fs::exists(fs::symlink_status(output)));
  CAF_CHECK(fs::exists(data / "precious/file"));
  CAF_CHECK(fs::exists(path));
}

CAF_TEST(directories without permissions do not stand in the way) {
  test::temp_dir data;
  // Root passes every permission: become somebody else.
  CAF_REQUIRE(::chmod(data.path().c_str(), 0777) == 0);
  if (::geteuid() == 0)
    CAF_REQUIRE(::seteuid(65534) == 0);
  const auto path = workspace_path(data.path(), 1, 1);
  CAF_REQUIRE(create_workspace(path).has_value());
  fs::create_directories(path / "a/b/c");
  test::write_file(path / "a/b/c/file", "x");
  ::chmod((path / "a/b/c").c_str(), 0000);
  ::chmod((path / "a/b").c_str(), 0555);
  ::chmod((path / "a").c_str(), 0400);
  const auto removed = remove_workspace(path);
  CAF_CHECK(removed.has_value());
  CAF_CHECK(!fs::exists(path));
  ::seteuid(0);
}
