#define CAF_SUITE runner_outcomes
#include "caf/test/unit_test.hpp"
#include "storage/log_reader.hpp"
#include "tests/actors/runner/support.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using namespace kcx;
using kcx::test::slot;

namespace {

std::string name(run_outcome outcome) {
  return std::string{to_string(outcome)};
}

std::vector<std::string> states(const finished_event& end) {
  std::vector<std::string> found;
  for (const auto& step : end.steps) {
    switch (step.state) {
    case step_state::pending: found.push_back("pending"); break;
    case step_state::running: found.push_back("running"); break;
    case step_state::succeeded: found.push_back("succeeded"); break;
    case step_state::failed: found.push_back("failed"); break;
    case step_state::timed_out: found.push_back("timed_out"); break;
    case step_state::cancelled: found.push_back("cancelled"); break;
    case step_state::interrupted: found.push_back("interrupted"); break;
    case step_state::skipped: found.push_back("skipped"); break;
    }
  }
  return found;
}

using words = std::vector<std::string>;

} // namespace

CAF_TEST(a job that exits 0 succeeds and leaves its output in the log) {
  slot s;
  auto job = s.job("echo out; echo err >&2; printf 'no newline'");
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 0);
  CAF_CHECK(!end.signal);
  CAF_CHECK_EQUAL(s.log(job).size(), std::string{"out\nerr\nno newline"}.size());
  CAF_CHECK_EQUAL(end.log.bytes, s.log(job).size());
  CAF_CHECK(end.started_at.has_value());
  CAF_CHECK(end.finished_at >= *end.started_at);
}

CAF_TEST(exit code and signal are told apart) {
  slot s;
  auto end = s.run(s.job("exit 3"));
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 3);

  end = s.run(s.job("exit 137"));
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 137);
  CAF_CHECK(!end.signal);

  end = s.run(s.job("kill -SEGV $$"));
  CAF_CHECK_EQUAL(name(end.outcome), "signalled");
  CAF_CHECK_EQUAL(end.signal.value_or(-1), SIGSEGV);
  CAF_CHECK(!end.exit_code);

  end = s.run(s.job("kill -KILL $$"));
  CAF_CHECK_EQUAL(name(end.outcome), "signalled");
  CAF_CHECK_EQUAL(end.signal.value_or(-1), SIGKILL);
}

CAF_TEST(what cannot be started fails with the systems words and the runner lives on) {
  slot s;
  auto job = s.job("true");
  job.steps[0].argv = {"kcx-no-such-program"};
  auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "spawn_failed");
  CAF_CHECK_NOT_EQUAL(end.message.find("No such file or directory"), std::string::npos);
  CAF_CHECK_NOT_EQUAL(end.message.find("kcx-no-such-program"), std::string::npos);
  CAF_CHECK(!end.exit_code);
  CAF_CHECK_NOT_EQUAL(s.log(job).find("No such file or directory"), std::string::npos);

  job = s.job("true");
  job.working_dir = "/no/such/directory";
  end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "spawn_failed");
  CAF_CHECK_NOT_EQUAL(end.message.find("working directory \"/no/such/directory\""), std::string::npos);

  const auto script = (s.data / "script").string();
  test::write_file(script, "#!/bin/sh\nexit 0\n");
  job = s.job("true");
  job.steps[0].argv = {script};
  end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "spawn_failed");
  CAF_CHECK_NOT_EQUAL(end.message.find("Permission denied"), std::string::npos);

  CAF_CHECK_EQUAL(name(s.run(s.job("true")).outcome), "exited");
}

CAF_TEST(a command that the shell does not find is an exit code of 127) {
  slot s;
  const auto end = s.run(s.job("kcx-no-such-program"));
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 127);
}

CAF_TEST(an attempt whose log exists already does not run) {
  slot s;
  auto job = s.job("touch " + (s.data / "ran").string());
  std::filesystem::create_directories(std::filesystem::path{job.log_file}.parent_path());
  test::write_file(job.log_file, "old");
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "spawn_failed");
  CAF_CHECK_NOT_EQUAL(end.message.find("exists already"), std::string::npos);
  CAF_CHECK(!std::filesystem::exists(s.data / "ran"));
  CAF_CHECK_EQUAL(test::read_file(job.log_file), "old");
}

CAF_TEST(standard input is empty) {
  slot s;
  auto job = s.job("cat; echo done");
  CAF_CHECK_EQUAL(s.run(job).exit_code.value_or(-1), 0);
  CAF_CHECK_EQUAL(s.log(job), "done\n");
}

CAF_TEST(a job sees its own environment and nothing of the node) {
  ::setenv("SECRET_X", "1", 1);
  slot s;
  auto job = s.job("env | cut -d= -f1 | sort | grep -v -e '^PWD$' -e '^_$' -e '^SHLVL$' | tr '\\n' ' '");
  job.env["MINE"] = "yes";
  s.run(job);
  CAF_CHECK_EQUAL(s.log(job),
                  "CI HOME KCX_ATTEMPT KCX_JOB_ID KCX_JOB_NAME KCX_NODE_ID KCX_OUTPUT KCX_PROJECT KCX_QUEUE KCX_STEP "
                  "KCX_STEP_INDEX KCX_WORKSPACE LANG MINE PATH ");
}

CAF_TEST(a job has default signals and an own session and no descriptor above 2) {
  slot s;
  auto job =
    s.job("ls /proc/self/fd | tr '\\n' ' '; grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2 | tr '\\n' ' ';"
          "umask; [ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo leader");
  s.run(job);
  // 3 is the directory that ls itself reads.
  CAF_CHECK_EQUAL(s.log(job), "0 1 2 3 0000000000000000 0000000000000000 0022\nleader\n");
}

CAF_TEST(each attempt gets a fresh private workspace that goes away again) {
  slot s;
  auto job = s.job("pwd; stat -c %a .; mkdir -p a/b; touch a/b/c; chmod 000 a; ln -s / root");
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(s.log(job), job.workspace + "\n700\n");
  CAF_CHECK_EQUAL(end.workspace_error, "");
  CAF_CHECK(!end.workspace_kept);
  CAF_CHECK(!std::filesystem::exists(job.workspace));

  job = s.job("touch kept; exit 1");
  job.keep_workspace = keep_policy::on_failure;
  CAF_CHECK(s.run(job).workspace_kept);
  CAF_CHECK(std::filesystem::exists(job.workspace + "/kept"));

  job = s.job("true");
  job.keep_workspace = keep_policy::on_failure;
  CAF_CHECK(!s.run(job).workspace_kept);
  CAF_CHECK(!std::filesystem::exists(job.workspace));
}

CAF_TEST(10 MB on both streams arrive whole) {
  slot s;
  auto job = s.job("head -c 10000000 /dev/zero | tr '\\0' e >&2 & head -c 10000000 /dev/zero | tr '\\0' o; wait");
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(end.log.bytes, 20'000'000u);
  CAF_CHECK(!end.log.cut);
  const auto text = s.log(job);
  CAF_CHECK_EQUAL(std::count(text.begin(), text.end(), 'o'), 10'000'000);
  CAF_CHECK_EQUAL(std::count(text.begin(), text.end(), 'e'), 10'000'000);
}

CAF_TEST(a log passes its limit with its begin and end kept) {
  slot s;
  auto job = s.job("seq 1 200000");
  job.log_limit_bytes = 64 << 10;
  const auto end = s.run(job);
  CAF_CHECK(end.log.cut);
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  const auto text = s.log(job);
  CAF_CHECK_LESS(text.size(), std::size_t{66 << 10});
  CAF_CHECK_EQUAL(text.substr(0, 6), "1\n2\n3\n");
  CAF_CHECK_NOT_EQUAL(text.find("\n200000\nkcx: the log passed its limit of 65536 bytes"), std::string::npos);
}

CAF_TEST(a time limit ends the job and is told in the log) {
  slot s;
  auto job = s.job("seq 1 100000; sleep 99");
  job.time_limit = milliseconds{300};
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "time_limit");
  CAF_CHECK_EQUAL(states(end), words{"timed_out"});
  CAF_CHECK(end.duration >= milliseconds{300});
  CAF_CHECK_NOT_EQUAL(s.log(job).find("\n100000\nkcx: the time limit of 0.3 s is reached, ending the job\n"),
                      std::string::npos);
  CAF_CHECK(test::marked("KCX_WORKSPACE=" + job.workspace).empty());
}

CAF_TEST(silence beyond the no output limit ends the job) {
  slot s;
  auto job = s.job("for i in 1 2 3 4; do echo $i; sleep 0.1; done; sleep 99");
  job.no_output_limit = milliseconds{300};
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "no_output");
  CAF_CHECK_EQUAL(s.output(job), "1\n2\n3\n4\n");
}

CAF_TEST(a failing step stops the rest except always steps) {
  slot s;
  auto job = s.steps({"echo one", "exit 4", "echo three", "echo cleaned"});
  job.steps[3].always = true;
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(states(end), (words{"succeeded", "failed", "skipped", "succeeded"}));
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 4);
  CAF_CHECK_EQUAL(s.output(job), "one\ncleaned\n");
}

CAF_TEST(a step that may fail does not stop the job) {
  slot s;
  auto job = s.steps({"touch shared; exit 5", "ls"});
  job.steps[0].continue_on_error = true;
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(states(end), (words{"failed", "succeeded"}));
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 0);
  CAF_CHECK_EQUAL(end.steps[0].exit_code.value_or(-1), 5);
  CAF_CHECK_EQUAL(s.output(job), "shared\n");
}

CAF_TEST(always steps run after a time limit and have a limit of their own) {
  slot s;
  auto job = s.steps({"sleep 99", "echo never", "echo cleaned; sleep 99", "echo last"});
  job.time_limit = milliseconds{200};
  job.steps[2].always = job.steps[3].always = true;
  job.steps[2].time_limit = milliseconds{200};
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "time_limit");
  CAF_CHECK_EQUAL(states(end), (words{"timed_out", "skipped", "timed_out", "succeeded"}));
  CAF_CHECK_EQUAL(s.output(job), "cleaned\nlast\n");
}

CAF_TEST(always steps run after a cancel but not when the node stops) {
  slot s;
  auto job = s.steps({"echo up; sleep 99", "echo never", "echo cleaned"});
  job.steps[2].always = true;
  s.start(job);
  s.wait_for_log(job, "up");
  s.cancel(job);
  auto end = s.finished();
  CAF_CHECK_EQUAL(name(end.outcome), "cancelled");
  CAF_CHECK(end.cause == cancel_cause::cancelled);
  CAF_CHECK_EQUAL(states(end), (words{"cancelled", "skipped", "succeeded"}));
  CAF_CHECK_EQUAL(s.output(job), "up\ncleaned\n");

  job = s.steps({"echo up; sleep 99", "echo never"});
  job.steps[1].always = true;
  s.start(job);
  s.cancel(job, cancel_cause::node_stop);
  end = s.finished();
  CAF_CHECK_EQUAL(name(end.outcome), "cancelled");
  CAF_CHECK(end.cause == cancel_cause::node_stop);
  CAF_CHECK_EQUAL(states(end), (words{"interrupted", "skipped"}));
}

CAF_TEST(a step limit fails the step and only a step that must succeed fails the job) {
  slot s;
  auto job = s.steps({"sleep 99", "echo on"});
  job.steps[0].time_limit = milliseconds{100};
  job.steps[0].continue_on_error = true;
  auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "exited");
  CAF_CHECK_EQUAL(states(end), (words{"timed_out", "succeeded"}));

  job = s.steps({"sleep 99", "echo on"});
  job.steps[0].time_limit = milliseconds{100};
  end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "time_limit");
  CAF_CHECK_EQUAL(states(end), (words{"timed_out", "skipped"}));
}

CAF_TEST(a step is told of while it runs) {
  slot s;
  const auto job = s.job("sleep 99");
  s.start(job);
  const auto step = s.step_changed();
  CAF_CHECK_EQUAL(step.index, 0);
  CAF_CHECK((step.state == step_state::running));
  s.cancel(job);
  s.finished();
}

CAF_TEST(secrets never reach the disk) {
  slot s;
  auto job = s.job("printf 'p@ss'; sleep 0.05; printf '\"w\\nline2\\n'; printf 'p@ss\"w\\nline2' | base64");
  job.secrets = {"p@ss\"w\nline2", "x"};
  s.run(job);
  CAF_CHECK_EQUAL(s.log(job).find("p@ss"), std::string::npos);
  CAF_CHECK_EQUAL(s.log(job).substr(0, 7), "***\n***");
  CAF_CHECK_EQUAL(test::read_file(job.log_file).find("line2"), std::string::npos);
}

CAF_TEST(a secret that is written on both sides of the end of a step is masked) {
  slot s;
  auto job =
    s.steps({"mkfifo half go end; (printf abcdEF; echo > half; read x < go; echo GH1234; echo > end) & read x < half",
             "echo > go; read x < end", "printf abcdE", "echo FGH1234; printf abc"});
  job.secrets = {"abcdEFGH1234"};
  CAF_CHECK_EQUAL(name(s.run(job).outcome), "exited");
  CAF_CHECK_EQUAL(s.log(job), "***\n***\nabc");
}

CAF_TEST(a secret that is written on both sides of a notice is masked) {
  slot s;
  auto job = s.job("printf abcd; trap 'printf EFGH1234; exit' TERM; sleep 99 & wait");
  job.secrets = {"abcdEFGH1234"};
  job.time_limit = milliseconds{200};
  CAF_CHECK_EQUAL(name(s.run(job).outcome), "time_limit");
  CAF_CHECK_EQUAL(s.log(job), "kcx: the time limit of 0.2 s is reached, ending the job\n***");
}

CAF_TEST(what is held back comes before what is told after the last process) {
  slot s;
  auto job = s.job("printf abcd");
  job.secrets = {"abcdEFGH1234"};
  job.artifacts = {"no/such"};
  s.run(job);
  CAF_CHECK_EQUAL(s.log(job), "abcd\nkcx: artifacts: nothing in the workspace matches \"no/such\"\n");
}

CAF_TEST(limits of resources and umask hold for the job) {
  slot s;
  auto job = s.job("ulimit -n; umask; ulimit -f");
  job.limits.open_files = 77;
  job.limits.file_bytes = 512 * 100;
  job.umask = 077;
  s.run(job);
  CAF_CHECK_EQUAL(s.log(job), "77\n0077\n100\n");
}

CAF_TEST(a process that uses up its CPU time is told before it is killed) {
  slot s;
  auto job = s.job("ulimit -S -t; ulimit -H -t; while :; do :; done");
  job.limits.cpu_s = 1;
  CAF_CHECK_EQUAL(s.run(job).signal.value_or(0), SIGXCPU);
  CAF_CHECK_EQUAL(s.log(job), "1\n6\n");
}

CAF_TEST(a limit that cannot be set is told by its name) {
  slot s;
  auto job = s.job("true");
  job.limits.open_files = 1ULL << 40U; // beyond what the kernel gives anybody
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(name(end.outcome), "spawn_failed");
  CAF_CHECK_EQUAL(end.message.find("cannot set limits.open_files to 1099511627776; this node may set up to "), 0u);
}

CAF_TEST(a job can run as another account with nothing left of root) {
  if (::geteuid() != 0)
    return;
  slot s;
  ::chmod(s.data.path().c_str(), 0755);
  auto job = s.job("id -un; id -gn; id -Gn; touch mine; stat -c %U . mine");
  job.user = "nobody";
  const auto end = s.run(job);
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 0);
  CAF_CHECK_EQUAL(s.log(job), "nobody\nnogroup\nnogroup\nnobody\nnobody\n");

  job = s.job("true");
  job.user = "kcx-no-such-account";
  CAF_CHECK_EQUAL(name(s.run(job).outcome), "spawn_failed");
}

CAF_TEST(a busy runner refuses a second job and finishes the first) {
  slot s;
  auto first = s.job("echo up; sleep 99");
  s.start(first);
  auto second = s.job("true");
  const auto refused = s.run(second);
  CAF_CHECK_EQUAL(refused.key.job.value, second.key.job.value);
  CAF_CHECK_EQUAL(name(refused.outcome), "spawn_failed");
  s.cancel(second);
  s.cancel(first);
  const auto end = s.finished();
  CAF_CHECK_EQUAL(end.key.job.value, first.key.job.value);
  CAF_CHECK_EQUAL(name(end.outcome), "cancelled");
}
