#include "storage/log_reader.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace kcx {

namespace {

constexpr std::size_t block_size = 64 * 1024;
/// A writer at full speed can move the gap over what is being read a few times; more often means a broken index.
constexpr int max_tries = 64;

error read_failed(const char* what) {
  return {ec::storage_failed, std::string{"cannot read a log "} + what + ": " + std::strerror(errno), {}};
}

bool has_bytes(const log_record& record) {
  return record.stream == log_stream::out || record.stream == log_stream::err || record.stream == log_stream::notice;
}

} // namespace

expected<log_reader::file> log_reader::file::open(const std::filesystem::path& path) {
  file opened;
  opened.plain_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (opened.plain_)
    return opened;
  if (errno != ENOENT)
    return system_failure("cannot open the log file " + path.string());
  // The compressed file is there before the plain one goes, so whoever misses the one finds the other.
  auto packed = seekable_reader::open(log_archive_path(path));
  if (packed)
    opened.packed_ = std::make_unique<seekable_reader>(*std::move(packed));
  else if (packed.error().code == ec::not_found)
    return error{ec::not_found, "there is no log file " + path.string(), {}};
  else
    return std::move(packed).error();
  return opened;
}

expected<std::uint64_t> log_reader::file::size() const {
  if (packed_)
    return packed_->size();
  struct stat status {};
  if (::fstat(plain_.value(), &status) != 0)
    return read_failed("file");
  return static_cast<std::uint64_t>(status.st_size);
}

std::size_t log_reader::file::read_at(char* to, std::size_t size, std::uint64_t offset) const {
  return packed_ ? packed_->read_at(to, size, offset) : kcx::read_at(plain_.value(), to, size, offset);
}

expected<log_reader> log_reader::open(const std::filesystem::path& data_file) {
  auto data = file::open(data_file);
  if (!data)
    return std::move(data).error();
  auto index = file::open(log_index_path(data_file));
  if (!index)
    return std::move(index).error();
  log_header header;
  const log_header expected_header;
  char* raw = reinterpret_cast<char*>(&header);
  if (index->read_at(raw, sizeof header, 0) != sizeof header)
    // As it is for a moment after its creation, before the writer has come to the header.
    return error{ec::not_found, "the log " + data_file.string() + " is not there yet", {}};
  if (std::memcmp(header.magic, expected_header.magic, sizeof header.magic) != 0)
    return error{ec::storage_unusable, "the index of " + data_file.string() + " is not a log index", {}};
  return log_reader{std::move(*data), std::move(*index)};
}

bool log_reader::load(std::uint64_t number, log_record& record) const {
  char* raw = reinterpret_cast<char*>(&record);
  return index_.read_at(raw, record_size, (number + 1) * record_size) == record_size;
}

bool log_reader::load_bytes(char* to, std::size_t size, std::uint64_t offset, const log_extent& extent) const {
  // A compressed file has no hole where the gap was.
  if (data_.compressed() && extent.gap_end > 0 && offset >= extent.gap_end)
    offset -= extent.gap_end - extent.gap_begin;
  return data_.read_at(to, size, offset) == size;
}

expected<log_extent> log_reader::extent() const {
  const auto bytes = index_.size();
  if (!bytes)
    return bytes.error();
  const auto slots = *bytes / record_size;
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
  result.untold = (last.flags & log_loss_untold) != 0;
  if (last.gap_end == 0)
    return result;
  log_header header;
  if (index_.read_at(reinterpret_cast<char*>(&header), sizeof header, 0) != sizeof header)
    return read_failed("index");
  result.gap_begin = header.gap_begin;
  result.mark_begin = header.mark_begin > 0 ? header.mark_begin : header.gap_begin;
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
      chunk.marked = offset == before->gap_begin && before->mark_begin < before->gap_begin;
      chunk.offset = before->gap_end;
    }
    chunk.next = chunk.offset;
    if (chunk.offset >= before->size)
      return chunk;
    auto end = before->size;
    if (before->gap_end > 0 && chunk.offset < before->gap_begin)
      end = before->gap_begin;
    chunk.bytes.resize(std::min<std::uint64_t>(max, end - chunk.offset));
    if (!load_bytes(chunk.bytes.data(), chunk.bytes.size(), chunk.offset, *before))
      return read_failed("file");
    chunk.next = chunk.offset + chunk.bytes.size();
    // The writer announces a larger gap before the bytes go: what lies outside the gap as it is now was intact. The
    // mark comes with the first gap, over bytes that were read up to then.
    const auto after = extent();
    if (!after)
      return after.error();
    if (after->gap_end == before->gap_end || chunk.next <= after->mark_begin || chunk.offset >= after->gap_end)
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
  std::string block;
  bool last_byte = true;
  // Behind the gap first, then before it.
  for (const auto& [from, to] : {std::pair{now->gap_end, now->size}, std::pair{std::uint64_t{0}, now->gap_begin}}) {
    for (auto end = to; end > from;) {
      const auto begin = std::max(from, end > block_size ? end - block_size : 0);
      block.resize(end - begin);
      if (!load_bytes(block.data(), block.size(), begin, *now))
        return read_failed("file");
      for (auto i = block.size(); i-- > 0;) {
        // The newline that ends the log ends its last line, it does not begin another.
        if (block[i] == '\n' && !last_byte && --lines == 0)
          return begin + i + 1 == now->gap_begin ? now->gap_end : begin + i + 1;
        last_byte = false;
      }
      end = begin;
    }
  }
  return 0;
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
    if (index_.read_at(reinterpret_cast<char*>(block.data()), wanted * record_size, (number + 1) * record_size) !=
        wanted * record_size)
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
