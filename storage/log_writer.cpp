#include "storage/log_writer.hpp"

#include "storage/disk_guard.hpp"

#include <algorithm>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <utility>

namespace kcx {

namespace {

constexpr std::int64_t share_record_ms = 10;
constexpr std::int64_t retry_full_disk_ms = 1000;
/// How much a log grows between two looks at the free space.
constexpr std::uint64_t look_every = 64 * 1024;

/// Gives back the disk space of [begin, to), where [begin, from) is a hole already.
bool punch(int fd, std::uint64_t begin, std::uint64_t from, std::uint64_t to) {
  // A block that two holes share is freed only by a hole that covers all of it.
  constexpr std::uint64_t largest_block = 64 * 1024;
  from = std::max(begin, from / largest_block * largest_block);
  return to <= from || ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                                   static_cast<off_t>(to - from)) == 0;
}

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// A short write says nothing about its cause.
std::string words_of(int number) {
  return std::strerror(number != 0 ? number : EIO);
}

expected<unique_fd> create_file(const std::filesystem::path& path) {
  unique_fd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (fd)
    return fd;
  if (errno == EEXIST)
    return error{ec::conflict, "the log file " + path.string() + " exists already", {}};
  return system_failure("cannot create the log file " + path.string());
}

} // namespace

expected<log_writer> log_writer::create(const std::filesystem::path& data_file, log_bounds bounds,
                                        std::int64_t now_ms) {
  const auto directory = data_file.parent_path();
  if (::mkdir(directory.c_str(), 0700) != 0 && errno == ENOENT) {
    ::mkdir(directory.parent_path().c_str(), 0700);
    ::mkdir(directory.c_str(), 0700);
  }
  auto data = create_file(data_file);
  if (!data)
    return std::move(data).error();
  const auto index_file = log_index_path(data_file);
  auto index = create_file(index_file);
  if (!index) {
    ::unlink(data_file.c_str());
    return std::move(index).error();
  }
  log_header header;
  header.created_ms = now_ms;
  if (write_at(index->value(), bytes_of(header), 0) != sizeof header) {
    auto failure = system_failure("cannot write the log index " + index_file.string());
    ::unlink(data_file.c_str());
    ::unlink(index_file.c_str());
    return failure;
  }
  bounds.limit_bytes = std::max(bounds.limit_bytes, min_log_limit);
  return log_writer{std::move(*data), std::move(*index), bounds};
}

log_writer::log_writer(unique_fd data, unique_fd index, log_bounds bounds)
  : data_{std::move(data)}, index_{std::move(index)}, reserve_{bounds.reserve_bytes}, limit_{bounds.limit_bytes},
    head_limit_{limit_ / 2 - cut_mark.size() - 1}, tail_limit_{limit_ / 2} {
  // Cutting an eighth at a time keeps the number of cuts small, and the log never above its limit.
  tail_keep_ = tail_limit_ - tail_limit_ / 8;
  // A job that writes single bytes to both streams in turn makes a record of each: bound the index by bytes as well.
  max_records_ = std::max<std::uint64_t>(1'024, tail_limit_ / record_size);
  max_length_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(tail_limit_ / 16, 16, 1U << 20));
}

void log_writer::append(log_stream stream, std::uint16_t step, std::string_view bytes, std::int64_t now_ms) {
  if (closed_ || bytes.empty())
    return;
  if (losing() && !recovered(now_ms)) {
    lost_ += bytes.size();
    lost_untold_ += bytes.size();
    return;
  }
  put(stream, step, bytes, now_ms);
}

void log_writer::put(log_stream stream, std::uint16_t step, std::string_view bytes, std::int64_t now_ms) {
  while (!bytes.empty()) {
    if (pending_ && (pending_->stream != stream || pending_->step != step || pending_->length >= max_length_ ||
                     now_ms - pending_->time_ms > share_record_ms || now_ms < pending_->time_ms))
      flush(now_ms);
    if (losing())
      return lose(bytes.size(), now_ms, lost_why_);
    if (size_ >= look_at_ && below_reserve()) {
      flush(now_ms);
      return lose(bytes.size(), now_ms, no_room_beside(reserve_));
    }
    if (head_is_full_for(bytes)) {
      flush(now_ms);
      if (in_head() && !losing())
        end_head();
      continue;
    }
    const auto n = room(bytes);
    if (n == 0) {
      flush(now_ms);
      continue;
    }
    const auto written = write_at(data_.value(), bytes.substr(0, n), size_);
    const auto number = errno;
    if (written > 0) {
      if (!pending_)
        pending_ = log_record{now_ms, size_, 0, 0, step, stream, 0};
      pending_->length += static_cast<std::uint32_t>(written);
      size_ += written;
      ends_line_ = bytes[written - 1] == '\n';
    }
    if (written < n) {
      flush(now_ms);
      return lose(bytes.size() - written, now_ms, words_of(number));
    }
    bytes.remove_prefix(n);
    if (in_head() && size_ >= head_limit_)
      flush(now_ms);
  }
}

// How many of these bytes the record at hand takes; none if it is to be ended first.
std::size_t log_writer::room(std::string_view bytes) const noexcept {
  std::uint64_t n = max_length_ - (pending_ ? pending_->length : 0);
  // The head ends at its limit at the latest, so a gap covers whole records.
  if (in_head() && size_ < head_limit_)
    n = std::min(n, head_limit_ - size_);
  if (bytes.size() <= n)
    return bytes.size();
  // Records end with a line where they can: any of them may be the first behind a gap.
  const auto line_end = bytes.substr(0, n).rfind('\n');
  if (line_end != std::string_view::npos)
    return line_end + 1;
  return pending_ && ends_line_ ? 0 : n;
}

// Whether the end of the head would cut a line that would be its last.
bool log_writer::head_is_full_for(std::string_view bytes) const noexcept {
  if (!in_head() || !ends_line_ || size_ >= head_limit_)
    return false;
  const auto left = head_limit_ - size_;
  return left <= head_limit_ / 16 && left < bytes.size() && bytes.substr(0, left).find('\n') == std::string_view::npos;
}

void log_writer::flush(std::int64_t now_ms) {
  if (!pending_)
    return;
  const auto record = *pending_;
  pending_.reset();
  if (!write_record(record)) {
    const auto number = errno;
    size_ = record.offset;
    return lose(record.length, now_ms, words_of(number));
  }
  end_head_if_full();
  enforce_limit(now_ms);
}

bool log_writer::write_record(log_record record) {
  record.gap_end = gap_end_;
  record.flags = lost_ > 0 ? log_bytes_lost : std::uint8_t{0};
  if (record.stream == log_stream::end && lost_untold_ > 0)
    record.flags |= log_loss_untold;
  if (write_at(index_.value(), bytes_of(record), (records_ + 1) * record_size) != record_size)
    return false;
  ++records_;
  return true;
}

bool log_writer::below_reserve() noexcept {
  struct statvfs about {};
  if (reserve_ == 0 || ::fstatvfs(data_.value(), &about) != 0)
    return false;
  const auto left = static_cast<std::uint64_t>(about.f_bavail) * about.f_frsize;
  // Others fill the disk as well, so what is left now says little about how long that lasts.
  look_at_ = size_ + look_every;
  return left < reserve_;
}

void log_writer::lose(std::uint64_t bytes, std::int64_t now_ms, std::string why) {
  lost_ += bytes;
  lost_untold_ += bytes;
  lost_why_ = std::move(why);
  retry_at_ms_ = now_ms + retry_full_disk_ms;
}

bool log_writer::recovered(std::int64_t now_ms) {
  if (!can_punch_ || now_ms < retry_at_ms_)
    return false;
  look_at_ = size_;
  if (below_reserve()) {
    retry_at_ms_ = now_ms + retry_full_disk_ms;
    return false;
  }
  const auto told = lost_untold_;
  const auto why = std::exchange(lost_why_, {});
  notice(0, std::to_string(told) + " bytes of output are missing here: " + why, now_ms);
  flush(now_ms);
  if (losing()) {
    // The notice itself did not fit: it is no output of the job.
    lost_ -= lost_untold_ - told;
    lost_untold_ = told;
    return false;
  }
  lost_untold_ -= told;
  return true;
}

void log_writer::notice(std::uint16_t step, std::string_view text, std::int64_t now_ms) {
  std::string line = ends_line_ ? "kcx: " : "\nkcx: ";
  line += text;
  line += '\n';
  flush(now_ms);
  if (!closed_ && !losing())
    put(log_stream::notice, step, line, now_ms);
}

void log_writer::end_head_if_full() {
  if (in_head() && (size_ >= head_limit_ || records_ >= max_records_))
    end_head();
}

void log_writer::end_head() noexcept {
  head_end_ = size_;
  head_records_ = records_;
  tail_record_ = records_;
}

void log_writer::enforce_limit(std::int64_t now_ms) {
  if (in_head() || !can_punch_)
    return;
  const auto tail_begin = std::max(gap_end_, *head_end_);
  const auto tail_records = records_ - tail_record_;
  // Nothing goes before it must: until then no place is needed for the line that tells of it.
  const bool fits = gap_end_ == 0 ? size_ <= limit_ : size_ - tail_begin <= tail_limit_;
  if (fits && tail_records <= max_records_)
    return;
  cut_for_records_ = cut_for_records_ || (gap_end_ == 0 && fits);
  auto first_kept = tail_record_;
  if (size_ - tail_begin > tail_keep_)
    first_kept = first_record_from(size_ - tail_keep_);
  if (tail_records > max_records_)
    first_kept = std::max(first_kept, records_ - max_records_ / 2);
  first_kept = first_line_from(first_kept);
  log_record record;
  auto gap_end = size_;
  if (first_kept < records_ && load(first_kept, record))
    gap_end = record.offset;
  cut(first_kept, gap_end, now_ms);
}

void log_writer::cut(std::uint64_t first_kept, std::uint64_t gap_end, std::int64_t now_ms) {
  if (gap_end_ == 0) {
    log_header header;
    const auto at = offsetof(log_header, gap_begin);
    if (write_at(index_.value(), bytes_of(*head_end_), at) != sizeof header.gap_begin)
      return;
  }
  const auto before = gap_end_;
  gap_end_ = gap_end;
  // Readers must know of the gap before its bytes go.
  if (!write_record({now_ms, size_, 0, 0, 0, log_stream::gap, 0})) {
    gap_end_ = before;
    return;
  }
  mark_cut(first_kept, now_ms);
  if (!punch(data_.value(), *head_end_, before, gap_end_)) {
    // A file system without holes: nothing more is stored, so that the limit still holds.
    can_punch_ = false;
    lose(0, now_ms, words_of(EFBIG));
  }
  if (can_punch_)
    punch(index_.value(), (head_records_ + 1) * record_size, (tail_record_ + 1) * record_size,
          (first_kept + 1) * record_size);
  tail_record_ = first_kept;
}

// Readers step over all of the gap, so what is written there is seen only when the gap begins behind it.
void log_writer::mark_cut(std::uint64_t first_kept, std::int64_t now_ms) {
  if (mark_begin_)
    return;
  const auto begin = *head_end_;
  auto line = line_begins_at(begin) ? std::string{} : std::string{'\n'};
  line += cut_mark;
  const auto end = begin + line.size();
  // Both can be too few where records are tiny. The next cut is soon.
  if (end > gap_end_ || first_kept <= head_records_)
    return;
  // In the place of the first record that goes, and with its time: times ascend.
  log_record record;
  if (!load(head_records_, record) || record.stream == log_stream::none)
    record.time_ms = now_ms;
  record = {record.time_ms, begin, gap_end_, static_cast<std::uint32_t>(line.size()), 0, log_stream::notice, 0};
  if (write_at(data_.value(), line, begin) != line.size() ||
      write_at(index_.value(), bytes_of(begin), offsetof(log_header, mark_begin)) != sizeof begin ||
      write_at(index_.value(), bytes_of(record), (head_records_ + 1) * record_size) != record_size ||
      write_at(index_.value(), bytes_of(end), offsetof(log_header, gap_begin)) != sizeof end)
    return;
  mark_begin_ = begin;
  head_end_ = end;
  ++head_records_;
}

bool log_writer::load(std::uint64_t number, log_record& record) const noexcept {
  return ::pread(index_.value(), &record, record_size, static_cast<off_t>((number + 1) * record_size)) ==
         static_cast<ssize_t>(record_size);
}

bool log_writer::line_begins_at(std::uint64_t offset) const noexcept {
  char before = '\n';
  return offset == 0 || (::pread(data_.value(), &before, 1, static_cast<off_t>(offset - 1)) == 1 && before == '\n');
}

// The first record from this one on that begins with a line, if one is near; else this one.
std::uint64_t log_writer::first_line_from(std::uint64_t number) const {
  constexpr std::uint64_t most_records = 256;
  log_record record;
  std::uint64_t furthest = 0;
  for (auto at = number; at < std::min(records_, number + most_records) && load(at, record); ++at) {
    if (at == number)
      furthest = record.offset + tail_keep_ / 8;
    if (record.offset > furthest)
      break;
    if (line_begins_at(record.offset))
      return at;
  }
  return number;
}

std::uint64_t log_writer::first_record_from(std::uint64_t offset) const {
  auto low = tail_record_;
  auto high = records_;
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    log_record record;
    if (!load(middle, record))
      return high;
    if (record.offset < offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

log_sizes log_writer::sizes() const noexcept {
  const auto gap = gap_end_ > 0 ? gap_end_ - *head_end_ : 0;
  return {size_, size_ - gap, records_, lost_, gap > 0 || lost_ > 0};
}

log_sizes log_writer::close(std::int64_t now_ms) {
  if (closed_)
    return *closed_;
  flush(now_ms);
  if (losing()) {
    retry_at_ms_ = now_ms;
    reserve_ = 0; // a line is what it can spare
    recovered(now_ms);
  }
  if (gap_end_ > 0) {
    // The notice itself may move the gap, so it tells of the gap as it is after making room.
    const auto begin = mark_begin_.value_or(*head_end_);
    notice(0,
           std::string{cut_for_records_ ? "the log came in more pieces than" : "the log passed"} + " its limit of " +
             std::to_string(limit_) + " bytes" + (cut_for_records_ ? " allows" : "") + "; about " +
             std::to_string(gap_end_ - begin) + " bytes from offset " + std::to_string(begin) + " on were dropped",
           now_ms);
    flush(now_ms);
  }
  write_record({now_ms, size_, 0, 0, 0, log_stream::end, 0});
  if (size_ > 0) {
    ::fdatasync(data_.value());
    ::fdatasync(index_.value());
  }
  closed_ = sizes();
  data_.reset();
  index_.reset();
  return *closed_;
}

} // namespace kcx
