/// A log as a response body that grows with it: sent as far as it is written, then waits, until the attempt is final.
///
/// The bridge makes one per follower, wakes it when the log grew and tells it the end; the session pulls. It reads on
/// the file threads. Knows neither CAF nor Beast.
///
/// No wake-up can be lost: wake() and finish() set a mark that a reading in progress looks at before it goes to sleep,
/// and the bridge calls wake() once more after its subscription is known to stand.
#pragma once

#include "actors/http/logs/file_thread.hpp"
#include "actors/http/logs/log_encoding.hpp"
#include "actors/http/message/message.hpp"
#include "storage/log_reader.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace kcx::http {

struct follow_options {
  /// Where to begin.
  std::uint64_t offset = 0;
  /// Begin so many lines before the present end instead.
  std::optional<std::uint64_t> tail;
  bool timestamps = false;
  /// Server-sent events instead of plain bytes.
  bool events = false;
  /// Events whose bytes are no UTF-8 carry them as base64.
  bool exact = false;
};

/// All members may be called from any thread.
class log_follow : public body_source, public std::enable_shared_from_this<log_follow> {
public:
  /// `gone` is called once, when the client went away or the body ended, possibly from the destructor. Must not throw.
  log_follow(file_executor files, follow_options options, std::function<void()> gone);
  ~log_follow() override;

  /// The file to read; until then there is nothing to send. The first call wins.
  void attach(std::filesystem::path data_file);
  /// There may be more to read.
  void wake();
  /// The attempt is final with a log of `bytes`; what is left is sent, with loss_mark behind it if it is `cut` and does
  /// not say so, then `end_document` as the `end` event (events only), then the body ends. The first call wins.
  void finish(std::uint64_t bytes, std::string end_document, bool cut = false);
  /// The log cannot be had: the connection is cut.
  void fail();
  /// Sends a comment if the client waits: keeps proxies and browsers from giving up. Events only.
  void ping();

  void next(std::size_t max_bytes, chunk_handler done) override;
  void cancel() noexcept override;

private:
  struct finality {
    std::uint64_t bytes = 0;
    std::string document;
    bool cut = false;
  };
  enum class progress : std::uint8_t { more, nothing, ended, failed };

  /// Lets go of the lock if it starts one.
  void start_reading(std::unique_lock<std::mutex>& lock);
  void read();
  /// Reads one piece of the log into out_. On the file threads, one at a time.
  progress produce(const std::optional<finality>& end);
  progress open(const std::optional<finality>& end);
  progress encode(log_chunk piece, const std::optional<finality>& end);
  progress write_end(const finality& end);
  void deliver(progress how);
  void tell_gone() noexcept;

  const file_executor files_;
  const follow_options options_;

  std::mutex mutex_;
  std::function<void()> gone_;
  std::filesystem::path file_;
  std::optional<finality> end_;
  chunk_handler pending_;
  std::size_t wanted_ = 0;
  bool reading_ = false;
  /// Something happened since the reading in progress looked.
  bool woken_ = false;
  bool failed_ = false;
  bool cancelled_ = false;

  // Of the reading in progress alone.
  std::optional<log_reader> reader_;
  std::uint64_t offset_ = 0;
  /// Whether what was sent ends within a line; not known where a client goes on.
  bool line_open_ = false;
  line_stamper stamper_;
  /// Encoded, not yet handed on.
  std::string out_;
  std::size_t out_at_ = 0;
  bool end_written_ = false;
};

} // namespace kcx::http
