/// The output of one running job: two pipes in, a masked log out. Used by job_run only.
#pragma once

#include "actors/runner/secret_masker.hpp"
#include "config/error.hpp"
#include "config/posix.hpp"
#include "storage/log_writer.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

namespace kcx {

using steady_time = std::chrono::steady_clock::time_point;

/// Both pipes live as long as the job, not as a step: what a process that outlives its step writes is kept. So do their
/// maskers: a secret of which one half is written before the end of a step, or before a notice, and the other behind
/// it, is masked as any other. What is held back at the end of a step is counted to the one that goes on with it.
class job_output {
public:
  /// Creates the log and the pipes. Fails as log_writer::create, or with ec::system_failed.
  [[nodiscard]] static expected<std::unique_ptr<job_output>> create(const std::string& log_file, log_bounds bounds,
                                                                    const std::vector<std::string>& secrets);

  /// The ends that processes of the job write to.
  [[nodiscard]] int out() const noexcept { return pipes_[0].write_end.value(); }
  [[nodiscard]] int err() const noexcept { return pipes_[1].write_end.value(); }

  /// Output belongs to this step from now on.
  void begin_step(std::uint16_t index) noexcept { step_ = index; }

  /// Takes what the pipes hold now, at most a few pipes full. Returns whether anything came.
  bool take();

  /// Nothing more can come: takes what the pipes hold, closes them, and shows what the maskers held back.
  void end();

  /// Closes the runner's own copies of the write ends, so that ended() can come true.
  void close_write_ends() noexcept;

  /// Whether nobody holds a write end any more.
  [[nodiscard]] bool ended() const noexcept { return !pipes_[0].read_end && !pipes_[1].read_end; }

  /// Adds the read ends that can still bring something.
  void wants(std::vector<pollfd>& polled) const;

  /// A line by the runner itself, after everything that the job has written so far, but for the few bytes that a masker
  /// holds back since they may be the begin of a secret: those follow it.
  void notice(const std::string& text);

  /// Lets readers see what was taken. Called whenever flush_at() has come.
  void flush();
  [[nodiscard]] std::optional<steady_time> flush_at() const noexcept { return flush_at_; }

  /// Bytes in the log, those that wait for flush() included.
  [[nodiscard]] std::uint64_t size() const noexcept { return log_.size(); }

  /// Closes pipes and log.
  log_sizes close();

  /// A text with the job's secrets masked.
  [[nodiscard]] std::string mask(std::string_view text) const { return masked(patterns_, text); }

  /// Whether a text holds none of them.
  [[nodiscard]] bool shows(std::string_view text) const { return mask(text) == text; }

  /// When the job last wrote something.
  [[nodiscard]] steady_time last_output() const noexcept { return last_output_; }

private:
  struct source {
    unique_fd read_end;
    unique_fd write_end;
    log_stream stream;
    secret_masker masker;
  };

  job_output(log_writer log, std::shared_ptr<const secret_patterns> patterns);
  bool take_from(source& from);

  log_writer log_;
  std::shared_ptr<const secret_patterns> patterns_;
  std::array<source, 2> pipes_;
  std::uint16_t step_ = 0;
  steady_time last_output_ = std::chrono::steady_clock::now();
  std::optional<steady_time> flush_at_;
  std::string shown_;
};

/// Milliseconds since the epoch by the system clock.
[[nodiscard]] std::int64_t wall_ms() noexcept;

} // namespace kcx
