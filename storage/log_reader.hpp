/// Reads the log of one attempt while it is written by another process, or afterwards, compressed or not.
///
/// Used by the node. No locks: what the index covers is complete and never changes, except that the middle of a log
/// beyond its limit is cut; a reader that meets the gap is told. One reader may be used by one thread at a time; any
/// number of readers may read one log.
#pragma once

#include "config/error.hpp"
#include "config/posix.hpp"
#include "storage/log_format.hpp"
#include "storage/seekable_file.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kcx {

/// How far a log has come.
struct log_extent {
  /// Logical size: readable offsets are [0, gap_begin) and [gap_end, size).
  std::uint64_t size = 0;
  /// The cut middle; both 0 where nothing is cut.
  std::uint64_t gap_begin = 0;
  std::uint64_t gap_end = 0;
  /// Number of records, those in the gap included.
  std::uint64_t records = 0;
  /// Whether bytes were lost to a full disk.
  bool lost = false;
  /// Whether the writer has closed it: it will never change again.
  bool closed = false;
  /// Where the line before the gap begins that marks it; gap_begin where there is none. Its offsets were given to bytes
  /// of the job before they were cut.
  std::uint64_t mark_begin = 0;
  /// Whether it was closed on a disk that did not even take the notice of what it had refused.
  bool untold = false;
};

/// Whether loss_mark belongs behind a log that was recorded as cut, and grows no more. One that could not be closed may
/// lack the notice, too.
[[nodiscard]] inline bool needs_loss_mark(const log_extent& extent) noexcept {
  return extent.closed ? extent.untold : extent.gap_end == 0;
}

/// A piece of a log.
struct log_chunk {
  std::string bytes;
  /// Offset of the first byte; larger than the one asked for if that lay in the gap.
  std::uint64_t offset = 0;
  /// Where to go on reading: offset + bytes.size().
  std::uint64_t next = 0;
  /// Bytes of the gap that were stepped over to get to `offset`, 0 if none.
  std::uint64_t skipped = 0;
  /// Whether the line that marks the cut comes right before those: else whoever reads on finds no line between the two.
  bool marked = false;
};

/// A record with its number.
struct numbered_record {
  std::uint64_t number = 0;
  log_record record;
};

class log_reader {
public:
  /// Opens both files of a log. Fails with ec::not_found if one is missing or only just being made,
  /// ec::storage_unusable if the index is not one, or ec::system_failed.
  [[nodiscard]] static expected<log_reader> open(const std::filesystem::path& data_file);

  /// The present extent. One or two small reads. Fails with ec::storage_failed.
  [[nodiscard]] expected<log_extent> extent() const;

  /// Up to `max` bytes from `offset` on. At or beyond the end: no bytes, `next` = `offset`. Never reads across the
  /// gap's begin. Fails with ec::storage_failed.
  [[nodiscard]] expected<log_chunk> read(std::uint64_t offset, std::size_t max) const;

  /// The offset where the last `lines` lines begin, which may lie before the gap: the line that marks it counts as one.
  /// A last line without a newline counts. `lines` = 0 gives the size. Reads backwards, a block at a time.
  [[nodiscard]] expected<std::uint64_t> tail(std::uint64_t lines) const;

  /// Up to `max` records from number `first` on, gap and end records left out; those that were cut are stepped over.
  /// Empty at the end.
  [[nodiscard]] expected<std::vector<numbered_record>> records(std::uint64_t first, std::size_t max) const;

  /// Number of the record that holds the byte at `offset` (of the first after it, if that was cut); the number of
  /// records if there is none.
  [[nodiscard]] expected<std::uint64_t> record_at(std::uint64_t offset) const;

private:
  /// One of the two files, in either form.
  class file {
  public:
    [[nodiscard]] static expected<file> open(const std::filesystem::path& path);

    [[nodiscard]] bool compressed() const noexcept { return packed_ != nullptr; }
    /// Fails with ec::storage_failed.
    [[nodiscard]] expected<std::uint64_t> size() const;
    /// How many bytes were read; where they are fewer and it is not the end, errno tells why.
    [[nodiscard]] std::size_t read_at(char* to, std::size_t size, std::uint64_t offset) const;

  private:
    unique_fd plain_;
    std::unique_ptr<seekable_reader> packed_;
  };

  log_reader(file data, file index) : data_{std::move(data)}, index_{std::move(index)} {}

  [[nodiscard]] bool load(std::uint64_t number, log_record& record) const;
  /// Reads bytes that lie on one side of the gap.
  [[nodiscard]] bool load_bytes(char* to, std::size_t size, std::uint64_t offset, const log_extent& extent) const;

  file data_;
  file index_;
};

} // namespace kcx
