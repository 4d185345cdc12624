#define CAF_SUITE job_document
#include "actors/cli/jobs/submission.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <cstdlib>
#include <sstream>
#include <string>

using namespace kcx;
using namespace kcx::cli;
using namespace kcx::test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

json document_of(const job_flags& flags, const std::string& input = "") {
  std::istringstream in{input};
  auto made = read_submission(flags, in);
  if (!made)
    return "refused: " + made.error().message;
  return made->document;
}

bool refused(const job_flags& flags, const std::string& part, const std::string& input = "") {
  auto document = document_of(flags, input);
  if (document.is_string() && document.get<std::string>().find(part) != std::string::npos)
    return true;
  CAF_MESSAGE(document.dump() << " is no refusal that says " << part);
  return false;
}

} // namespace

CAF_TEST(a command becomes a document with nothing but what was said) {
  job_flags flags;
  flags.argv = {"make", "[a,b]", "{}", "", "--", "x y"};
  CAF_CHECK_EQUAL(document_of(flags), (json{{"command", {"make", "[a,b]", "{}", "", "--", "x y"}}}));
  flags.argv.clear();
  flags.shell = "a && b";
  CAF_CHECK_EQUAL(document_of(flags), (json{{"command", "a && b"}}));
}

CAF_TEST(every flag has its field) {
  job_flags flags;
  flags.argv = {"x"};
  flags.name = "n";
  flags.project = "p";
  flags.queue = "q";
  flags.labels = {"a", "b"};
  flags.env = {"A=1", "B=x=y", "C="};
  flags.metadata = R"({"k":[1]})";
  flags.working_dir = "/w";
  flags.keep_workspace = "always";
  flags.on_interrupt = "requeue";
  flags.user = "ci";
  flags.memory_bytes = 1024;
  flags.cpu_s = 90;
  flags.open_files = 10;
  flags.processes = 20;
  flags.file_bytes = 30;
  flags.run_at = "2026-01-31T12:00:00Z";
  flags.unique_key = "k";
  flags.group = "g";
  flags.group_limit = 2;
  flags.supersede = "queued";
  flags.needs = {"12", "13:always"};
  flags.on_conflict = "replace";
  flags.retry_on = {"exit_code"};
  flags.artifacts = {"dist", "*.xml"};
  flags.webhook = "https://ci.example.org/hook";
  flags.priority = -3;
  flags.weight = 2;
  flags.max_attempts = 4;
  flags.max_interrupts = 5;
  flags.log_limit_bytes = 4096;
  flags.time_limit = 300ms;
  flags.no_output_limit = 2s;
  flags.wait_limit = 60s;
  flags.cancel_grace = 0ms;
  flags.backoff = 1500ms;
  CAF_CHECK_EQUAL(
    document_of(flags),
    (json{
      {"command", {"x"}},
      {"name", "n"},
      {"project", "p"},
      {"queue", "q"},
      {"labels", {"a", "b"}},
      {"env", {{"A", "1"}, {"B", "x=y"}, {"C", ""}}},
      {"metadata", {{"k", {1}}}},
      {"working_dir", "/w"},
      {"keep_workspace", "always"},
      {"on_interrupt", "requeue"},
      {"user", "ci"},
      {"limits", {{"memory_bytes", 1024}, {"cpu_s", 90}, {"open_files", 10}, {"processes", 20}, {"file_bytes", 30}}},
      {"run_at", "2026-01-31T12:00:00Z"},
      {"unique_key", "k"},
      {"group", "g"},
      {"group_limit", 2},
      {"supersede", "queued"},
      {"needs", {{{"id", 12}, {"if", "success"}}, {{"id", 13}, {"if", "always"}}}},
      {"on_conflict", "replace"},
      {"retry_on", {"exit_code"}},
      {"artifacts", {"dist", "*.xml"}},
      {"webhook", {{"url", "https://ci.example.org/hook"}}},
      {"priority", -3},
      {"weight", 2},
      {"max_attempts", 4},
      {"max_interrupts", 5},
      {"log_limit_bytes", 4096},
      {"time_limit_s", 0.3},
      {"no_output_limit_s", 2.0},
      {"wait_limit_s", 60.0},
      {"cancel_grace_s", 0.0},
      {"backoff_s", 1.5}}));
}

CAF_TEST(a file is read and flags win over it) {
  temp_dir dir;
  write_file(dir / "job.json", R"({"name":"old","steps":[{"command":"a"}],"env":{"A":"0","K":"kept"}})");
  job_flags flags;
  flags.file = dir / "job.json";
  flags.name = "new";
  flags.env = {"A=1"};
  auto document = document_of(flags);
  CAF_CHECK_EQUAL(document["name"], "new");
  CAF_CHECK_EQUAL(document["env"], (json{{"A", "1"}, {"K", "kept"}}));
  CAF_CHECK(document.contains("steps"));
  flags.argv = {"b"};
  document = document_of(flags);
  CAF_CHECK(!document.contains("steps"));
  CAF_CHECK_EQUAL(document["command"], (json{"b"}));
}

CAF_TEST(standard input can hold the job) {
  job_flags flags;
  flags.file = "-";
  CAF_CHECK_EQUAL(document_of(flags, R"({"command":"x"})"), (json{{"command", "x"}}));
  CAF_CHECK(refused(flags, "standard input is no JSON", "{"));
  CAF_CHECK(refused(flags, "neither a job", "3"));
}

CAF_TEST(flags win in each job of an array but not those that can be of one only) {
  job_flags flags;
  flags.file = "-";
  const std::string two = R"([{"command":"a"},{"command":"b"}])";
  CAF_CHECK_EQUAL(document_of(flags, two).size(), 2u);
  flags.priority = 3;
  CAF_CHECK_EQUAL(document_of(flags, two),
                  (json{{{"command", "a"}, {"priority", 3}}, {{"command", "b"}, {"priority", 3}}}));
  flags.name = "n";
  CAF_CHECK(refused(flags, "of one only", two));
  flags = {};
  flags.file = "-";
  flags.argv = {"make"};
  CAF_CHECK(refused(flags, "of one only", two));
}

CAF_TEST(what cannot be a job is refused with a reason) {
  CAF_CHECK(refused({}, "after \"--\""));
  job_flags both;
  both.argv = {"a"};
  both.shell = "b";
  CAF_CHECK(refused(both, "both"));
  job_flags missing;
  missing.file = "/no/such/file";
  CAF_CHECK(refused(missing, "No such file"));
  job_flags folder;
  folder.file = "/";
  CAF_CHECK(refused(folder, "cannot read the job file /"));
  job_flags metadata;
  metadata.argv = {"a"};
  metadata.metadata = "[1]";
  CAF_CHECK(refused(metadata, "--metadata"));
  job_flags bytes;
  bytes.argv = {"\xff"};
  CAF_CHECK(refused(bytes, "UTF-8"));
}

CAF_TEST(a variable without a value takes the one of the environment) {
  ::setenv("KCX_TEST_PRESENT", "here", 1);
  ::unsetenv("KCX_TEST_ABSENT");
  job_flags flags;
  flags.argv = {"x"};
  flags.env = {"KCX_TEST_PRESENT"};
  CAF_CHECK_EQUAL(document_of(flags).at("env").dump(), (json{{"KCX_TEST_PRESENT", "here"}}.dump()));
  flags.env = {"KCX_TEST_ABSENT"};
  CAF_CHECK(refused(flags, "KCX_TEST_ABSENT"));
  for (const char* word : {"=x", "1A=x", "A B=x", ""}) {
    flags.env = {word};
    CAF_CHECK(refused(flags, "KEY=VALUE"));
  }
}

CAF_TEST(an environment file is read line by line and flags win over it) {
  temp_dir dir;
  write_file(dir / "env", "# comment\n\n  A=1\nexport B= two words \nC=\"quoted\"\r\nD=x=y#z\n");
  job_flags flags;
  flags.argv = {"x"};
  flags.env_files = {dir / "env"};
  flags.env = {"A=9"};
  CAF_CHECK_EQUAL(document_of(flags).at("env").dump(),
                  (json{{"A", "9"}, {"B", " two words "}, {"C", "\"quoted\""}, {"D", "x=y#z"}}.dump()));
  write_file(dir / "env", "A=1\nnonsense\n");
  CAF_CHECK(refused(flags, "env:2"));
  flags.env_files = {dir / "none"};
  CAF_CHECK(refused(flags, "No such file"));
}

CAF_TEST(a need that is no number of a job is refused) {
  job_flags flags;
  flags.argv = {"x"};
  flags.needs = {"twelve"};
  CAF_CHECK(refused(flags, "--need"));
  flags.needs = {"0"};
  CAF_CHECK(refused(flags, "--need"));
  flags.needs = {"12:sometimes"};
  CAF_CHECK(refused(flags, "success, failure or always"));
}

CAF_TEST(secrets come from the environment or from files and never from the command line) {
  temp_dir dir;
  write_file(dir / "token", "two lines\nof it\n");
  ::setenv("KCX_TEST_SECRET", "s3cret", 1);
  ::unsetenv("KCX_TEST_ABSENT");
  job_flags flags;
  flags.argv = {"x"};
  flags.secrets = {"KCX_TEST_SECRET"};
  flags.secret_files = {"TOKEN=" + (dir / "token").string(), "PIPED=-"};
  CAF_CHECK_EQUAL(document_of(flags, "piped\n").at("secrets").dump(),
                  (json{{"KCX_TEST_SECRET", "s3cret"}, {"TOKEN", "two lines\nof it"}, {"PIPED", "piped"}}.dump()));
  flags.secret_files = {"TOKEN"};
  CAF_CHECK(refused(flags, "NAME=FILE"));
  flags.secret_files = {"TOKEN=/no/such/file"};
  CAF_CHECK(refused(flags, "No such file"));
  flags.secret_files = {"TOKEN=-"};
  CAF_CHECK(refused(flags, "holds no secret"));
  flags.secret_files.clear();
  flags.secrets = {"KCX_TEST_ABSENT"};
  CAF_CHECK(refused(flags, "KCX_TEST_ABSENT"));
}

CAF_TEST(bytes that are no text are refused with the file they are in) {
  temp_dir dir;
  write_file(dir / "secret", "\xff\xfe");
  write_file(dir / "env", "A=1\nB=\xff\n");
  ::setenv("KCX_TEST_BYTES", "\xff", 1);
  job_flags flags;
  flags.argv = {"x"};
  flags.secret_files = {"A=" + (dir / "secret").string()};
  CAF_CHECK(refused(flags, (dir / "secret").string() + " holds bytes that are no UTF-8 text"));
  flags.secret_files.clear();
  flags.secrets = {"KCX_TEST_BYTES"};
  CAF_CHECK(refused(flags, "option --secret KCX_TEST_BYTES: its value is no UTF-8 text"));
  flags.secrets.clear();
  flags.env_files = {(dir / "env").string()};
  CAF_CHECK(refused(flags, "env:2: no UTF-8 text"));
}

CAF_TEST(what is shown of a submission hides its secrets) {
  ::setenv("KCX_TEST_SECRET", "s3cret", 1);
  job_flags flags;
  flags.argv = {"x"};
  flags.secrets = {"KCX_TEST_SECRET"};
  std::istringstream in;
  const auto made = read_submission(flags, in);
  CAF_REQUIRE(made.has_value());
  const auto shown = made->shown();
  CAF_CHECK_EQUAL(shown.at("secrets").at("KCX_TEST_SECRET"), "(hidden)");
  CAF_CHECK_EQUAL(made->document.at("secrets").at("KCX_TEST_SECRET"), "s3cret");
}
