/// kcx-node: the queue, its workers and its HTTP ports in one process. See `kcx-node --help` and config/node.ini.
///
/// Exit codes: 0 after a stop that was asked for, 2 for wrong settings, 1 if the node could not start, 70 if it ended
/// because a part of it could not be kept alive.
#include "actors/node/node.hpp"
#include "config/logging.hpp"
#include "config/posix.hpp"
#include "config/settings.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <latch>
#include <malloc.h>
#include <optional>
#include <pthread.h>
#include <span>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono;

/// SIGUSR1 is how the node's own end reaches the main thread, which waits for signals only; SIGUSR2 tells it that a
/// drain began, which somebody may have asked for over HTTP.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    sigaddset(&set, each);
  return set;
}

/// SIGUSR1 and SIGUSR2 mean something only where this process sent them.
bool counts(const siginfo_t& info) {
  return (info.si_signo != SIGUSR1 && info.si_signo != SIGUSR2) || info.si_pid == getpid();
}

/// Waits for a signal of the set, at most until `deadline`; 0 if that comes first.
int await_signal(const sigset_t& set, std::optional<steady_clock::time_point> deadline) {
  for (;;) {
    siginfo_t info{};
    if (!deadline) {
      if (const int signal = sigwaitinfo(&set, &info); signal > 0 && counts(info))
        return signal;
      continue;
    }
    const auto left = duration_cast<nanoseconds>(*deadline - steady_clock::now());
    if (left <= nanoseconds::zero())
      return 0;
    const timespec span{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    if (const int signal = sigtimedwait(&set, &info, &span); signal > 0 && counts(info))
      return signal;
  }
}

/// Reads command line and file once more. Settings with a mistake in them change nothing.
void reload(kcx::node& node, std::span<const char* const> arguments, milliseconds& drain_timeout) {
  const auto fresh = kcx::parse_settings(static_cast<int>(arguments.size()), arguments.data());
  if (!fresh) {
    spdlog::error("SIGHUP: nothing changed: {}", fresh.error().message);
    return;
  }
  drain_timeout = fresh->drain_timeout;
  node.reload(*fresh);
}

/// The first SIGTERM or SIGINT drains with a deadline, the second ends the drain; SIGHUP reads the settings again.
/// Returns when the node has ended.
void serve(kcx::node& node, const sigset_t& set, std::span<const char* const> arguments, milliseconds drain_timeout) {
  std::optional<steady_clock::time_point> deadline;
  bool draining = false;
  for (;;) {
    const int signal = await_signal(set, deadline);
    if (signal == SIGUSR1)
      return;
    if (signal == SIGHUP) {
      reload(node, arguments, drain_timeout);
    } else if (!draining && signal != 0) {
      draining = true;
      deadline = steady_clock::now() + drain_timeout;
      spdlog::info("stopping: running jobs have {} s to end; a second signal ends them now",
                   duration<double>(drain_timeout).count());
      if (signal != SIGUSR2)
        node.stop(true);
    } else if (signal != SIGUSR2) {
      spdlog::info("stopping now: {}", signal == 0 ? "the drain timeout is over" : "a second signal came");
      deadline.reset();
      node.stop(false);
    }
  }
}

void prepare_process() {
  // Giving freed memory back to the kernel at once costs more than SQLite's work itself.
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // Connections and runners are descriptors: take what the system allows.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  std::signal(SIGPIPE, SIG_IGN);
  // The database and whatever else the node makes is for its own account; jobs get a mask of their own.
  umask(077);
}

/// A thread that the system refuses while the actor system starts ends the process in the middle of it: so more of them
/// than a node has are tried before.
kcx::outcome try_threads() {
  const auto wanted = 32 + 2 * std::thread::hardware_concurrency();
  std::latch tried{1};
  std::vector<std::jthread> threads;
  kcx::outcome result = kcx::done{};
  try {
    while (threads.size() < wanted)
      threads.emplace_back([&tried] { tried.wait(); });
  } catch (const std::system_error& why) {
    result = kcx::error{kcx::ec::system_failed,
                        "only " + std::to_string(threads.size()) + " of " + std::to_string(wanted) +
                          " threads could be started: " + why.code().message() +
                          "; raise the limit of processes of this account or service (ulimit -u, TasksMax)",
                        {}};
  }
  tried.count_down();
  return result;
}

} // namespace

int main(int argc, char** argv) {
  kcx::keep_standard_descriptors();
  auto settings = kcx::parse_settings(argc, argv);
  if (!settings) {
    std::fprintf(stderr, "kcx-node: %s\n", settings.error().message.c_str());
    return 2;
  }
  if (!settings->answer.empty()) {
    // Whatever could not be written makes one of the two fail.
    if (std::fputs(settings->answer.c_str(), stdout) >= 0 && std::fflush(stdout) == 0)
      return 0;
    std::perror("kcx-node: cannot write standard output");
    return 1;
  }
  kcx::set_up_logging(settings->log);
  prepare_process();
  // Before any thread exists, so that every thread inherits it and signals reach only the loop in serve().
  const auto set = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const auto main_thread = pthread_self();

  const auto drain_timeout = settings->drain_timeout;
  if (auto tried = try_threads(); !tried) {
    std::fprintf(stderr, "kcx-node: %s\n", tried.error().message.c_str());
    return 1;
  }
  auto node = kcx::node::start(
    *std::move(settings), [main_thread] { pthread_kill(main_thread, SIGUSR1); },
    [main_thread] { pthread_kill(main_thread, SIGUSR2); });
  if (!node) {
    std::fprintf(stderr, "kcx-node: %s\n", node.error().message.c_str());
    return node.error().code == kcx::ec::invalid_setting ? 2 : 1;
  }
  std::printf("kcx-node " KCX_VERSION " is ready\n  API        %s\n  inspection %s\n", (*node)->http_url().c_str(),
              (*node)->inspect_url().c_str());
  std::fflush(stdout);
  serve(**node, set, {argv, static_cast<std::size_t>(argc)}, drain_timeout);
  if (const auto failure = (*node)->failure(); !failure.empty()) {
    std::fprintf(stderr, "kcx-node: ended: %s\n", failure.c_str());
    return 70;
  }
  return 0;
}
