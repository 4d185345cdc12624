#define CAF_SUITE artifacts
#include "actors/runner/output_file.hpp"
#include "actors/runner/path_patterns.hpp"
#include "actors/runner/tree_copy.hpp"
#include "actors/runner/workspace.hpp"
#include "caf/test/unit_test.hpp"
#include "storage/artifact_path.hpp"
#include "storage/job_outputs.hpp"
#include "tests/actors/runner/support.hpp"

#include <filesystem>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace kcx;
using namespace kcx::test;
namespace fs = std::filesystem;

namespace {

void make_file(const fs::path& path, const std::string& text = "x") {
  fs::create_directories(path.parent_path());
  write_file(path, text);
}

/// The files below a directory, sorted, each followed by a blank.
std::string files_in(const fs::path& root) {
  std::vector<std::string> names;
  if (fs::exists(root))
    for (const auto& each : fs::recursive_directory_iterator{root})
      if (!each.is_directory())
        names.push_back(fs::relative(each.path(), root).string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names)
    text += name + ' ';
  return text;
}

struct trees {
  temp_dir dir;
  fs::path from = dir / "from";
  fs::path to = dir / "made/to";

  trees() { fs::create_directory(from); }

  copy_report copy(std::vector<std::string> patterns, const std::function<void(copy_order&)>& change = {}) {
    copy_order order;
    order.from = from;
    order.to = to;
    order.patterns = std::move(patterns);
    if (change)
      change(order);
    tree_copy work{order};
    while (work.step()) {
    }
    return work.report();
  }

  std::string kept(std::vector<std::string> patterns) {
    fs::remove_all(to);
    copy(std::move(patterns));
    return files_in(to);
  }
};

} // namespace

// -- globs ------------------------------------------------------------------------------------------------------------

CAF_TEST(globs choose files as a shell would and a directory means all that is in it) {
  trees t;
  for (const auto* name : {"a.txt", "b.log", ".hidden", "dist/app", "dist/lib/x.so", "dist/.env", "src/m/n/deep.txt"})
    make_file(t.from / name);
  CAF_CHECK_EQUAL(t.kept({"*.txt"}), "a.txt ");
  CAF_CHECK_EQUAL(t.kept({"*"}), "a.txt b.log dist/.env dist/app dist/lib/x.so src/m/n/deep.txt ");
  CAF_CHECK_EQUAL(t.kept({".hidden", "[ab].*"}), ".hidden a.txt b.log ");
  CAF_CHECK_EQUAL(t.kept({"dist"}), "dist/.env dist/app dist/lib/x.so ");
  CAF_CHECK_EQUAL(t.kept({"./dist/"}), "dist/.env dist/app dist/lib/x.so ");
  CAF_CHECK_EQUAL(t.kept({"dist/*/*.so"}), "dist/lib/x.so ");
  CAF_CHECK_EQUAL(t.kept({"**/*.txt"}), "a.txt src/m/n/deep.txt ");
  CAF_CHECK_EQUAL(t.kept({"src/**/deep.txt"}), "src/m/n/deep.txt ");
  CAF_CHECK_EQUAL(t.kept({"dist/**"}), "dist/app dist/lib/x.so ");
  CAF_CHECK_EQUAL(t.kept({"?.log"}), "b.log ");
}

CAF_TEST(globs that match nothing are told) {
  trees t;
  make_file(t.from / "a.txt");
  const auto report = t.copy({"a.*", "*.xml", "no/such/dir/**"});
  CAF_CHECK_EQUAL(report.files, 1u);
  CAF_CHECK((report.unmatched == std::vector<std::string>{"*.xml", "no/such/dir/**"}));
  CAF_CHECK(!report.failure && report.cut.empty());
}

// -- copying ----------------------------------------------------------------------------------------------------------

CAF_TEST(links and special files are never copied or followed) {
  trees t;
  make_file(t.dir / "secret", "of others");
  make_file(t.dir / "others/file");
  fs::create_symlink("../secret", t.from / "link");
  fs::create_directory_symlink("../others", t.from / "folder");
  CAF_REQUIRE_EQUAL(::mkfifo((t.from / "pipe").c_str(), 0600), 0);
  make_file(t.from / "real");
  const auto report = t.copy({"**", "folder/*"});
  CAF_CHECK_EQUAL(files_in(t.to), "real ");
  CAF_CHECK_EQUAL(report.left_out, 3u);
  CAF_CHECK_EQUAL(report.first_left_out, "folder: a symbolic link");
}

CAF_TEST(contents and times are kept and whether a file can be executed) {
  trees t;
  const std::string large(9U << 20, 'q');
  make_file(t.from / "large", large);
  make_file(t.from / "tool", "#!/bin/sh\n");
  make_file(t.from / "empty", "");
  fs::permissions(t.from / "tool", fs::perms{0755});
  const timespec times[2] = {{1'000, 0}, {1'000, 5'000'000}};
  CAF_REQUIRE_EQUAL(::utimensat(AT_FDCWD, (t.from / "tool").c_str(), times, 0), 0);
  const auto report = t.copy({"*"}, [](copy_order& order) { order.sync = true; });
  CAF_CHECK_EQUAL(report.files, 3u);
  CAF_CHECK_EQUAL(report.bytes, large.size() + 10);
  CAF_CHECK(read_file(t.to / "large") == large);
  CAF_CHECK_EQUAL(read_file(t.to / "empty"), "");
  struct stat about {};
  CAF_REQUIRE_EQUAL(::stat((t.to / "tool").c_str(), &about), 0);
  CAF_CHECK_EQUAL(about.st_mode & 07777U, 0700u);
  CAF_CHECK_EQUAL(about.st_mtim.tv_sec, 1'000);
}

CAF_TEST(a large file is copied in pieces) {
  trees t;
  make_file(t.from / "large", std::string(9U << 20, 'q'));
  copy_order order;
  order.from = t.from;
  order.to = t.to;
  tree_copy work{order};
  auto steps = 1;
  while (work.step())
    ++steps;
  CAF_CHECK_GREATER(steps, 3);
}

CAF_TEST(what does not fit is left out and told) {
  trees t;
  make_file(t.from / "a", std::string(100, 'a'));
  make_file(t.from / "b", std::string(1'000, 'b'));
  make_file(t.from / "c", std::string(100, 'c'));
  const auto bytes = t.copy({"*"}, [](copy_order& order) { order.most_bytes = 500; });
  CAF_CHECK_EQUAL(files_in(t.to), "a c ");
  CAF_CHECK_EQUAL(bytes.cut, "b with 1000 bytes would pass the limit of 500 bytes");
  const auto number = t.copy({"*"}, [](copy_order& order) { order.most_files = 2; });
  CAF_CHECK_EQUAL(number.cut, "only 2 files are kept");
  const auto room = t.copy({"*"}, [](copy_order& order) { order.reserve_bytes = std::uint64_t{1} << 62; });
  CAF_CHECK_EQUAL(room.files, 0u);
  CAF_CHECK_EQUAL(room.cut,
                  "cannot copy a: the disk has no room besides the 4611686018427387904 bytes that the option min-free "
                  "keeps for the database");
  CAF_CHECK_EQUAL(files_in(t.to), "");
}

CAF_TEST(a filled workspace has the later file and one that cannot be copied fails it) {
  trees t;
  make_file(t.from / "sub/a", "new");
  make_file(t.to / "sub/a", "old");
  const auto fill = [](copy_order& order) { order.fills_workspace = true; };
  CAF_CHECK(!t.copy({}, fill).failure);
  CAF_CHECK_EQUAL(read_file(t.to / "sub/a"), "new");
  fs::remove(t.to / "sub/a");
  fs::create_directories(t.to / "sub/a");
  const auto report = t.copy({}, fill);
  CAF_REQUIRE(report.failure.has_value());
  CAF_CHECK(report.failure->message.find("sub/a") != std::string::npos);
}

CAF_TEST(files that the account of the job could not read are left out) {
  trees t;
  make_file(t.from / "open");
  make_file(t.from / "closed");
  make_file(t.from / "folder/file");
  fs::permissions(t.from / "open", fs::perms{0644});
  fs::permissions(t.from / "closed", fs::perms{0600});
  fs::permissions(t.from / "folder", fs::perms{0700});
  const auto report = t.copy({"*"}, [](copy_order& order) { order.reader = ::getuid() + 1; });
  CAF_CHECK_EQUAL(files_in(t.to), "open ");
  CAF_CHECK_EQUAL(report.left_out, 2u);
}

// -- outputs ----------------------------------------------------------------------------------------------------------

CAF_TEST(output lines become values and wrong ones are named) {
  const auto read =
    parse_outputs(std::string{} + "version=1.2\r\n\nempty=\nurl=a=b\n no=1\nword\nversion=1.3\nbad=\xff\n9=x" +
                  std::string{"\nnul=a\0b", 8});
  CAF_CHECK_EQUAL(read.values.size(), 3u);
  CAF_CHECK_EQUAL(read.values.at("version"), "1.3");
  CAF_CHECK_EQUAL(read.values.at("empty"), "");
  CAF_CHECK_EQUAL(read.values.at("url"), "a=b");
  CAF_REQUIRE_EQUAL(read.complaints.size(), 5u);
  CAF_CHECK_EQUAL(read.complaints[0],
                  "KCX_OUTPUT line 5 has no valid key: letters, digits and '_', not beginning with a digit");
  CAF_CHECK_EQUAL(read.complaints[1], "KCX_OUTPUT line 6 is not key=value");
  CAF_CHECK_EQUAL(read.complaints[2], "KCX_OUTPUT line 8 has a value that is not UTF-8");
  CAF_CHECK_EQUAL(read.complaints[4],
                  "KCX_OUTPUT line 10 has a value with a NUL character, which no variable can hold");
}

CAF_TEST(outputs are bounded) {
  std::string many;
  for (int i = 0; i < 120; ++i)
    many += "key" + std::to_string(i) + "=1\n";
  const auto read = parse_outputs(many);
  CAF_CHECK_EQUAL(read.values.size(), output_keys);
  CAF_CHECK_EQUAL(read.complaints.size(), 11u);
  CAF_CHECK_EQUAL(read.complaints.back(), "KCX_OUTPUT has 10 more such lines");
  temp_dir dir;
  write_file(dir / "out", std::string(output_bytes + 1, 'a'));
  const auto large = take_output_file(dir / "out");
  CAF_CHECK(large.values.empty() && large.complaints.size() == 1);
  CAF_CHECK(!fs::exists(dir / "out"));
}

CAF_TEST(what a job put in the place of its output file is not followed) {
  temp_dir dir;
  write_file(dir / "other", "key=value\n");
  fs::create_symlink(dir / "other", dir / "out");
  const auto read = take_output_file(dir / "out");
  CAF_CHECK(read.values.empty() && read.complaints.size() == 1);
  CAF_CHECK(fs::exists(dir / "other") && !fs::exists(fs::symlink_status(dir / "out")));
  CAF_CHECK(take_output_file(dir / "out").complaints.empty()); // it is gone: no outputs, no complaint
}

// -- in a run ---------------------------------------------------------------------------------------------------------

CAF_TEST(a job keeps its artifacts and outputs and its workspace goes) {
  slot s;
  auto job = s.job("mkdir dist; echo app > dist/app; echo n=1 >> $KCX_OUTPUT; echo 'nonsense' >> $KCX_OUTPUT; exit 3");
  job.artifacts = {"dist/*", "*.xml"};
  job.artifacts_dir = s.data / "artifacts/1-1";
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(end.exit_code.value_or(0), 3);
  CAF_CHECK((end.artifacts == artifact_summary{1, 4, false}));
  CAF_CHECK((end.outputs == job_outputs{{"n", "1"}}));
  CAF_CHECK_EQUAL(read_file(s.data / "artifacts/1-1/dist/app"), "app\n");
  CAF_CHECK(!fs::exists(job.workspace) && !fs::exists(output_path(job.workspace)));
  const auto log = s.log(job);
  CAF_CHECK(log.find("kcx: KCX_OUTPUT line 2 is not key=value\n") != std::string::npos);
  CAF_CHECK(log.find("kcx: artifacts: nothing in the workspace matches \"*.xml\"\n") != std::string::npos);
}

CAF_TEST(an output that holds a secret is left out) {
  slot s;
  auto job = s.job("echo token=$TOKEN >> $KCX_OUTPUT; echo other=fine >> $KCX_OUTPUT");
  job.env["TOKEN"] = "a-very-secret-token";
  job.secrets = {"a-very-secret-token"};
  const auto end = s.run(job);
  CAF_CHECK((end.outputs == job_outputs{{"other", "fine"}}));
  CAF_CHECK(s.log(job).find("kcx: the output \"token\" holds a secret and is left out\n") != std::string::npos);
}

CAF_TEST(an output whose key holds a secret is left out) {
  slot s;
  auto job = s.job("echo hunter22=1 > $KCX_OUTPUT; echo x_hunter22=1 >> $KCX_OUTPUT; echo us=er:pw >> $KCX_OUTPUT");
  job.secrets = {"hunter22", "us=er:pw"};
  const auto end = s.run(job);
  CAF_CHECK(end.outputs.empty());
  const auto log = s.log(job);
  CAF_CHECK_EQUAL(log.find("hunter22"), std::string::npos);
  CAF_CHECK_NOT_EQUAL(log.find("the output \"x_***\" holds a secret and is left out"), std::string::npos);
  CAF_CHECK_NOT_EQUAL(log.find("the output \"us\" holds a secret and is left out"), std::string::npos);
}

CAF_TEST(an artifact whose path holds a secret is left out) {
  slot s;
  auto job = s.job("mkdir -p hunter22/deep; echo a > hunter22/deep/file; echo a > x-hunter22; echo a > plain");
  job.secrets = {"hunter22"};
  job.artifacts = {"*"};
  job.artifacts_dir = s.data / "artifacts/1-1";
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(end.artifacts.files, 1);
  CAF_CHECK(!end.artifacts.cut);
  CAF_CHECK_EQUAL(files_in(job.artifacts_dir), "plain ");
  CAF_CHECK_EQUAL(s.log(job), "kcx: artifacts: 2 left out, the first: ***/deep/file: its path holds a secret\n");
}

CAF_TEST(a directory in the place of the outputs goes with the workspace) {
  slot s;
  auto job = s.job("rm $KCX_OUTPUT; mkdir -p $KCX_OUTPUT/a; touch $KCX_OUTPUT/a/b");
  job.keep_workspace = keep_policy::always;
  const auto end = s.run(job);
  CAF_CHECK(end.outputs.empty());
  CAF_CHECK(end.workspace_kept);
  CAF_CHECK(!std::filesystem::exists(job.workspace + ".out"));
}

CAF_TEST(artifacts of needed jobs are in the workspace before the first step) {
  slot s;
  make_file(s.data / "artifacts/5-1/dist/app", "app\n");
  make_file(s.data / "artifacts/6-1/dist/lib", "lib\n");
  auto job = s.job("cat dist/app dist/lib");
  job.fetch = {{{5}, s.data / "artifacts/5-1", {}}, {{7}, {}, {}}, {{6}, s.data / "artifacts/6-1", {}}};
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 0);
  CAF_CHECK_EQUAL(s.output(job), "app\nlib\n");
  CAF_CHECK(s.log(job).find("kcx: job 7 kept no artifacts\n") != std::string::npos);
}

CAF_TEST(a job whose needs have lost their artifacts does not start) {
  slot s;
  auto job = s.job("true");
  job.fetch = {{{5}, {}, "the artifacts of job 5 are gone"}};
  auto end = s.run(job);
  CAF_CHECK_EQUAL(std::string{to_string(end.outcome)}, "spawn_failed");
  CAF_CHECK_EQUAL(end.message, "the artifacts of job 5 are gone");
  job = s.job("true");
  job.fetch = {{{5}, s.data / "artifacts/5-1", {}}};
  end = s.run(job);
  CAF_CHECK_EQUAL(std::string{to_string(end.outcome)}, "spawn_failed");
  CAF_CHECK(end.message.find("artifacts of job 5 cannot be put into the workspace") != std::string::npos);
  CAF_CHECK(!fs::exists(job.workspace));
}
