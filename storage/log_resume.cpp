// The part of the log writer that goes on with a log which another process began.
#include "storage/log_writer.hpp"

#include <algorithm>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace kcx {

namespace {

template <class T>
bool read_at(int fd, T& value, std::uint64_t offset) {
  return ::pread(fd, &value, sizeof value, static_cast<off_t>(offset)) == ssize_t{sizeof value};
}

expected<unique_fd> open_file(const std::filesystem::path& path) {
  unique_fd fd{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd)
    return system_failure("cannot open the log file " + path.string());
  return fd;
}

} // namespace

// What is behind the limit of the head belongs to the tail already, though nothing was cut yet. The head may have ended
// a little earlier than this, at the end of a line.
void log_writer::find_head() {
  if (size_ < head_limit_ && records_ < max_records_)
    return;
  auto first = std::min(first_record_from(head_limit_), max_records_);
  const auto begin_of = [this](std::uint64_t number) {
    log_record record;
    return number < records_ && load(number, record) ? record.offset : size_;
  };
  if (first > 0 && begin_of(first) > head_limit_)
    --first;
  head_end_ = begin_of(first);
  head_records_ = first;
  tail_record_ = first;
}

expected<log_writer> log_writer::resume(const std::filesystem::path& data_file, log_bounds bounds) {
  auto data = open_file(data_file);
  if (!data)
    return std::move(data).error();
  const auto index_file = log_index_path(data_file);
  auto index = open_file(index_file);
  if (!index)
    return std::move(index).error();
  struct stat about {};
  log_header header;
  if (::fstat(index->value(), &about) != 0 || !read_at(index->value(), header, 0))
    return system_failure("cannot read the log index " + index_file.string());
  bounds.limit_bytes = std::max(bounds.limit_bytes, min_log_limit);
  log_writer writer{*std::move(data), *std::move(index), bounds};
  const auto pieces = static_cast<std::uint64_t>(about.st_size) / record_size;
  writer.records_ = pieces > 0 ? pieces - 1 : 0;
  if (writer.records_ == 0)
    return writer;
  log_record last;
  if (!read_at(writer.index_.value(), last, writer.records_ * record_size))
    return system_failure("cannot read the log index " + index_file.string());
  if (last.stream == log_stream::end)
    return error{ec::conflict, "the log " + data_file.string() + " is closed", {}};
  writer.size_ = last.offset + last.length;
  writer.gap_end_ = last.gap_end;
  writer.lost_ = (last.flags & log_bytes_lost) != 0 ? 1 : 0;
  if (writer.gap_end_ == 0) {
    writer.find_head();
    return writer;
  }
  writer.head_end_ = header.gap_begin;
  // Without a mark there is no place for one any more.
  writer.mark_begin_ = header.mark_begin > 0 ? header.mark_begin : header.gap_begin;
  // Records in the hole read as zeros, so offsets ascend up to the first one behind the gap all the same.
  writer.tail_record_ = writer.first_record_from(writer.gap_end_);
  writer.head_records_ = writer.tail_record_;
  return writer;
}

} // namespace kcx
