#include "storage/seekable_file.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <zstd.h>

namespace kcx {

namespace {

constexpr int level = 3;
constexpr std::uint32_t skippable_magic = 0x184D2A5E;
constexpr std::uint32_t table_magic = 0x8F92EAB1;
constexpr std::size_t skippable_head = 8;
constexpr std::size_t table_foot = 9;
constexpr std::size_t entry_bytes = 8;

void put(std::string& to, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    to += static_cast<char>((number >> shift) & 0xffU);
}

std::uint32_t number_at(const char* from) noexcept {
  std::uint32_t number = 0;
  for (int i = 3; i >= 0; --i)
    number = (number << 8) | static_cast<unsigned char>(from[i]);
  return number;
}

error damaged(const std::filesystem::path& file) {
  return {ec::storage_unusable, file.string() + " is damaged or not complete", {}};
}

} // namespace

// -- writing ----------------------------------------------------------------------------------------------------------

void seekable_writer::free_context::operator()(ZSTD_CCtx_s* context) const noexcept {
  ZSTD_freeCCtx(context);
}

seekable_writer::seekable_writer(unique_fd file) : file_{std::move(file)}, context_{ZSTD_createCCtx()} {
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  packed_.resize(ZSTD_compressBound(seekable_frame_bytes));
}

expected<seekable_writer> seekable_writer::create(const std::filesystem::path& file) {
  unique_fd fd{::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd)
    return system_failure("cannot create " + file.string());
  return seekable_writer{std::move(fd)};
}

outcome seekable_writer::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = std::min(bytes.size(), seekable_frame_bytes - plain_.size());
    plain_ += bytes.substr(0, n);
    bytes.remove_prefix(n);
    if (plain_.size() == seekable_frame_bytes)
      if (auto ended = end_frame(); !ended)
        return ended;
  }
  return done{};
}

outcome seekable_writer::end_frame() {
  const auto size = ZSTD_compress2(context_.get(), packed_.data(), packed_.size(), plain_.data(), plain_.size());
  if (ZSTD_isError(size) != 0)
    return error{ec::system_failed, std::string{"cannot compress: "} + ZSTD_getErrorName(size), {}};
  put(table_, static_cast<std::uint32_t>(size));
  put(table_, static_cast<std::uint32_t>(plain_.size()));
  ++frames_;
  plain_.clear();
  return write({packed_.data(), size});
}

outcome seekable_writer::finish() {
  if (!plain_.empty())
    if (auto ended = end_frame(); !ended)
      return ended;
  std::string tail;
  put(tail, skippable_magic);
  put(tail, static_cast<std::uint32_t>(table_.size() + table_foot));
  tail += table_;
  put(tail, frames_);
  tail += '\0'; // no check sums: the frames have their own
  put(tail, table_magic);
  if (auto written = write(tail); !written)
    return written;
  if (::fsync(file_.value()) != 0)
    return system_failure("cannot sync a compressed file");
  return done{};
}

outcome seekable_writer::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(file_.value(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return system_failure("cannot write a compressed file");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return done{};
}

// -- reading ----------------------------------------------------------------------------------------------------------

void seekable_reader::free_context::operator()(ZSTD_DCtx_s* context) const noexcept {
  ZSTD_freeDCtx(context);
}

expected<seekable_reader> seekable_reader::open(const std::filesystem::path& file) {
  seekable_reader reader;
  reader.file_.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!reader.file_ && errno == ENOENT)
    return error{ec::not_found, "there is no file " + file.string(), {}};
  struct stat about {};
  if (!reader.file_ || ::fstat(reader.file_.value(), &about) != 0)
    return system_failure("cannot open " + file.string());
  const auto size = static_cast<std::uint64_t>(about.st_size);
  char foot[table_foot];
  if (size < skippable_head + table_foot ||
      kcx::read_at(reader.file_.value(), foot, sizeof foot, size - sizeof foot) != sizeof foot ||
      number_at(foot + 5) != table_magic || foot[4] != '\0')
    return damaged(file);
  const auto table_bytes = std::uint64_t{number_at(foot)} * entry_bytes;
  if (size < skippable_head + table_bytes + table_foot)
    return damaged(file);
  std::string table(table_bytes, '\0');
  const auto table_at = size - table_foot - table_bytes;
  if (kcx::read_at(reader.file_.value(), table.data(), table.size(), table_at) != table.size())
    return damaged(file);
  for (std::size_t at = 0; at < table.size(); at += entry_bytes) {
    const auto plain = number_at(table.data() + at + 4);
    // Nobody else writes these files: a larger frame is no frame, and would fill the memory.
    if (plain > seekable_frame_bytes)
      return damaged(file);
    reader.places_.push_back(reader.places_.back() + number_at(table.data() + at));
    reader.begins_.push_back(reader.begins_.back() + plain);
  }
  if (reader.places_.back() + skippable_head != table_at)
    return damaged(file);
  reader.context_.reset(ZSTD_createDCtx());
  return reader;
}

std::size_t seekable_reader::read_at(char* to, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size && offset + done < this->size()) {
    const auto at = offset + done;
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), at);
    const auto number = static_cast<std::size_t>(next - begins_.begin()) - 1;
    if (!load(number)) {
      errno = EIO;
      return done;
    }
    const auto from = static_cast<std::size_t>(at - begins_[number]);
    const auto n = std::min(size - done, frame_.size() - from);
    std::memcpy(to + done, frame_.data() + from, n);
    done += n;
  }
  return done;
}

bool seekable_reader::load(std::size_t number) {
  if (loaded_ == number)
    return true;
  loaded_ = static_cast<std::size_t>(-1);
  std::string packed(places_[number + 1] - places_[number], '\0');
  if (kcx::read_at(file_.value(), packed.data(), packed.size(), places_[number]) != packed.size())
    return false;
  frame_.resize(begins_[number + 1] - begins_[number]);
  const auto size = ZSTD_decompressDCtx(context_.get(), frame_.data(), frame_.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0 || size != frame_.size())
    return false;
  loaded_ = number;
  return true;
}

} // namespace kcx
