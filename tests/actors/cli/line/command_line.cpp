#define CAF_SUITE command_line
#include "actors/cli/line/command_line.hpp"

#include "caf/test/unit_test.hpp"

#include <string>
#include <vector>

using namespace kcx;
using namespace kcx::cli;
using namespace std::chrono_literals;

namespace {

using words = std::vector<std::string>;

invocation parsed(const words& arguments) {
  auto what = parse_command_line(arguments);
  if (!what)
    CAF_FAIL("refused: " << what.error().message);
  return *what;
}

bool refused(const words& arguments, const std::string& part) {
  auto what = parse_command_line(arguments);
  std::string message = what ? "accepted" : what.error().message;
  if (message.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in \"" << message << "\"");
  return false;
}

} // namespace

CAF_TEST(the words after the dashes reach the job untouched) {
  const words command{"a", "--json", "[x,y]", "{}", "", "--", "-h", "%%"};
  words arguments{"run", "--name", "n", "--"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  auto what = parsed(arguments);
  CAF_CHECK(what.what == verb::run);
  CAF_CHECK(what.job.argv == command);
  CAF_CHECK(!what.json);
  CAF_CHECK(what.job.name == "n");
}

CAF_TEST(global options may stand before and after the subcommand) {
  for (const auto& arguments :
       {words{"--json", "--data", "/d", "status", "3"}, words{"status", "3", "--json", "--data", "/d"},
        words{"-d", "/d", "status", "--json", "3"}}) {
    auto what = parsed(arguments);
    CAF_CHECK(what.what == verb::status);
    CAF_CHECK(what.json);
    CAF_CHECK_EQUAL(what.where.data, "/d");
    CAF_CHECK(what.ids == std::vector<std::int64_t>{3});
  }
}

CAF_TEST(values that look like lists stay one value) {
  auto what = parsed({"submit", "--shell", "[ -f x ]", "-e", "A=[1,2]", "-e", "B=a,b", "--metadata", "{}", "-l", "x"});
  CAF_CHECK(what.job.shell == "[ -f x ]");
  CAF_CHECK((what.job.env == words{"A=[1,2]", "B=a,b"}));
  CAF_CHECK(what.job.metadata == "{}");
}

CAF_TEST(durations sizes and numbers are read into values) {
  auto what = parsed({"run", "-t", "0.3", "--backoff", "2m", "--log-limit", "64K", "--priority", "-5", "--", "x"});
  CAF_CHECK(what.job.time_limit == 300ms);
  CAF_CHECK(what.job.backoff == 120s);
  CAF_CHECK(what.job.log_limit_bytes == 65'536);
  CAF_CHECK(what.job.priority == -5);
  CAF_CHECK(!what.job.weight);
  CAF_CHECK(parsed({"wait", "1", "2", "--timeout", "5s"}).timeout == 5s);
  CAF_CHECK(parsed({"--patience", "1s", "list"}).patience == 1s);
}

CAF_TEST(every subcommand is known) {
  CAF_CHECK(parsed({"list", "-s", "queued", "-s", "running", "--limit", "7"}).list.states.size() == 2);
  CAF_CHECK(parsed({"logs", "-f", "4"}).log.follow);
  CAF_CHECK(parsed({"logs", "4", "--tail", "0"}).log.tail == 0u);
  CAF_CHECK(parsed({"cancel", "4", "5"}).ids.size() == 2);
  const auto artifacts = parsed({"artifacts", "4", "dist/", "a.txt", "--download", "out"});
  CAF_CHECK(artifacts.ids == std::vector<std::int64_t>{4} && artifacts.artifacts.directory == "out");
  CAF_CHECK((artifacts.artifacts.paths == words{"dist/", "a.txt"}));
  CAF_CHECK((parsed({"artifacts", "4", "a", "--", "-x", "--json"}).artifacts.paths == words{"a", "-x", "--json"}));
  CAF_CHECK(parsed({"artifacts", "--help"}).answer.find("kcx artifacts 12 -- -x.log") != std::string::npos);
  CAF_CHECK(parsed({"node", "status"}).what == verb::node_status);
  CAF_CHECK(parsed({"node", "drain", "--json"}).json);
  CAF_CHECK(parsed({"completion", "zsh"}).shell == "zsh");
}

CAF_TEST(wrong usage is refused with the word that is wrong) {
  CAF_CHECK(refused({}, "subcommand is required"));
  CAF_CHECK(refused({"no-such"}, "no-such"));
  CAF_CHECK(refused({"node"}, "kcx node --help"));
  CAF_CHECK(refused({"status"}, "ID is required"));
  CAF_CHECK(refused({"status", "12x"}, "12x"));
  CAF_CHECK(refused({"status", "0"}, "number of a job"));
  CAF_CHECK(refused({"token", "revoke", "ci"}, "ID: cannot be \"ci\"; allowed is the number of a token"));
  CAF_CHECK(refused({"logs", "1", "2"}, "2"));
  CAF_CHECK(refused({"run", "make", "all"}, "\"all\"; the job's command stands after \"--\""));
  CAF_CHECK(refused({"run", "--"}, "missing"));
  CAF_CHECK(refused({"list", "--", "x"}, "only run and submit"));
  CAF_CHECK(refused({"run", "--time-limit", "soon", "--", "x"}, "soon"));
  CAF_CHECK(refused({"run", "--priority", "high", "--", "x"}, "high"));
  CAF_CHECK(refused({"list", "--limit", "0"}, "1000000"));
  CAF_CHECK(refused({"completion", "tcsh"}, "tcsh"));
  CAF_CHECK(refused({"token", "create", "x", "-s", "read", "--expires-in", "0s"}, "--expires-in: cannot be \"0s\""));
  CAF_CHECK(parsed({"token", "create", "x", "-s", "read", "--expires-in", "1h"}).token.expires_in == 1h);
  CAF_CHECK(refused({"--bogus", "list"}, "--bogus"));
}

CAF_TEST(numbers and filters together are refused) {
  CAF_CHECK(refused({"cancel", "70", "--project", "other"}, "either numbers of jobs or options"));
  CAF_CHECK(refused({"cancel"}, "give numbers of jobs"));
  for (const char* command : {"requeue", "discard"}) {
    CAF_CHECK(refused({"dead-letters", command, "70", "--all"}, "either numbers of jobs or --state, --project"));
    CAF_CHECK(refused({"dead-letters", command, "70", "-q", "x"}, "either numbers"));
    CAF_CHECK(refused({"dead-letters", command}, "--name, --label or --group, or --all"));
    CAF_CHECK(refused({"dead-letters", command, "--all", "--project", "x"}, "either --all or options"));
    CAF_CHECK(parsed({"dead-letters", command, "--all"}).all);
    CAF_CHECK(parsed({"dead-letters", command, "70"}).ids.size() == 1);
  }
}

CAF_TEST(words that are known beforehand are checked here) {
  CAF_CHECK(refused({"run", "--on-conflict", "x", "--", "a"}, "allowed is reject, return or replace"));
  CAF_CHECK(refused({"run", "--keep-workspace", "x", "--", "a"}, "never, on_failure or always"));
  CAF_CHECK(refused({"run", "--supersede", "x", "--", "a"}, "none, queued or running"));
  CAF_CHECK(refused({"run", "--on-interrupt", "x", "--", "a"}, "fail or requeue"));
  CAF_CHECK(refused({"list", "--state", "done"}, "--state: cannot be \"done\""));
  CAF_CHECK(refused({"list", "--state", "failed,"}, "--state: cannot be \"\""));
  CAF_CHECK(
    (parsed({"list", "-s", "failed,timed_out", "-s", "queued"}).list.states == words{"failed", "timed_out", "queued"}));
  CAF_CHECK(parsed({"run", "--on-conflict", "return", "--", "a"}).job.on_conflict == "return");
}

CAF_TEST(the system counts processor time in whole seconds) {
  CAF_CHECK(parsed({"run", "--limit-cpu", "2m", "--", "x"}).job.cpu_s == 120);
  CAF_CHECK(parsed({"run", "--limit-cpu", "10", "--", "x"}).job.cpu_s == 10);
  CAF_CHECK(refused({"run", "--limit-cpu", "1.5", "--", "x"}, "whole seconds"));
  CAF_CHECK(parsed({"run", "--limit-cpus", "1.5", "--", "x"}).job.cpus == 1.5);
  for (const char* wrong : {"0", "1025", "nan", "two", "1.5x"})
    CAF_CHECK(refused({"run", "--limit-cpus", wrong, "--", "x"}, "from 0.01 to 1024"));
}

CAF_TEST(what would do nothing or go astray is refused) {
  CAF_CHECK(refused({"change", "1"}, "--priority, --run-at or --label"));
  for (const words& each : {words{"pause", ""}, words{"resume", ""}, words{"cordon", ""}, words{"node", "backup", ""},
                            words{"token", "create", "", "-s", "read"}})
    CAF_CHECK(refused(each, "cannot be \"\""));
}

CAF_TEST(help of a subcommand tells its own options) {
  CAF_CHECK(parsed({"--help"}).answer.find("completion") != std::string::npos);
  CAF_CHECK(parsed({"run", "--help"}).answer.find("--max-attempts") != std::string::npos);
  CAF_CHECK(parsed({"node", "drain", "--help"}).answer.find("Take no new jobs") != std::string::npos);
  for (const char* command : {"run", "submit"})
    CAF_CHECK(parsed({command, "--help"}).answer.find(" [FILE] [-- COMMAND...]\n") != std::string::npos);
  CAF_CHECK(parsed({"status", "--help"}).answer.find("COMMAND...") == std::string::npos);
  CAF_CHECK(refused({"no-such", "--help"}, "\"no-such\""));
  CAF_CHECK(refused({"node", "no-such", "--help"}, "\"no-such\""));
  CAF_CHECK(parsed({"--version"}).answer == "kcx " KCX_VERSION "\n");
}

CAF_TEST(control characters of an argument are told and not carried out) {
  CAF_CHECK(refused({"list", "--bad\x1b[2J"}, "\"--bad\\x1b[2J\""));
  CAF_CHECK(refused({"list", "--state", "a\x1b[2J"}, "\"a\\x1b[2J\""));
}
