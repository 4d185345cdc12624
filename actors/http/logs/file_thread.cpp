#include "actors/http/logs/file_thread.hpp"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace kcx::http {

file_threads::file_threads(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
}

file_threads::~file_threads() {
  stop();
}

void file_threads::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock{mutex_};
    stopped_ = true;
    dropped.swap(work_);
  }
  for (auto& each : threads_)
    each.request_stop();
  threads_.clear();
}

void file_threads::post(std::function<void()> work) {
  {
    const std::lock_guard lock{mutex_};
    if (stopped_)
      return;
    work_.push_back(std::move(work));
  }
  ready_.notify_one();
}

void file_threads::run(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock{mutex_};
      if (!ready_.wait(lock, stop, [this] { return !work_.empty(); }) || stop.stop_requested())
        return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    try {
      work();
    } catch (const std::exception& failure) { // Whoever waits for it is answered when the work's captures go.
      spdlog::error("work that was put aside failed: {}", failure.what());
    }
  }
}

} // namespace kcx::http
