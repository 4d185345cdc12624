#include "actors/runner/process_io.hpp"

#include "actors/runner/process_tree.hpp"
#include "config/posix.hpp"

#include <boost/asio/post.hpp>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/error.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <boost/process/posix.hpp>

#include <csignal>
#include <fcntl.h>
#include <future>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <utility>

namespace kcx {

namespace asio = boost::asio;
namespace bp = boost::process;

namespace {

constexpr milliseconds sweep_every{10};
/// Of up to 30 ms each.
constexpr int most_unsure_rounds = 33;
constexpr milliseconds reap_every{1'000};
constexpr int channel_fd = 3;

// Runs in the child between vfork and exec, in our memory: system calls only.
void set_up_runner(int channel) {
  ::setsid();
  ::dup2(channel, channel_fd);
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  // After close_range, which marked it as well; also right where the socket happened to be this very descriptor.
  ::fcntl(channel_fd, F_SETFD, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int number : {SIGPIPE, SIGCHLD, SIGTERM, SIGINT, SIGHUP})
    ::sigaction(number, &standard, nullptr);
}

void set_up_thread() {
  // Signals are for the node's main thread.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

} // namespace

process_io::process_io() : work_{io_.get_executor()}, sweep_timer_{io_}, reap_timer_{io_} {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  asio::post(io_, [this] { reap_strays(); });
  thread_ = std::thread{[this] {
    set_up_thread();
    io_.run();
  }};
}

process_io::~process_io() {
  stop(milliseconds{5'000});
}

// -- launching -----------------------------------------------------------------

expected<std::shared_ptr<runner_process>> process_io::launch(const runner_options& options, runner_listener listener) {
  if (io_.get_executor().running_in_this_thread())
    return launch_here(options, std::move(listener));
  std::promise<expected<std::shared_ptr<runner_process>>> promise;
  auto result = promise.get_future();
  asio::post(io_, [&] { promise.set_value(launch_here(options, std::move(listener))); });
  return result.get();
}

expected<std::shared_ptr<runner_process>> process_io::launch_here(const runner_options& options,
                                                                  runner_listener listener) {
  if (stopping_)
    return error{ec::draining, "the node is stopping and starts no runner", {}};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure("cannot make a socket pair for a runner");
  const unique_fd theirs{ends[1]};
  runner_process::socket ours{io_, asio::local::stream_protocol{}, ends[0]};
  bp::environment env;
  for (const auto& [name, value] : options.env)
    env[name] = value;
  std::error_code failure;
  const int channel = theirs.value();
  bp::child child{bp::exe = options.path,
                  bp::args = {"--fd", std::to_string(channel_fd), "--parent", std::to_string(::getpid()),
                              "--orphan-grace-ms", std::to_string(options.orphan_grace.count())},
                  env,
                  bp::std_in<bp::null, bp::std_out>
                    bp::null,
                  bp::posix::use_vfork,
                  bp::extend::on_exec_setup([channel](auto&) { set_up_runner(channel); }),
                  failure};
  if (failure)
    return error{ec::system_failed, "cannot start the runner " + options.path + ": " + failure.message(), {}};
  const pid_t pid = child.id();
  child.detach();
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    auto problem = system_failure("cannot watch the runner " + options.path);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return problem;
  }
  std::shared_ptr<runner_process> runner{
    new runner_process{io_, pid, pidfd, std::move(ours), std::move(listener), [this](pid_t gone) {
                         runners_.erase(gone);
                         if (runners_.empty() && on_last_exit_)
                           asio::post(io_, std::exchange(on_last_exit_, nullptr));
                       }}};
  runners_.emplace(pid, runner);
  runner->begin();
  return runner;
}

std::vector<pid_t> process_io::runner_pids() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, runner] : runners_)
    pids.push_back(pid);
  return pids;
}

// -- sweeping ------------------------------------------------------------------

void process_io::sweep_orphans(std::function<void()> on_done) {
  asio::post(io_, [this, waiter = std::move(on_done)]() mutable {
    sweep_waiters_.push_back(std::move(waiter));
    if (!std::exchange(sweeping_, true))
      sweep_round();
  });
}

void process_io::sweep_round() {
  const auto runners = runner_pids();
  const auto met = kill_descendants(runners);
  unsure_rounds_ = met == found::unsure ? unsure_rounds_ + 1 : 0;
  // Those whose parent was killed with them are our children only now: reap, look again, and stop when none is left.
  for (const auto& entry : descendants_of(::getpid(), runners))
    if (entry.parent == ::getpid())
      ::waitpid(entry.pid, nullptr, WNOHANG);
  const bool sure = met == found::none || unsure_rounds_ >= most_unsure_rounds;
  if (sure && descendants_of(::getpid(), runners).empty()) {
    sweeping_ = false;
    unsure_rounds_ = 0;
    for (const auto& waiter : std::exchange(sweep_waiters_, {}))
      waiter();
    return;
  }
  sweep_timer_.expires_after(sweep_every);
  sweep_timer_.async_wait([this](const boost::system::error_code& failure) {
    if (!failure)
      sweep_round();
  });
}

void process_io::reap_strays() {
  // As process 1 of a container the node inherits orphans it never started. Dead ones are reaped; runners are left to
  // their own watch.
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
         !runners_.contains(info.si_pid)) {
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    info = {};
  }
  reap_timer_.expires_after(reap_every);
  reap_timer_.async_wait([this](const boost::system::error_code& failure) {
    if (!failure)
      reap_strays();
  });
}

// -- stopping ------------------------------------------------------------------

void process_io::stop(milliseconds patience) {
  if (!thread_.joinable())
    return;
  auto done_with = std::make_shared<std::promise<void>>();
  auto ended = done_with->get_future();
  asio::post(io_, [this, done_with] {
    stopping_ = true;
    on_last_exit_ = [done_with] { done_with->set_value(); };
    for (const auto& [pid, runner] : runners_)
      if (const auto alive = runner.lock())
        alive->hang_up();
    if (runners_.empty())
      asio::post(io_, std::exchange(on_last_exit_, nullptr));
  });
  if (ended.wait_for(patience) != std::future_status::ready) {
    asio::post(io_, [this] {
      for (const auto& [pid, runner] : runners_)
        if (const auto alive = runner.lock())
          alive->destroy();
    });
    ended.wait_for(milliseconds{1'000});
  }
  auto swept = std::make_shared<std::promise<void>>();
  auto clean = swept->get_future();
  sweep_orphans([swept] { swept->set_value(); });
  clean.wait_for(milliseconds{2'000});
  io_.stop();
  thread_.join();
}

} // namespace kcx
