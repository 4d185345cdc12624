// What backup and doctor find in a data directory that no node runs on.
#define CAF_SUITE node_files
#include "actors/cli/node/backup.hpp"
#include "actors/cli/node/doctor.hpp"
#include "caf/test/unit_test.hpp"
#include "storage/artifact_path.hpp"
#include "storage/log_format.hpp"
#include "storage/log_writer.hpp"
#include "storage/sqlite/store.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <vector>

using namespace kcx;
using namespace kcx::cli;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A data directory with one job that has run once, its log and an artifact. Root, who may read anything, becomes
/// another account before a file is made unreadable.
struct fixture {
  fixture() {
    auto store = open_sqlite_store(data / "kcx.db", timestamp{1s});
    if (!store)
      CAF_FAIL(store.error().message);
    job_spec spec;
    spec.command = command_line{true, {"true"}};
    CAF_REQUIRE((*store)->insert(std::vector{spec}, timestamp{5s}).has_value());
    CAF_REQUIRE((*store)->claim({job_id{1}, "node/1", 7}, timestamp{5s}).has_value());
    CAF_REQUIRE((*store)->commit().has_value());
    write_log(1, "log");
    put(artifacts_path(data, 1, 1) / "dist/app", "artifact");
  }

  void write_log(std::int32_t attempt, std::string_view text) const {
    auto log = log_writer::create(log_path(data, 1, attempt), 1'000'000, 1'000);
    CAF_REQUIRE(log.has_value());
    log->append(log_stream::out, 1, text, 1'000);
    log->flush(1'000);
  }

  static void put(const fs::path& file, std::string_view content) {
    fs::create_directories(file.parent_path());
    test::write_file(file, content);
  }

  void hide(const fs::path& file) const {
    if (::geteuid() == 0) {
      CAF_REQUIRE(::chown(directory.path().c_str(), 65534, 65534) == 0);
      for (const auto& each : fs::recursive_directory_iterator{directory.path()})
        CAF_REQUIRE(::chown(each.path().c_str(), 65534, 65534) == 0);
      CAF_REQUIRE(::seteuid(65534) == 0);
    }
    fs::permissions(file, fs::perms::none);
  }

  ~fixture() {
    if (::geteuid() != ::getuid())
      CAF_CHECK(::seteuid(::getuid()) == 0);
  }

  [[nodiscard]] error refusal(const fs::path& target, backup_parts with = {}) const {
    const auto made = make_backup(data, target, with);
    return made ? error{} : made.error();
  }

  [[nodiscard]] finding found(const char* what, const node_answer& answer = {}) const {
    for (const auto& each : examine_node(data, answer))
      if (each.what == what)
        return each;
    return {};
  }

  test::temp_dir directory;
  const fs::path data = directory / "data";
  const bool data_made = fs::create_directory(data);
  const fs::path copy = directory / "copy";
};

bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in \"" << text << '"');
  return false;
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(node_files, fixture)

CAF_TEST(a backup takes logs and artifacts of the attempts that the database knows) {
  write_log(2, "begun after the copy");
  put(artifacts_path(data, 1, 2) / "app", "kept after the copy");
  put(partial_artifacts_path(artifacts_path(data, 1, 1)) / "app", "not complete");
  fs::create_symlink("/etc/passwd", artifacts_path(data, 1, 1) / "link");
  const auto facts = make_backup(data, copy, {});
  CAF_REQUIRE(facts.has_value());
  CAF_CHECK_EQUAL(facts->logs.files, 1u);
  CAF_CHECK_EQUAL(facts->artifacts.files, 1u);
  CAF_CHECK_EQUAL(facts->artifacts.bytes, 8u);
  CAF_CHECK_EQUAL(test::read_file(artifacts_path(copy, 1, 1) / "dist/app"), "artifact");
  CAF_CHECK_EQUAL(test::read_file(log_path(copy, 1, 1)), "log");
  for (const auto& absent : {log_path(copy, 1, 2), artifacts_path(copy, 1, 2), artifacts_path(copy, 1, 1) / "link",
                             partial_artifacts_path(artifacts_path(copy, 1, 1)), fs::path{copy.string() + ".partial"}})
    CAF_CHECK(!fs::exists(fs::symlink_status(absent)));
}

CAF_TEST(parts that are not wanted are left out) {
  const auto facts = make_backup(data, copy, {.logs = false, .artifacts = false});
  CAF_REQUIRE(facts.has_value());
  CAF_CHECK_EQUAL(facts->logs.files + facts->artifacts.files, 0u);
  CAF_CHECK_EQUAL(std::distance(fs::directory_iterator{copy}, {}), 1);
}

CAF_TEST(a target without a name or inside of the data directory is refused before anything is copied) {
  fs::create_directory_symlink(data, directory / "other");
  for (const auto& target :
       {fs::path{}, data / "copy", data / "logs/copy/", data, directory / "other/copy", directory / "x/../data/copy"}) {
    const auto refused = refusal(target);
    CAF_CHECK(refused.code == ec::invalid_setting);
  }
  CAF_CHECK(says(refusal(data / "copy").message, "lies inside of the data directory"));
  CAF_CHECK(!fs::exists(data / "copy.partial") && !fs::exists(data / "copy"));
}

CAF_TEST(what cannot be read is named) {
  hide(artifacts_path(data, 1, 1) / "dist/app");
  CAF_CHECK(says(refusal(copy).message, "cannot read " + (artifacts_path(data, 1, 1) / "dist/app").string() + ": "));
  CAF_CHECK(!fs::exists(copy) && !fs::exists(copy.string() + ".partial"));
  hide(artifacts_path(data, 1, 1) / "dist");
  CAF_CHECK(says(refusal(copy).message, "cannot read " + (artifacts_path(data, 1, 1) / "dist").string() + ": "));
  hide(log_path(data, 1, 1));
  CAF_CHECK(says(refusal(copy).message, "cannot read " + log_path(data, 1, 1).string() + ": Permission denied"));
  hide(data / "kcx.db");
  CAF_CHECK(says(refusal(copy).message, (data / "kcx.db").string() + " cannot be read: Permission denied"));
  hide(data);
  CAF_CHECK(says(refusal(copy).message, "cannot look into " + data.string()));
}

CAF_TEST(a database that may not be read is not called damaged) {
  hide(data / "kcx.db");
  const auto database = found("database");
  CAF_CHECK(database.how == cli::verdict::fail);
  CAF_CHECK(says(database.detail, "cannot be read: Permission denied"));
  CAF_CHECK(says(database.remedy, "Run kcx as "));
}

CAF_TEST(a database that is gone under a node is a failure) {
  CAF_CHECK(found("database").how == cli::verdict::ok);
  fs::remove(data / "kcx.db");
  CAF_CHECK(found("database").how == cli::verdict::warn);
  const int lock = ::open((data / "node.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CAF_REQUIRE(::flock(lock, LOCK_EX) == 0);
  CAF_CHECK(found("database").how == cli::verdict::fail);
  CAF_CHECK(says(found("database").detail, "gone while a node runs"));
}

CAF_TEST(a node that cannot be asked is not called absent) {
  node_answer answer;
  answer.failure = "cannot read node.json";
  answer.not_asked = true;
  CAF_CHECK(says(found("node", answer).detail, "none runs"));
  const int lock = ::open((data / "node.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CAF_REQUIRE(::flock(lock, LOCK_EX) == 0);
  CAF_CHECK(says(found("node", answer).detail, "one runs but cannot be asked: cannot read node.json"));
  answer.not_asked = false;
  CAF_CHECK(says(found("node", answer).detail, "does not answer"));
  hide(data);
  CAF_CHECK(says(found("node", answer).detail, "cannot be seen"));
}

CAF_TEST(a node that is not ready is told with its own words) {
  node_answer answer;
  answer.node = {{"pid", 42}};
  answer.not_ready = "Disk full: 3 MiB are left";
  const auto node = found("node", answer);
  CAF_CHECK(node.how == cli::verdict::warn);
  CAF_CHECK(says(node.detail, "process 42 runs but is not ready: Disk full: 3 MiB are left"));
}

CAF_TEST_FIXTURE_SCOPE_END()
