#include "actors/runner/runner.hpp"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <utility>

namespace kcx {

namespace {

constexpr int last_words_ms = 1'000;
constexpr const char* node_gone = "the node is gone";

} // namespace

runner::runner(const runner_settings& settings) : settings_{settings}, socket_{settings.fd} {}

int runner::run() {
  if (!prepare()) {
    std::perror("kcx-runner");
    return 1;
  }
  emit(ready_event{static_cast<std::int32_t>(::getpid())});
  while (!leaving_ || job_)
    wait();
  // A node that does not listen any more must not keep a runner.
  pollfd last{socket_.value(), POLLOUT, 0};
  while (write_events() && ::poll(&last, 1, last_words_ms) > 0) {
  }
  return 0;
}

bool runner::prepare() {
  if (::fcntl(socket_.value(), F_SETFD, FD_CLOEXEC) != 0 || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
      ::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
    return false;
  // What was ignored when the node started would be ignored by every job.
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGKILL && number != SIGSTOP)
      ::signal(number, number == SIGPIPE || number == SIGXFSZ ? SIG_IGN : SIG_DFL);
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP})
    ::sigaddset(&mask, number);
  if (::sigprocmask(SIG_BLOCK, &mask, nullptr) != 0)
    return false;
  signals_.reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_)
    return false;
  // A node that died before PR_SET_PDEATHSIG sends no signal any more. Its id was passed, since the new parent need not
  // be process 1.
  if (lost_node())
    leaving_ = true;
  return true;
}

void runner::wait() {
  const bool more = write_events();
  polled_.assign(2, {});
  // A negative descriptor is left out by poll().
  // Once the node has hung up, the socket is always readable.
  const auto wanted = (hung_up_ ? 0 : POLLIN) | (more ? POLLOUT : 0);
  polled_[0] = {wanted != 0 ? socket_.value() : -1, static_cast<short>(wanted), 0};
  polled_[1] = {signals_.value(), POLLIN, 0};
  if (job_)
    job_->wants(polled_);
  const auto count = ::poll(polled_.data(), polled_.size(), timeout());
  if (count > 0 && polled_.size() > 2 &&
      std::any_of(polled_.begin() + 2, polled_.end(), [](const pollfd& item) { return item.revents != 0; }))
    job_->take_output();
  if (count > 0 && polled_[1].revents != 0)
    read_signals();
  if (count > 0 && !hung_up_ && (polled_[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
    read_commands();
  if (job_)
    job_->tick();
  if (job_ && job_->over())
    job_.reset();
}

int runner::timeout() const {
  auto at = job_ ? job_->deadline() : std::nullopt;
  if (const auto due = outbox_.due())
    at = at ? std::min(*at, *due) : *due;
  if (!at)
    return -1;
  const auto left = std::chrono::ceil<milliseconds>(*at - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

void runner::read_signals() {
  signalfd_siginfo info{};
  bool child = false;
  while (::read(signals_.value(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD)
      child = true;
    else
      leave(cause_of(static_cast<pid_t>(info.ssi_pid)));
  }
  if (child && job_)
    job_->reap();
  else if (child)
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
}

void runner::read_commands() {
  char buffer[64 * 1024];
  while (!hung_up_) {
    const auto n = ::recv(socket_.value(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0)
      break;
    commands_.feed({buffer, static_cast<std::size_t>(n)});
    while (true) {
      const auto frame = commands_.next();
      if (frame && !*frame)
        break;
      auto command = frame ? decode_command(**frame) : expected<runner_command>{frame.error()};
      if (!command) {
        std::fprintf(stderr, "kcx-runner: %s\n", command.error().message.c_str());
        hung_up_ = true;
        return leave("the node gave it up");
      }
      obey(*command);
    }
  }
  // The node closed its end or is gone. If it still listens, it hears how the job ends.
  hung_up_ = true;
  leave(node_gone);
}

void runner::obey(const runner_command& command) {
  if (const auto* wanted = std::get_if<start_command>(&command))
    start(*wanted);
  else if (const auto* cancel = std::get_if<cancel_command>(&command); cancel != nullptr && job_)
    job_->cancel(*cancel);
  else if (std::holds_alternative<kill_command>(command) && job_)
    job_->kill();
  else if (std::holds_alternative<quit_command>(command))
    leave("the node gave it up");
  else if (std::holds_alternative<ping_command>(command))
    emit(pong_event{});
}

void runner::start(start_command command) {
  // A job that is over is still held until the end of this turn.
  if (job_ && job_->over())
    job_.reset();
  if (job_ || leaving_) {
    finished_event refused;
    refused.key = command.key;
    refused.outcome = run_outcome::spawn_failed;
    refused.message = job_ ? "the runner is busy with job " + std::to_string(job_->key().job.value)
                           : std::string{"the runner is about to exit"};
    refused.finished_at = timestamp{milliseconds{wall_ms()}};
    refused.steps.resize(command.steps.size(), {step_state::skipped, {}, {}, {}, {}});
    return emit(refused);
  }
  job_ = std::make_unique<job_run>(std::move(command), [this](const runner_event& event) { emit(event); });
  job_->begin();
}

void runner::emit(const runner_event& event) {
  if (socket_)
    outbox_.add(event, std::chrono::steady_clock::now());
}

bool runner::write_events() {
  auto& unsent = outbox_.unsent(std::chrono::steady_clock::now());
  while (socket_ && !unsent.empty()) {
    const auto n = ::send(socket_.value(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
      unsent.erase(0, static_cast<std::size_t>(n));
    else if (errno == EAGAIN)
      return true;
    else if (errno != EINTR)
      socket_.reset();
  }
  return false;
}

void runner::leave(const char* why) {
  leaving_ = true;
  if (job_)
    job_->abandon(settings_.orphan_grace, why);
}

const char* runner::cause_of(pid_t sender) const {
  if (lost_node())
    return node_gone;
  // The system tells of the node's death in its name, and that while threads of it are still being ended.
  return sender == settings_.node ? "its node is gone, or has given it up" : "its runner was told to end";
}

bool runner::lost_node() const {
  return settings_.node != 0 && ::getppid() != settings_.node;
}

} // namespace kcx
