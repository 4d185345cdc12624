/// Compresses the logs of attempts that have ended, one after the other, on a thread of its own that gives way to all
/// others. No actor: whoever hears that an attempt has ended adds it.
///
/// It remembers nothing: what it had not come to when the node ended is added again at the next start.
#pragma once

#include "storage/job.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace kcx {

class log_archiver {
public:
  using clock = std::chrono::steady_clock;

  /// `delay` tells how long a log is left alone after it was added: somebody may be reading it, and it may be removed
  /// soon. Asked again each time; must not block. No more than `most` wait at the same time.
  log_archiver(std::filesystem::path data_dir, std::function<std::chrono::milliseconds()> delay,
               std::size_t most = 1'000'000);
  /// Lets the log at hand be finished.
  ~log_archiver();
  log_archiver(const log_archiver&) = delete;
  log_archiver& operator=(const log_archiver&) = delete;

  /// Nobody writes to the log of this attempt any more. Adding it twice, or one that has no log, is harmless. While as
  /// many wait as may, it stays as it is until the node starts again. Any thread.
  void add(attempt_key key);

  /// The delay has changed.
  void look_again() { changed_.notify_all(); }

private:
  struct entry {
    attempt_key key;
    clock::time_point added;
  };

  void run(const std::stop_token& stop);
  void archive(attempt_key key) const;

  std::filesystem::path data_dir_;
  std::function<std::chrono::milliseconds()> delay_;
  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<entry> waiting_;
  std::jthread thread_;
};

} // namespace kcx
