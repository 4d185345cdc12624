#include "storage/log_archive.hpp"

#include "storage/log_format.hpp"
#include "storage/log_reader.hpp"
#include "storage/seekable_file.hpp"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace kcx {

namespace {

/// An index that a cut left with a huge hole: reading through it would take longer than it saves.
constexpr std::uint64_t largest_index = 64U << 20;

using ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

std::uint64_t size_of(const std::filesystem::path& file) noexcept {
  struct stat about {};
  return ::lstat(file.c_str(), &about) == 0 ? static_cast<std::uint64_t>(about.st_size) : 0;
}

outcome copy_range(int from, std::uint64_t begin, std::uint64_t end, seekable_writer& to) {
  std::string block(seekable_frame_bytes, '\0');
  while (begin < end) {
    const auto wanted = std::min<std::uint64_t>(block.size(), end - begin);
    errno = EIO; // should it end too early
    if (read_at(from, block.data(), wanted, begin) != wanted)
      return system_failure("cannot read a log");
    if (auto written = to.append({block.data(), wanted}); !written)
      return written;
    begin += wanted;
  }
  return done{};
}

outcome pack(const std::filesystem::path& file, const ranges& wanted, const std::filesystem::path& into) {
  const unique_fd from{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!from)
    return system_failure("cannot open " + file.string());
  auto writer = seekable_writer::create(into);
  if (!writer)
    return std::move(writer).error();
  for (const auto& [begin, end] : wanted)
    if (auto copied = copy_range(from.value(), begin, end, *writer); !copied)
      return copied;
  return writer->finish();
}

/// Puts the compressed file beside the plain one and then takes that away, in this order on the disk, too.
outcome replace(const std::filesystem::path& file, const ranges& wanted) {
  const auto archive = log_archive_path(file);
  const auto fresh = archive.string() + ".part";
  auto packed = pack(file, wanted, fresh);
  if (packed && std::rename(fresh.c_str(), archive.c_str()) != 0)
    packed = system_failure("cannot put " + archive.string() + " in its place");
  if (!packed) {
    ::unlink(fresh.c_str());
    // Removed meanwhile: then there is nothing to compress.
    return ::access(file.c_str(), F_OK) == 0 ? packed : done{};
  }
  const unique_fd folder{::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  ::fsync(folder.value());
  // If it is gone, so is the log: somebody removed it meanwhile.
  if (::unlink(file.c_str()) != 0 && errno == ENOENT)
    ::unlink(archive.c_str());
  return done{};
}

bool wants_data(const std::filesystem::path& data_file) noexcept {
  return size_of(data_file) > archive_above_bytes;
}

bool wants_index(const std::filesystem::path& index_file) noexcept {
  const auto bytes = size_of(index_file);
  return bytes > archive_above_bytes && bytes <= largest_index;
}

} // namespace

bool wants_archive(const std::filesystem::path& data_file) noexcept {
  return wants_data(data_file) || wants_index(log_index_path(data_file));
}

expected<bool> archive_log(const std::filesystem::path& data_file) {
  const auto index_file = log_index_path(data_file);
  const bool pack_index = wants_index(index_file);
  if (!wants_archive(data_file))
    return false;
  if (wants_data(data_file)) {
    const auto log = log_reader::open(data_file);
    if (!log)
      return log.error();
    const auto extent = log->extent();
    if (!extent)
      return extent.error();
    const ranges kept =
      extent->gap_end > 0 ? ranges{{0, extent->gap_begin}, {extent->gap_end, extent->size}} : ranges{{0, extent->size}};
    if (auto replaced = replace(data_file, kept); !replaced)
      return std::move(replaced).error();
  }
  if (pack_index)
    if (auto replaced = replace(index_file, {{0, size_of(index_file)}}); !replaced)
      return std::move(replaced).error();
  return true;
}

} // namespace kcx
