#include "actors/runner/runner_process.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <csignal>
#include <cstdio>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace asio = boost::asio;

runner_process::runner_process(asio::io_context& io, pid_t pid, int pidfd, socket channel, runner_listener listener,
                               std::function<void(pid_t)> forget)
  : io_{io}, pid_{pid}, pidfd_{io, pidfd}, channel_{std::move(channel)}, listener_{std::move(listener)}, forget_{
                                                                                                           std::move(
                                                                                                             forget)} {}

runner_process::~runner_process() = default;

void runner_process::begin() {
  read();
  await_exit();
}

outcome runner_process::send(const runner_command& command) {
  auto frame = encode(command);
  if (!frame)
    return std::move(frame).error();
  const std::lock_guard lock{outbox_};
  if (gone_)
    return error{ec::system_failed, "the runner process " + std::to_string(pid_) + " is gone", {}};
  if (unsent_bytes_ + frame->size() > max_unsent_bytes)
    return error{ec::storage_busy, "the runner process " + std::to_string(pid_) + " does not take commands", {}};
  // A start is all that stands between a stored claim and its job: it does not wait for another thread's turn.
  if (unsent_.empty())
    frame->erase(0, write_at_once(*frame));
  if (frame->empty())
    return done{};
  unsent_bytes_ += frame->size();
  unsent_.push_back(*std::move(frame));
  if (unsent_.size() == 1)
    asio::post(io_, [self = shared_from_this()] { self->write(); });
  return done{};
}

std::size_t runner_process::write_at_once(std::string_view frame) {
  const auto n = ::send(channel_.native_handle(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

void runner_process::write() {
  const std::lock_guard lock{outbox_};
  asio::async_write(channel_, asio::buffer(unsent_.front()),
                    [self = shared_from_this()](const boost::system::error_code& failure, std::size_t) {
                      std::unique_lock held{self->outbox_};
                      if (failure) {
                        // The runner is gone or the channel broken: on_exit tells.
                        self->gone_ = true;
                        self->unsent_.clear();
                        return;
                      }
                      self->unsent_bytes_ -= self->unsent_.front().size();
                      self->unsent_.pop_front();
                      const bool more = !self->unsent_.empty();
                      held.unlock();
                      if (more)
                        self->write();
                    });
}

void runner_process::read() {
  reading_ = true;
  channel_.async_read_some(asio::buffer(buffer_),
                           [self = shared_from_this()](const boost::system::error_code& failure, std::size_t size) {
                             self->reading_ = false;
                             if (!failure)
                               self->consume(size);
                             if (self->exit_)
                               self->finish();
                             else if (!failure && !self->broken_)
                               self->read();
                           });
}

void runner_process::consume(std::size_t size) {
  frames_.feed({buffer_.data(), size});
  while (!broken_) {
    const auto frame = frames_.next();
    if (frame && !*frame)
      return;
    auto event = frame ? decode_event(**frame) : expected<runner_event>{frame.error()};
    if (event) {
      listener_.on_event(std::move(*event));
      continue;
    }
    // A runner that talks nonsense cannot be trusted with processes: it is ended, and its exit told.
    std::fprintf(stderr, "kcx: runner %d: %s\n", static_cast<int>(pid_), event.error().message.c_str());
    broken_ = true;
    terminate();
  }
}

void runner_process::await_exit() {
  pidfd_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& failure) {
                      if (!failure)
                        self->exited();
                    });
}

void runner_process::exited() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_.emplace();
  if (WIFEXITED(status))
    exit_->exit_code = WEXITSTATUS(status);
  else if (WIFSIGNALED(status))
    exit_->signal = WTERMSIG(status);
  {
    const std::lock_guard lock{outbox_};
    gone_ = true;
  }
  boost::system::error_code ignored;
  pidfd_.close(ignored);
  // A read may have ended already, with its handler to come: what it read comes before what is left in the socket.
  if (reading_)
    channel_.cancel(ignored);
  else
    finish();
}

void runner_process::finish() {
  // What the runner said last may still lie in the socket.
  boost::system::error_code failure;
  channel_.non_blocking(true, failure);
  while (!failure && !broken_) {
    const auto size = channel_.read_some(asio::buffer(buffer_), failure);
    if (!failure)
      consume(size);
  }
  {
    const std::lock_guard lock{outbox_};
    channel_.close(failure);
  }
  forget_(pid_);
  listener_.on_exit(*exit_);
  // Whoever listened may be waiting to be destroyed.
  listener_ = {};
}

void runner_process::signal(int number) noexcept {
  asio::post(io_, [self = shared_from_this(), number] {
    // By pidfd, on the thread that reaps: the process id cannot have been given to another.
    if (self->pidfd_.is_open())
      ::syscall(SYS_pidfd_send_signal, self->pidfd_.native_handle(), number, nullptr, 0);
  });
}

void runner_process::terminate() noexcept {
  signal(SIGTERM);
}

void runner_process::destroy() noexcept {
  signal(SIGKILL);
}

void runner_process::hang_up() {
  const std::lock_guard lock{outbox_};
  gone_ = true;
  boost::system::error_code ignored;
  // Only our writing side: what the runner still reports is read.
  channel_.shutdown(socket::shutdown_send, ignored);
}

} // namespace kcx
