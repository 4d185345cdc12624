/// The files that hold one attempt's log, as they lie on disk.
///
/// The data file (`<id>-<attempt>.log`) holds the raw bytes, each at its logical offset: byte 17 of the log is byte 17
/// of the file. The index (`<id>-<attempt>.idx`) is a header followed by fixed-size records in the order of writing;
/// record n tells when and from where a run of bytes came. A byte is part of the log once a record covers it.
///
/// Where a log passes its limit, the middle is cut: both files get a hole (no disk space) and offsets stay what they
/// were. The first bytes of what is cut give their place to a line that says so (cut_mark), the last that is read
/// before the gap. Every record carries the end of that gap as it was when the record was written, so the last record
/// alone tells a reader the size and the gap.
///
/// After the attempt has ended, either file may be compressed (log_archive_path()). For a moment both forms are there;
/// they say the same.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kcx {

static_assert(std::endian::native == std::endian::little, "index files are little endian");

/// What a record is. Stored in index files: append only, never renumber.
enum class log_stream : std::uint8_t {
  /// Not a record: part of the hole that a cut left in the index.
  none = 0,
  out = 1,
  err = 2,
  /// Text by the runner itself (time limit, cut, …); it is part of the log's bytes too.
  notice = 3,
  /// Covers no bytes; the gap grew to `gap_end`.
  gap = 4,
  /// Covers no bytes; the log is closed and never changes again.
  end = 5,
};

/// One record of an index. Stored: do not change the layout.
struct log_record {
  /// When the first of the bytes was read, milliseconds since the epoch.
  std::int64_t time_ms = 0;
  /// Logical offset of the first byte.
  std::uint64_t offset = 0;
  /// Logical offset up to which the middle is cut, or 0 where nothing is cut. The gap begins at log_header::gap_begin.
  std::uint64_t gap_end = 0;
  /// Number of bytes.
  std::uint32_t length = 0;
  /// Index of the step that wrote them.
  std::uint16_t step = 0;
  log_stream stream = log_stream::none;
  /// log_bytes_lost, log_loss_untold.
  std::uint8_t flags = 0;
};
inline constexpr std::size_t record_size = sizeof(log_record);
static_assert(record_size == 32);

/// Set on records written after bytes were lost that never got an offset (full disk).
inline constexpr std::uint8_t log_bytes_lost = 1;
/// Set on an end record where the last of them have no notice: there was no room for that either.
inline constexpr std::uint8_t log_loss_untold = 2;

/// The first 32 bytes of an index. Stored: do not change the layout.
struct log_header {
  char magic[8] = {'K', 'C', 'X', 'L', 'O', 'G', '1', '\n'};
  std::int64_t created_ms = 0;
  /// Where the gap begins once there is one, otherwise 0.
  std::uint64_t gap_begin = 0;
  /// Where the line that marks the cut begins; it ends at gap_begin. 0 where there is none.
  std::uint64_t mark_begin = 0;
};
static_assert(sizeof(log_header) == record_size);

/// The line between what is kept of a log that was cut; a newline comes before it where none was.
inline constexpr std::string_view cut_mark = "kcx: the middle of this log is left out\n";

/// What is shown behind a log that is cut without a line in it that says so (needs_loss_mark()). Not part of the log.
inline constexpr std::string_view loss_mark = "kcx: output is missing in this log: it could not be stored\n";

/// The data file of an attempt: `<data>/logs/<id / 1000>/<id>-<attempt>.log`.
[[nodiscard]] std::filesystem::path log_path(const std::filesystem::path& data_dir, std::int64_t job_id,
                                             std::int32_t attempt);

/// The index that belongs to a data file.
[[nodiscard]] std::filesystem::path log_index_path(std::filesystem::path data_file);

/// What a file of a log is called once it is compressed (storage/seekable_file.hpp). Of a data file whose middle was
/// cut it holds what is left, without the hole; of an index all of it.
[[nodiscard]] std::filesystem::path log_archive_path(const std::filesystem::path& file);

/// Removes all files of a log. Files that are not there are no error. Returns false if one could not be removed.
bool remove_log(const std::filesystem::path& data_file) noexcept;

} // namespace kcx
