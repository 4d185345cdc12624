#include "actors/node/log_archiver.hpp"

#include "storage/log_archive.hpp"
#include "storage/log_format.hpp"

#include <spdlog/spdlog.h>

#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace {

constexpr int low_priority = 10;

} // namespace

log_archiver::log_archiver(std::filesystem::path data_dir, std::function<std::chrono::milliseconds()> delay,
                           std::size_t most)
  : data_dir_{std::move(data_dir)}, delay_{std::move(delay)}, most_{most}, thread_{[this](const std::stop_token& stop) {
      run(stop);
    }} {}

log_archiver::~log_archiver() {
  thread_.request_stop();
  thread_.join();
}

void log_archiver::add(attempt_key key) {
  {
    const std::lock_guard lock{mutex_};
    // A delay of a hundred years must not fill the memory.
    if (waiting_.size() >= most_)
      return;
    waiting_.push_back({key, clock::now()});
    if (waiting_.size() > 1)
      return; // the thread waits for the first one
  }
  changed_.notify_one();
}

void log_archiver::run(const std::stop_token& stop) {
  // Of this thread alone, as Linux has it.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), low_priority);
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    if (waiting_.empty()) {
      changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
      continue;
    }
    const auto due = waiting_.front().added + delay_();
    if (clock::now() < due) {
      // Woken by a change of the delay, too; adding to the end changes nothing.
      changed_.wait_until(lock, stop, due, [this, due] { return waiting_.front().added + delay_() < due; });
      continue;
    }
    const auto key = waiting_.front().key;
    waiting_.pop_front();
    lock.unlock();
    archive(key);
    lock.lock();
  }
}

void log_archiver::archive(attempt_key key) const {
  const auto file = log_path(data_dir_, key.job.value, key.attempt);
  if (const auto archived = archive_log(file); !archived)
    spdlog::warn("the log of attempt {} of job {} stays uncompressed: {}", key.attempt, key.job.value,
                 archived.error().message);
}

} // namespace kcx
