#include "storage/log_reader.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace kcx {

namespace {

constexpr std::size_t record_size = sizeof(log_record);
constexpr std::size_t block_size = 64 * 1024;
/// A writer at full speed can move the gap over what is being read a few times; more often means a broken index.
constexpr int max_tries = 64;

error read_failed(const char* what) {
  return {ec::storage_failed, std::string{"cannot read a log "} + what + ": " + std::strerror(errno), {}};
}

expected<unique_fd> open_file(const std::filesystem::path& path) {
  unique_fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (fd)
    return fd;
  if (errno == ENOENT)
    return error{ec::not_found, "there is no log file " + path.string(), {}};
  return system_failure("cannot open the log file " + path.string());
}

std::size_t read_at(int fd, char* to, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const auto n = ::pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

bool has_bytes(const log_record& record) {
  return record.stream == log_stream::out || record.stream == log_stream::err || record.stream == log_stream::notice;
}

} // namespace

expected<log_reader> log_reader::open(const std::filesystem::path& data_file) {
  auto data = open_file(data_file);
  if (!data)
    return std::move(data).error();
  auto index = open_file(log_index_path(data_file));
  if (!index)
    return std::move(index).error();
  log_header header;
  const log_header expected_header;
  char* raw = reinterpret_cast<char*>(&header);
  if (read_at(index->value(), raw, sizeof header, 0) != sizeof header ||
      std::memcmp(header.magic, expected_header.magic, sizeof header.magic) != 0)
    return error{ec::storage_unusable, "the index of " + data_file.string() + " is not a log index", {}};
  return log_reader{std::move(*data), std::move(*index)};
}

bool log_reader::load(std::uint64_t number, log_record& record) const {
  char* raw = reinterpret_cast<char*>(&record);
  return read_at(index_.value(), raw, record_size, (number + 1) * record_size) == record_size;
}

expected<log_extent> log_reader::extent() const {
  struct stat status {};
  if (::fstat(index_.value(), &status) != 0)
    return read_failed("index");
  const auto slots = static_cast<std::uint64_t>(status.st_size) / record_size;
  log_extent result;
  if (slots < 2)
    return result;
  result.records = slots - 1;
  log_record last;
  if (!load(result.records - 1, last))
    return read_failed("index");
  result.size = last.offset + last.length;
  result.lost = (last.flags & log_bytes_lost) != 0;
  result.closed = last.stream == log_stream::end;
  if (last.gap_end == 0)
    return result;
  log_header header;
  if (read_at(index_.value(), reinterpret_cast<char*>(&header), sizeof header, 0) != sizeof header)
    return read_failed("index");
  result.gap_begin = header.gap_begin;
  result.gap_end = last.gap_end;
  return result;
}

expected<log_chunk> log_reader::read(std::uint64_t offset, std::size_t max) const {
  for (int tries = 0; tries < max_tries; ++tries) {
    const auto before = extent();
    if (!before)
      return before.error();
    log_chunk chunk;
    chunk.offset = offset;
    if (before->gap_end > 0 && offset >= before->gap_begin && offset < before->gap_end) {
      chunk.skipped = before->gap_end - offset;
      chunk.offset = before->gap_end;
    }
    chunk.next = chunk.offset;
    if (chunk.offset >= before->size)
      return chunk;
    auto end = before->size;
    if (before->gap_end > 0 && chunk.offset < before->gap_begin)
      end = before->gap_begin;
    chunk.bytes.resize(std::min<std::uint64_t>(max, end - chunk.offset));
    if (read_at(data_.value(), chunk.bytes.data(), chunk.bytes.size(), chunk.offset) != chunk.bytes.size())
      return read_failed("file");
    chunk.next = chunk.offset + chunk.bytes.size();
    // The writer announces a larger gap before the bytes go: what lies outside the gap as it is now was intact.
    const auto after = extent();
    if (!after)
      return after.error();
    if (after->gap_end == before->gap_end || chunk.next <= after->gap_begin || chunk.offset >= after->gap_end)
      return chunk;
  }
  return error{ec::storage_busy, "the log is cut faster than it can be read", {}};
}

expected<std::uint64_t> log_reader::tail(std::uint64_t lines) const {
  const auto now = extent();
  if (!now)
    return now.error();
  if (lines == 0)
    return now->size;
  auto end = now->size;
  std::string block;
  bool last_byte = true;
  while (end > now->gap_end) {
    const auto begin = std::max(now->gap_end, end > block_size ? end - block_size : 0);
    block.resize(end - begin);
    if (read_at(data_.value(), block.data(), block.size(), begin) != block.size())
      return read_failed("file");
    for (auto i = block.size(); i-- > 0;) {
      // The newline that ends the log ends its last line, it does not begin another.
      if (block[i] == '\n' && !last_byte && --lines == 0)
        return begin + i + 1;
      last_byte = false;
    }
    end = begin;
  }
  return now->gap_end;
}

expected<std::vector<numbered_record>> log_reader::records(std::uint64_t first, std::size_t max) const {
  const auto now = extent();
  if (!now)
    return now.error();
  std::vector<numbered_record> found;
  std::vector<log_record> block(std::min<std::size_t>(std::max<std::size_t>(max, 1), 1024));
  auto number = first;
  while (number < now->records && found.size() < max) {
    const auto wanted = std::min<std::uint64_t>(block.size(), now->records - number);
    if (read_at(index_.value(), reinterpret_cast<char*>(block.data()), wanted * record_size,
                (number + 1) * record_size) != wanted * record_size)
      return read_failed("index");
    bool hole = false;
    for (std::uint64_t i = 0; i < wanted && found.size() < max && !hole; ++i) {
      hole = block[i].stream == log_stream::none;
      if (has_bytes(block[i]))
        found.push_back({number, block[i]});
      number += hole ? 0 : 1;
    }
    if (!hole)
      continue;
    const auto behind = record_at(now->gap_end);
    if (!behind)
      return behind.error();
    number = std::max(number + 1, *behind);
  }
  return found;
}

expected<std::uint64_t> log_reader::record_at(std::uint64_t offset) const {
  const auto now = extent();
  if (!now)
    return now.error();
  std::uint64_t low = 0;
  std::uint64_t high = now->records;
  // The first record that ends behind `offset`. Cut records read as zero; they all lie in the gap.
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    log_record record;
    if (!load(middle, record))
      return read_failed("index");
    const auto before =
      record.stream == log_stream::none ? now->gap_begin <= offset : record.offset + record.length <= offset;
    if (before)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

} // namespace kcx
