/// Threads for what blocks: reading log files, waiting for others' servers. So neither an actor nor the HTTP io thread
/// ever does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace kcx::http {

/// How work reaches a file thread. Tests pass one that runs it at once.
using file_executor = std::function<void(std::function<void()>)>;

/// A queue of work and its threads. Owned by the node; outlives everything that posts to it through executor().
class file_threads {
public:
  /// One thread is enough for a local disk; more help when some of them wait for a slow one.
  explicit file_threads(std::size_t count = 2);
  /// Lets the running pieces of work end; those that wait are dropped.
  ~file_threads();
  file_threads(const file_threads&) = delete;
  file_threads& operator=(const file_threads&) = delete;

  /// Runs `work` on one of the threads, in order of posting where there is one thread. Any thread.
  void post(std::function<void()> work);

  /// As the destructor does it. From then on work is dropped.
  void stop();

  [[nodiscard]] file_executor executor() {
    return [this](std::function<void()> work) { post(std::move(work)); };
  }

private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<std::function<void()>> work_;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

} // namespace kcx::http
