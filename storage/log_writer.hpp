/// Writes the log of one attempt: raw bytes in one file, records in another (storage/log_format.hpp).
///
/// One writer per log, used by the runner from its only thread; readers in other processes (storage/log_reader.hpp)
/// follow without locks.
#pragma once

#include "config/error.hpp"
#include "config/posix.hpp"
#include "storage/log_format.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kcx {

/// What a log holds. Final once close() has returned it.
struct log_sizes {
  /// Logical size: every offset below it has been given to a byte.
  std::uint64_t bytes = 0;
  /// Bytes that can be read, that is without the gap.
  std::uint64_t stored = 0;
  /// Records of the index, those in the gap included.
  std::uint64_t records = 0;
  /// Bytes that never got an offset because the disk was full.
  std::uint64_t lost = 0;
  /// Whether anything is missing.
  bool cut = false;

  bool operator==(const log_sizes&) const = default;
};

/// The smallest limit a log can have, in bytes; smaller ones are raised to it.
inline constexpr std::uint64_t min_log_limit = 1024;

/// How large a log may grow.
struct log_bounds {
  /// Kept at most, all of a log that is no larger (unless it comes in very many pieces of a few bytes): of others the
  /// first half and the last, with cut_mark between them.
  std::uint64_t limit_bytes = 64U << 20;
  /// Free space of the disk that the log leaves alone: it counts as full below it. Looked at every now and then only.
  std::uint64_t reserve_bytes = 0;
};

class log_writer {
public:
  /// Creates both files exclusively with mode 0600, and the two directories above them (0700) if they are missing.
  /// Fails with ec::conflict if either file exists, ec::storage_full, or ec::system_failed; then neither file is left
  /// behind by this call.
  [[nodiscard]] static expected<log_writer> create(const std::filesystem::path& data_file, log_bounds bounds,
                                                   std::int64_t now_ms);
  [[nodiscard]] static expected<log_writer> create(const std::filesystem::path& data_file, std::uint64_t limit_bytes,
                                                   std::int64_t now_ms) {
    return create(data_file, log_bounds{limit_bytes, 0}, now_ms);
  }

  /// Goes on with a log that was not closed, after a restart of the process that wrote it. Nobody else may write it.
  /// Bytes without a record are overwritten. Fails with ec::conflict if it was closed, or ec::system_failed.
  [[nodiscard]] static expected<log_writer> resume(const std::filesystem::path& data_file, log_bounds bounds);

  log_writer(log_writer&&) noexcept = default;
  log_writer& operator=(log_writer&&) noexcept = default;

  /// Adds bytes as they are. Never fails: what a full disk refuses is counted as lost, and once writing works again a
  /// notice tells how much. Readers see the bytes after the next flush() at the latest.
  void append(log_stream stream, std::uint16_t step, std::string_view bytes, std::int64_t now_ms);

  /// Adds a line of the runner's own: on a line of its own, with "kcx: " before and a newline after it.
  void notice(std::uint16_t step, std::string_view text, std::int64_t now_ms);

  /// Shows readers everything appended so far. Bytes that arrive within 10 ms of each other share a record, so a caller
  /// that has nothing more to append calls this within about that time.
  void flush(std::int64_t now_ms);

  /// Whether appended bytes wait for flush().
  [[nodiscard]] bool pending() const noexcept { return pending_.has_value(); }

  /// Logical size, bytes that wait for flush() included.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Tells of cuts in a last notice, marks the log as closed and flushes both files to the disk. Nothing may be
  /// appended afterwards; calling it again returns the same sizes. A log without a single byte is not synced: a reader
  /// takes a missing one for empty.
  log_sizes close(std::int64_t now_ms);

private:
  log_writer(unique_fd data, unique_fd index, log_bounds bounds);

  [[nodiscard]] log_sizes sizes() const noexcept;
  [[nodiscard]] std::size_t room(std::string_view bytes) const noexcept;
  [[nodiscard]] bool head_is_full_for(std::string_view bytes) const noexcept;
  [[nodiscard]] bool in_head() const noexcept { return !head_end_.has_value(); }
  void put(log_stream stream, std::uint16_t step, std::string_view bytes, std::int64_t now_ms);
  bool write_record(log_record record);
  [[nodiscard]] bool below_reserve() noexcept;
  void lose(std::uint64_t bytes, std::int64_t now_ms, std::string why);
  [[nodiscard]] bool losing() const noexcept { return !lost_why_.empty(); }
  bool recovered(std::int64_t now_ms);
  void end_head() noexcept;
  void end_head_if_full();
  void find_head();
  void enforce_limit(std::int64_t now_ms);
  void cut(std::uint64_t first_kept, std::uint64_t gap_end, std::int64_t now_ms);
  void mark_cut(std::uint64_t first_kept, std::int64_t now_ms);
  [[nodiscard]] bool load(std::uint64_t number, log_record& record) const noexcept;
  [[nodiscard]] bool line_begins_at(std::uint64_t offset) const noexcept;
  [[nodiscard]] std::uint64_t first_record_from(std::uint64_t offset) const;
  [[nodiscard]] std::uint64_t first_line_from(std::uint64_t number) const;

  unique_fd data_;
  unique_fd index_;
  std::uint64_t reserve_ = 0;
  /// The reserve is looked at when the log has grown to this size.
  std::uint64_t look_at_ = 0;
  std::uint64_t limit_ = 0;
  std::uint64_t head_limit_ = 0;
  std::uint64_t tail_limit_ = 0;
  std::uint64_t tail_keep_ = 0;
  std::uint64_t max_records_ = 0;
  std::uint32_t max_length_ = 0;

  std::uint64_t size_ = 0;
  std::uint64_t records_ = 0;
  std::optional<log_record> pending_;
  /// Set when the first half is complete: everything before it is kept for good. Behind the mark once there is one.
  std::optional<std::uint64_t> head_end_;
  /// Where the mark begins.
  std::optional<std::uint64_t> mark_begin_;
  /// Index of the first record that is neither head nor cut.
  std::uint64_t tail_record_ = 0;
  std::uint64_t head_records_ = 0;
  std::uint64_t gap_end_ = 0;
  /// Whether the first cut was for the number of records.
  bool cut_for_records_ = false;
  bool can_punch_ = true;
  bool ends_line_ = true;

  std::uint64_t lost_ = 0;
  std::uint64_t lost_untold_ = 0;
  std::int64_t retry_at_ms_ = 0;
  /// Why what comes is lost now; empty while it is not.
  std::string lost_why_;
  std::optional<log_sizes> closed_;
};

} // namespace kcx
