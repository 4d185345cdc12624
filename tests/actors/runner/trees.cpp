#define CAF_SUITE runner_trees
#include "actors/runner/job_environment.hpp"
#include "actors/runner/process_sweep.hpp"
#include "actors/runner/process_tree.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/runner/support.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <future>
#include <sys/wait.h>
#include <thread>

using namespace kcx;
using kcx::test::all_gone;
using kcx::test::marked;
using kcx::test::slot;

namespace {

// Leaves the session by a double fork and ignores TERM.
constexpr const char* daemon = "setsid sh -c '(trap \"\" TERM; echo daemon; while :; do sleep 1000; done) & exit 0'; ";

// Its main thread ends, another sleeps on: /proc shows a zombie.
constexpr const char* headless = "/usr/bin/python3 -c 'import ctypes, threading, time\n"
                                 "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
                                 "ctypes.CDLL(None).pthread_exit(None)'";

// Tests run side by side: a job's number says nothing, its workspace does.
std::string mark_of(const start_command& job) {
  return "KCX_WORKSPACE=" + job.workspace;
}

/// Waits until the main thread of such a process has ended; the end of a thread raises no event.
bool has_headless(const start_command& job) {
  const auto until = std::chrono::steady_clock::now() + test::patience;
  while (std::chrono::steady_clock::now() < until) {
    for (const auto& entry : list_processes())
      if (entry.state == 'Z' && is_alive(entry) && has_environment_entry(entry.pid, mark_of(job)))
        return true;
    std::this_thread::sleep_for(milliseconds{2});
  }
  return false;
}

bool has_zombie_child() {
  for (const auto& entry : list_processes())
    if (entry.parent == ::getpid() && !is_alive(entry))
      return true;
  return false;
}

void wait_for_sweep(process_io& io) {
  std::promise<void> done;
  io.sweep_orphans([&] { done.set_value(); });
  done.get_future().wait();
}

} // namespace

CAF_TEST(a cancelled job leaves no background process) {
  slot s;
  auto job = s.job("sleep 1000 & echo up; wait");
  s.start(job);
  s.wait_for_log(job, "up");
  s.cancel(job);
  CAF_CHECK(s.finished().outcome == run_outcome::cancelled);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(leaving the session or the group is no escape) {
  slot s;
  auto job = s.job("setsid sh -c 'sleep 1001 & echo up; sleep 1002'");
  s.start(job);
  s.wait_for_log(job, "up");
  s.cancel(job);
  CAF_CHECK(s.finished().outcome == run_outcome::cancelled);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(a daemon that ignores TERM is gone when the job is finished) {
  slot s;
  auto job = s.job(std::string{daemon} + "sleep 99");
  s.start(job);
  s.wait_for_log(job, "daemon");
  s.cancel(job);
  CAF_CHECK(s.finished().outcome == run_outcome::cancelled);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(a process whose main thread has ended is no zombie) {
  slot s;
  auto job = s.job(std::string{"exec "} + headless);
  s.start(job);
  CAF_REQUIRE(has_headless(job));
  s.cancel(job);
  CAF_CHECK(s.finished().outcome == run_outcome::cancelled);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(a stopped process whose main thread has ended acts on TERM) {
  slot s;
  auto job = s.job(std::string{headless} + " & echo $!; wait");
  job.cancel_grace = milliseconds{60'000};
  s.start(job);
  s.wait_for_log(job, "\n");
  CAF_REQUIRE(has_headless(job));
  ::kill(std::stoi(s.output(job)), SIGSTOP);
  s.cancel(job);
  CAF_CHECK(s.finished().outcome == run_outcome::cancelled);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(a job that ignores TERM is cancelled and never succeeds) {
  slot s;
  auto job = s.job("trap '' TERM; echo up; sleep 30 & wait; sleep 30; exit 0");
  s.start(job);
  s.wait_for_log(job, "up");
  const auto asked = std::chrono::steady_clock::now();
  s.cancel(job);
  const auto end = s.finished();
  const auto took = std::chrono::steady_clock::now() - asked;
  CAF_CHECK(end.outcome == run_outcome::cancelled);
  CAF_CHECK(took >= job.cancel_grace);
  CAF_CHECK_EQUAL(end.signal.value_or(0), SIGKILL);
}

CAF_TEST(the grace period decides whether a job can clean up) {
  slot s;
  // A shell runs its trap only once a command in the foreground has ended; one that starts just after the signal
  // went out would not. wait() has no such gap.
  const auto* line = "trap 'sleep 0.5; echo cleaned; exit 3' TERM; sleep 99 & echo up; wait";
  auto job = s.job(line);
  job.cancel_grace = milliseconds{5'000};
  s.start(job);
  s.wait_for_log(job, "up");
  s.cancel(job);
  auto end = s.finished();
  CAF_CHECK(end.outcome == run_outcome::cancelled);
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 3);
  CAF_CHECK_NOT_EQUAL(s.output(job).find("cleaned"), std::string::npos);

  job = s.job(line);
  job.cancel_grace = milliseconds{100};
  s.start(job);
  s.wait_for_log(job, "up");
  s.cancel(job);
  end = s.finished();
  CAF_CHECK(end.outcome == run_outcome::cancelled);
  CAF_CHECK_EQUAL(s.output(job).find("cleaned"), std::string::npos);
}

CAF_TEST(a job ends with its main process and takes what it left behind along) {
  slot s;
  auto job = s.job("sleep 1000 & exit 7");
  const auto end = s.run(job);
  CAF_CHECK(end.outcome == run_outcome::exited);
  CAF_CHECK_EQUAL(end.exit_code.value_or(-1), 7);
  CAF_CHECK(end.duration < std::chrono::seconds{10});
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(a process that exits right after the last step was not left behind) {
  slot s;
  for (int i = 0; i < 100; ++i) {
    const auto job = s.job("mkfifo go; (read x < go; exec 2>&- >&-) & echo > go");
    s.run(job);
    CAF_REQUIRE_EQUAL(s.log(job), "");
  }
}

CAF_TEST(a background process lives on to the next step) {
  slot s;
  auto job = s.steps({"sleep 1000 & echo $! > pid", "kill -0 $(cat pid) && echo alive"});
  CAF_CHECK_EQUAL(s.run(job).exit_code.value_or(-1), 0);
  CAF_CHECK_EQUAL(s.output(job), "alive\n");
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(processes that fork all the time are caught) {
  slot s;
  // Each process starts its successor in a session of its own and ends.
  auto job = s.job("cat > chain <<'END'\ntrap '' TERM\nsetsid sh ./chain &\nEND\n"
                   "sh ./chain & sh ./chain & echo up; sleep 99");
  job.cancel_grace = milliseconds{50};
  s.start(job);
  s.wait_for_log(job, "up");
  s.cancel(job);
  CAF_CHECK(s.finished().outcome == run_outcome::cancelled);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(kill ends the tree at once) {
  slot s;
  auto job = s.job(std::string{daemon} + "trap '' TERM; sleep 99");
  job.cancel_grace = milliseconds{60'000};
  s.start(job);
  s.wait_for_log(job, "daemon");
  s.send(kill_command{});
  const auto end = s.finished();
  CAF_CHECK(end.outcome == run_outcome::killed);
  CAF_CHECK(end.steps[0].state == step_state::interrupted);
  CAF_CHECK(marked(mark_of(job)).empty());
}

CAF_TEST(what a killed runner leaves is swept) {
  slot s;
  auto job = s.job(std::string{daemon} + "sleep 99");
  s.start(job);
  s.wait_for_log(job, "daemon");
  s.runner->destroy();
  CAF_CHECK_EQUAL(s.exited().signal.value_or(0), SIGKILL);
  CAF_CHECK(!s.runner->send(kill_command{}));
  wait_for_sweep(s.io);
  CAF_CHECK(marked(mark_of(job)).empty());
  CAF_CHECK(!has_zombie_child());
}

CAF_TEST(what lost its main thread is swept and known by its mark and its place) {
  slot s;
  auto job = s.job(std::string{headless} + " & wait");
  s.start(job);
  CAF_REQUIRE(has_headless(job));
  const auto pids = marked(mark_of(job));
  CAF_CHECK_EQUAL(std::ranges::count_if(pids, [&](pid_t pid) { return works_below(pid, s.data.path().string()); }), 2);
  s.runner->destroy();
  s.exited();
  wait_for_sweep(s.io);
  CAF_CHECK(marked(mark_of(job)).empty());
  CAF_CHECK(!has_zombie_child());
}

CAF_TEST(a sweep does not touch living runners) {
  slot s;
  auto job = s.job("echo up; sleep 0.2; echo done");
  s.start(job);
  s.wait_for_log(job, "up");
  wait_for_sweep(s.io);
  const auto end = s.finished();
  CAF_CHECK(end.outcome == run_outcome::exited);
  CAF_CHECK_EQUAL(s.log(job), "up\ndone\n");
}

CAF_TEST(a runner whose node hangs up ends its tree and exits) {
  slot s;
  auto job = s.job(std::string{daemon} + "sleep 99");
  job.cancel_grace = milliseconds{60'000};
  s.start(job);
  s.wait_for_log(job, "daemon");
  s.io.stop(milliseconds{10'000});
  CAF_CHECK_EQUAL(s.exited().exit_code.value_or(-1), 0);
  CAF_CHECK(s.finished().outcome == run_outcome::killed);
  CAF_CHECK_NOT_EQUAL(s.log(job).find("ended, since the node is gone"), std::string::npos);
  CAF_CHECK(marked(node_marker(s.node_id)).empty());
}

CAF_TEST(a terminated runner ends its tree and exits) {
  slot s;
  auto job = s.job("echo up; sleep 99");
  s.start(job);
  s.runner->terminate();
  CAF_CHECK(s.finished().outcome == run_outcome::killed);
  CAF_CHECK_EQUAL(s.exited().exit_code.value_or(-1), 0);
  CAF_CHECK_NOT_EQUAL(s.log(job).find("ended, since its node is gone, or has given it up"), std::string::npos);
  CAF_CHECK(marked(node_marker(s.node_id)).empty());
}

CAF_TEST(an idle runner quits when told) {
  slot s;
  s.send(quit_command{});
  CAF_CHECK_EQUAL(s.exited().exit_code.value_or(-1), 0);
}

CAF_TEST(processes of an earlier node are found by their mark) {
  slot s;
  auto job = s.job(std::string{daemon} + "env -i setsid sleep 1000 & echo up; sleep 99");
  s.start(job);
  s.wait_for_log(job, "up");
  s.wait_for_log(job, "daemon");
  const auto found = sweep_marked(node_marker(s.node_id));
  CAF_REQUIRE(found.has_value());
  CAF_CHECK_GREATER(*found, 3u);
  CAF_CHECK(all_gone(node_marker(s.node_id)));
  const auto again = sweep_marked(node_marker(s.node_id));
  CAF_REQUIRE(again.has_value());
  CAF_CHECK_EQUAL(*again, 0u);
}

CAF_TEST(processes of an earlier node are found also without their main thread) {
  slot s;
  auto job = s.job(std::string{"exec "} + headless);
  s.start(job);
  CAF_REQUIRE(has_headless(job));
  const auto found = sweep_marked(node_marker(s.node_id));
  CAF_REQUIRE(found.has_value());
  CAF_CHECK_EQUAL(*found, 2u); // with the runner
  CAF_CHECK(all_gone(node_marker(s.node_id)));
}

CAF_TEST(who dropped the mark is known by the workspace) {
  slot s;
  auto job = s.job("env -i setsid sleep 1000 & echo up; sleep 99");
  s.start(job);
  s.wait_for_log(job, "up");
  // As after a death of node and runner: the process has no parent of ours and no mark, only a place.
  const auto left = [&] {
    const auto all = list_processes();
    return std::ranges::count_if(all, [&](const auto& entry) {
      return is_alive(entry) && works_below(entry.pid, std::filesystem::path{job.workspace}.parent_path().string());
    });
  };
  CAF_REQUIRE_GREATER(left(), 0);
  const auto found = sweep_marked("KCX_NODE_ID=nobody", std::filesystem::path{job.workspace}.parent_path().string());
  CAF_REQUIRE(found.has_value());
  CAF_CHECK_GREATER(*found, 1u);
  CAF_CHECK_EQUAL(left(), 0);
}

CAF_TEST(the refusal over what cannot be ended says what to do) {
  slot s;
  auto job = s.job("echo up; sleep 99");
  s.start(job);
  s.wait_for_log(job, "up");
  // No time to end: as one that hangs in the kernel has it.
  const auto swept = sweep_marked(node_marker(s.node_id), {}, milliseconds{0});
  CAF_REQUIRE(!swept);
  CAF_CHECK(swept.error().code == ec::timeout);
  CAF_CHECK_NOT_EQUAL(swept.error().message.find("kill -9 "), std::string::npos);
  CAF_CHECK_NOT_EQUAL(swept.error().message.find("restart the machine"), std::string::npos);
  CAF_CHECK(all_gone(node_marker(s.node_id)));
}

CAF_TEST(a hunt is undisturbed or says that it was not ) {
  const auto nobody = [](pid_t) { return false; };
  pid_t child = 0;
  const auto forks = [&](pid_t) {
    child = ::fork();
    if (child == 0)
      ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return false;
  };
  CAF_CHECK(hunt([&] { return forks(0); }, nobody, milliseconds{5'000}) == found::none);
  CAF_CHECK(hunt([&] { return forks(0); }, forks, milliseconds{50}) == found::unsure);
  // Who is made while all are looked at is met for sure.
  CAF_CHECK(hunt([&] { return forks(0); }, [&](pid_t pid) { return pid == std::exchange(child, 0); },
                 milliseconds{5'000}) == found::some);
}

CAF_TEST(only what lies below a directory works below it) {
  const auto here = std::filesystem::current_path();
  CAF_CHECK(works_below(::getpid(), here.parent_path().string()));
  CAF_CHECK(!works_below(::getpid(), here.string()));
  CAF_CHECK(!works_below(::getpid(), here.string() + "x"));
}

CAF_TEST(a runner that cannot be started is an error) {
  process_io io;
  runner_options options;
  options.path = "/no/such/runner";
  const auto launched = io.launch(options, {[](runner_event) {}, [](runner_exit) {}});
  CAF_REQUIRE(!launched);
  CAF_CHECK_NOT_EQUAL(launched.error().message.find("No such file"), std::string::npos);
  CAF_CHECK(!has_zombie_child());
}

CAF_TEST(a runner that says much and exits at once is heard to its end) {
  constexpr int events = 3'000; // more than one read takes, less than the socket holds
  const auto said = encode(log_event{{{1}, 1}, 0});
  CAF_REQUIRE(said);
  const test::temp_dir here;
  test::write_file(here / "words", [&] {
    std::string all;
    for (int i = 0; i < events; ++i)
      all += *said;
    return all;
  }());
  test::write_file(here / "runner", "#!/bin/sh\nexec cat '" + (here / "words").string() + "' >&3\n");
  std::filesystem::permissions(here / "runner", std::filesystem::perms::owner_all);

  process_io io;
  runner_options options;
  options.path = (here / "runner").string();
  std::promise<int> ended;
  int heard = 0;
  runner_listener listener;
  listener.on_event = [&](runner_event) {
    // By the time the rest is read, there is nobody at the other end.
    siginfo_t exited{};
    if (heard++ == 0)
      ::waitid(P_ALL, 0, &exited, WEXITED | WNOWAIT);
  };
  listener.on_exit = [&](runner_exit) { ended.set_value(heard); };
  CAF_REQUIRE(io.launch(options, std::move(listener)));
  CAF_CHECK_EQUAL(ended.get_future().get(), events);
}

CAF_TEST(many jobs leave neither zombies nor processes) {
  slot s;
  for (int i = 0; i < 100; ++i)
    CAF_CHECK_EQUAL(s.run(s.job("(true &) ; exit 0")).exit_code.value_or(-1), 0);
  CAF_CHECK(descendants_of(s.runner->pid()).empty());
}
