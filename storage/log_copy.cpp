#include "storage/log_copy.hpp"

#include <algorithm>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace kcx {

namespace {

expected<std::uint64_t> file_bytes(const named_file& file) {
  struct stat about {};
  if (::fstat(file.fd.value(), &about) != 0)
    return system_failure("cannot read " + file.path.string());
  return static_cast<std::uint64_t>(about.st_size);
}

template <class T>
bool load(const named_file& file, T& value, std::uint64_t offset) {
  errno = EIO; // should the file end before
  return kcx::read_at(file.fd.value(), reinterpret_cast<char*>(&value), sizeof value, offset) == sizeof value;
}

template <class T>
bool store(const named_file& file, const T& value, std::uint64_t offset) {
  return write_at(file.fd.value(), {reinterpret_cast<const char*>(&value), sizeof value}, offset) == sizeof value;
}

expected<std::uint64_t> copy_whole(const named_file& from, const named_file& to) {
  const auto size = file_bytes(from);
  return size ? copy_sparse(from, to, *size) : size;
}

} // namespace

expected<log_copy::part> log_copy::open_part(const std::filesystem::path& file) {
  // The compressed file is there before the plain one goes, so whoever misses the one finds the other.
  for (const bool packed : {false, true}) {
    const auto path = packed ? log_archive_path(file) : file;
    part opened{{unique_fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)}, path}, packed};
    if (opened.file.fd)
      return opened;
    if (errno != ENOENT)
      return system_failure("cannot read " + path.string());
  }
  return error{ec::not_found, "there is no log file " + file.string(), {}};
}

expected<log_copy> log_copy::open(const std::filesystem::path& data_file) {
  auto data = open_part(data_file);
  if (!data)
    return std::move(data).error();
  auto index = open_part(log_index_path(data_file));
  if (!index)
    return std::move(index).error();
  log_copy log{*std::move(data), *std::move(index)};
  if (log.data_.packed || log.index_.packed)
    return log;
  auto now = log.look();
  if (!now)
    return std::move(now).error();
  log.opened_ = *now;
  return log;
}

// The header is read before and after the last record: a head that has ended is covered then, and a gap has its begin.
expected<log_copy::state> log_copy::look() const {
  state now;
  for (auto before = now;; before = now) {
    const auto size = file_bytes(index_.file);
    if (!size)
      return size.error();
    if (*size < record_size)
      return error{ec::not_found, "the log index " + index_.file.path.string() + " is not there yet", {}};
    now.records = *size / record_size - 1;
    if ((now.records > 0 && !load(index_.file, now.last, now.records * record_size)) ||
        !load(index_.file, now.header, 0))
      return system_failure("cannot read " + index_.file.path.string());
    if (now.same_head(before))
      return now;
  }
}

// What the index covered before the data was copied is in that copy, unless a cut took it meanwhile. The writer names a
// gap before anything of it goes, so a look at the index after both are copied tells of all that may be missing in
// either, and the copy gets that gap. Where the gap begins, and the mark before it, is written with the first cut and
// never again: if that came in between, what was copied is partly older than the mark, and is copied anew.
expected<std::uint64_t> log_copy::write_plain(const named_file& data, const named_file& index) const {
  for (auto before = opened_;;) {
    if (::ftruncate(data.fd.value(), 0) != 0 || ::ftruncate(index.fd.value(), 0) != 0)
      return system_failure("cannot write " + data.path.string());
    const auto data_bytes = copy_whole(data_.file, data);
    if (!data_bytes)
      return data_bytes;
    const auto index_bytes = copy_sparse(index_.file, index, (before.records + 1) * record_size);
    if (!index_bytes)
      return index_bytes;
    const auto after = look();
    if (!after)
      return after.error();
    if (!before.same_head(*after)) {
      before = *after;
      continue;
    }
    const auto bytes = *data_bytes + *index_bytes;
    const auto& last = before.last;
    if (after->last.gap_end <= last.gap_end)
      return bytes;
    const auto size = last.offset + last.length;
    // It may have grown beyond what the copy covers. Then nothing is left of the tail.
    const log_record gap{last.time_ms, size, std::min(after->last.gap_end, size), 0, 0, log_stream::gap, last.flags};
    if (!store(index, gap, (before.records + 1) * record_size))
      return system_failure("cannot write " + index.path.string());
    return bytes + record_size;
  }
}

expected<std::uint64_t> log_copy::write(const std::filesystem::path& data_file) const {
  const auto index_file = log_index_path(data_file);
  const auto data = make_file(data_.packed ? log_archive_path(data_file) : data_file);
  if (!data)
    return data.error();
  const auto index = make_file(index_.packed ? log_archive_path(index_file) : index_file);
  if (!index)
    return index.error();
  if (!data_.packed && !index_.packed)
    return write_plain(*data, *index);
  // Only what is closed is compressed, and it never changes again: any form of the one goes with any of the other.
  const auto data_bytes = copy_whole(data_.file, *data);
  if (!data_bytes)
    return data_bytes;
  const auto index_bytes = copy_whole(index_.file, *index);
  if (!index_bytes)
    return index_bytes;
  return *data_bytes + *index_bytes;
}

} // namespace kcx
