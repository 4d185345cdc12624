#define CAF_SUITE data_directory
#include "config/data_directory.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <nlohmann/json.hpp>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// Only root can run jobs as other accounts.
const unsigned passable = ::geteuid() == 0 ? 0711 : 0700;

unsigned mode_of(const fs::path& path) {
  struct stat about {};
  CAF_REQUIRE_EQUAL(::stat(path.c_str(), &about), 0);
  return about.st_mode & 07777U;
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in \"" << text << "\"");
  return false;
}

std::string code_of(const expected<data_directory>& opened) {
  return opened ? "none" : std::string{to_string(opened.error().code)};
}

} // namespace

CAF_TEST(a new directory gets folders and a token nobody else can read) {
  temp_dir dir;
  auto opened = data_directory::open(dir / "deep/below");
  CAF_REQUIRE_EQUAL(code_of(opened), "none");
  for (const auto& folder : {opened->logs(), opened->artifacts()})
    CAF_CHECK_EQUAL(mode_of(folder), 0700u);
  // Jobs of other accounts pass through these.
  for (const auto& folder : {opened->path(), opened->workspaces()})
    CAF_CHECK_EQUAL(mode_of(folder), passable);
  CAF_CHECK_EQUAL(mode_of(opened->path() / "admin.token"), 0600u);
  CAF_CHECK_EQUAL(opened->admin_token().size(), 64u);
  CAF_CHECK_EQUAL(opened->admin_token().find_first_not_of("0123456789abcdef"), std::string::npos);
  CAF_CHECK_EQUAL(read_file(opened->path() / "admin.token"), opened->admin_token() + "\n");
  CAF_CHECK(opened->path().is_absolute());
  CAF_CHECK(opened->warnings().empty());
}

CAF_TEST(opened again it keeps its token and two directories have two) {
  temp_dir dir;
  std::string first;
  {
    auto opened = data_directory::open(dir / "a");
    CAF_REQUIRE(opened.has_value());
    first = opened->admin_token();
  }
  auto again = data_directory::open(dir / "a");
  auto other = data_directory::open(dir / "b");
  CAF_REQUIRE(again.has_value());
  CAF_REQUIRE(other.has_value());
  CAF_CHECK_EQUAL(again->admin_token(), first);
  CAF_CHECK_NOT_EQUAL(other->admin_token(), first);
}

CAF_TEST(a second node is refused by name of the process that holds the directory) {
  temp_dir dir;
  auto first = data_directory::open(dir / "d");
  CAF_REQUIRE(first.has_value());
  auto second = data_directory::open(dir / "d", 0ms);
  CAF_REQUIRE_EQUAL(code_of(second), "data_in_use");
  CAF_CHECK(contains(second.error().message, (dir / "d").string()));
  CAF_CHECK(contains(second.error().message, "process " + std::to_string(::getpid())));
}

CAF_TEST(a lock that is let go of soon is waited for) {
  temp_dir dir;
  auto first = data_directory::open(dir / "d");
  CAF_REQUIRE(first.has_value());
  std::optional<data_directory> held{*std::move(first)};
  std::thread dying{[&] {
    std::this_thread::sleep_for(100ms); // the wait of the other is what is tested
    held.reset();
  }};
  auto second = data_directory::open(dir / "d", 60s);
  dying.join();
  CAF_CHECK_EQUAL(code_of(second), "none");
}

CAF_TEST(the lock goes with a process that is killed) {
  temp_dir dir;
  int ready[2];
  CAF_REQUIRE_EQUAL(::pipe2(ready, O_CLOEXEC), 0);
  auto child = ::fork();
  if (child == 0) {
    auto held = data_directory::open(dir / "d");
    if (held && held->announce({"http://127.0.0.1:1", "http://127.0.0.1:2"})) [[maybe_unused]]
      auto told = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(1);
  }
  ::close(ready[1]);
  char byte = 0;
  CAF_REQUIRE_EQUAL(::read(ready[0], &byte, 1), 1);
  auto refused = data_directory::open(dir / "d", 0ms);
  CAF_REQUIRE_EQUAL(code_of(refused), "data_in_use");
  CAF_CHECK(contains(refused.error().message, "process " + std::to_string(child)));
  CAF_CHECK(fs::exists(dir / "d/node.json"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  auto opened = data_directory::open(dir / "d");
  CAF_REQUIRE_EQUAL(code_of(opened), "none");
  CAF_CHECK(!fs::exists(dir / "d/node.json"));
}

CAF_TEST(a program it starts does not inherit the lock) {
  temp_dir dir;
  pid_t child = -1;
  {
    auto opened = data_directory::open(dir / "d");
    CAF_REQUIRE(opened.has_value());
    int started[2];
    CAF_REQUIRE_EQUAL(::pipe2(started, O_CLOEXEC), 0);
    child = ::fork();
    if (child == 0) {
      ::execlp("sleep", "sleep", "60", nullptr);
      ::_exit(127);
    }
    ::close(started[1]);
    char byte = 0;
    // Ends when exec closes the child's copy.
    CAF_REQUIRE_EQUAL(::read(started[0], &byte, 1), 0);
  }
  CAF_CHECK_EQUAL(code_of(data_directory::open(dir / "d")), "none");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

CAF_TEST(node json tells where the node listens while it does) {
  temp_dir dir;
  {
    auto opened = data_directory::open(dir / "d");
    CAF_REQUIRE(opened.has_value());
    CAF_CHECK(!fs::exists(dir / "d/node.json"));
    CAF_REQUIRE(opened->announce({"http://127.0.0.1:1", "http://127.0.0.1:2"}).has_value());
    auto document = nlohmann::json::parse(read_file(dir / "d/node.json"));
    CAF_CHECK_EQUAL(document.at("http").get<std::string>(), "http://127.0.0.1:1");
    CAF_CHECK_EQUAL(document.at("inspect").get<std::string>(), "http://127.0.0.1:2");
    CAF_CHECK_EQUAL(document.at("pid").get<pid_t>(), ::getpid());
    CAF_CHECK_EQUAL(document.at("version").get<std::string>(), KCX_VERSION);
    opened->retract();
    CAF_CHECK(!fs::exists(dir / "d/node.json"));
    CAF_REQUIRE(opened->announce({"http://127.0.0.1:1", "http://127.0.0.1:2"}).has_value());
  }
  CAF_CHECK(!fs::exists(dir / "d/node.json"));
}

CAF_TEST(modes that are too open are put right with a warning) {
  temp_dir dir;
  std::ignore = data_directory::open(dir / "d");
  ::chmod((dir / "d").c_str(), 0755);
  ::chmod((dir / "d/admin.token").c_str(), 0644);
  auto opened = data_directory::open(dir / "d");
  CAF_REQUIRE(opened.has_value());
  CAF_CHECK_EQUAL(mode_of(dir / "d"), passable);
  CAF_CHECK_EQUAL(mode_of(dir / "d/admin.token"), 0600u);
  CAF_CHECK_EQUAL(opened->warnings().size(), 2u);
}

CAF_TEST(a broken token file is refused and kept) {
  temp_dir dir;
  fs::create_directory(dir / "d");
  write_file(dir / "d/admin.token", "short\n");
  auto opened = data_directory::open(dir / "d");
  CAF_REQUIRE_EQUAL(code_of(opened), "invalid_setting");
  CAF_CHECK(contains(opened.error().message, "admin.token"));
  CAF_CHECK_EQUAL(read_file(dir / "d/admin.token"), "short\n");
}

CAF_TEST(a token put there beforehand is taken) {
  temp_dir dir;
  fs::create_directory(dir / "d");
  write_file(dir / "d/admin.token", std::string(40, 'k') + "\n");
  auto opened = data_directory::open(dir / "d");
  CAF_REQUIRE(opened.has_value());
  CAF_CHECK_EQUAL(opened->admin_token(), std::string(40, 'k'));
}

CAF_TEST(a token file that is a link is refused) {
  temp_dir dir;
  fs::create_directory(dir / "d");
  write_file(dir / "elsewhere", std::string(40, 'k'));
  fs::create_symlink(dir / "elsewhere", dir / "d/admin.token");
  CAF_CHECK_EQUAL(code_of(data_directory::open(dir / "d")), "system_failed");
}

CAF_TEST(a directory with files of somebody else is refused untouched) {
  temp_dir dir;
  fs::create_directory(dir / "home");
  ::chmod((dir / "home").c_str(), 0755);
  write_file(dir / "home/letter.txt", "hello");
  auto opened = data_directory::open(dir / "home");
  CAF_REQUIRE_EQUAL(code_of(opened), "invalid_setting");
  CAF_CHECK(contains(opened.error().message, "--data"));
  CAF_CHECK_EQUAL(mode_of(dir / "home"), 0755u);
  CAF_CHECK(!fs::exists(dir / "home/node.lock"));
}

CAF_TEST(a folder whose place something else has taken is told at the start) {
  const temp_dir here;
  const auto path = here / "data";
  CAF_REQUIRE(data_directory::open(path));
  std::filesystem::remove(path / "logs");
  write_file(path / "logs", "");
  const auto again = data_directory::open(path);
  CAF_REQUIRE(!again);
  CAF_CHECK_NOT_EQUAL(again.error().message.find("cannot use " + (path / "logs").string()), std::string::npos);
}

CAF_TEST(a path that is a file is refused) {
  temp_dir dir;
  write_file(dir / "f", "x");
  CAF_CHECK_NOT_EQUAL(code_of(data_directory::open(dir / "f")), "none");
  CAF_CHECK_NOT_EQUAL(code_of(data_directory::open(dir / "f/below")), "none");
}

CAF_TEST(network file systems are told by name and local ones are not ) {
  CAF_CHECK(unreliable_file_system(0x6969) == "NFS");
  CAF_CHECK(unreliable_file_system(0x65735546) == "FUSE");
  CAF_CHECK(unreliable_file_system(static_cast<long>(0xFF534D42)) == "CIFS");
  // The kernel's type is signed on some machines.
  CAF_CHECK(unreliable_file_system(static_cast<std::int32_t>(0xFF534D42)) == "CIFS");
  CAF_CHECK(unreliable_file_system(0x01021997) == "9p");
  for (long local : {0xEF53L, 0x58465342L, 0x9123683EL, 0x01021994L, 0x794c7630L})
    CAF_CHECK(!unreliable_file_system(local));
}

CAF_TEST(replacing a file keeps the old one where the directory is missing) {
  temp_dir dir;
  CAF_CHECK(!replace_file(dir / "none/file", "x"));
  CAF_REQUIRE(replace_file(dir / "file", "one").has_value());
  CAF_REQUIRE(replace_file(dir / "file", "two").has_value());
  CAF_CHECK_EQUAL(read_file(dir / "file"), "two");
  CAF_CHECK_EQUAL(std::distance(fs::directory_iterator{dir.path()}, {}), 1);
}
