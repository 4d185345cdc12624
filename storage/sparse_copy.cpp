#include "storage/sparse_copy.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace {

/// Copies bytes from `begin` to `end`. Another reason to stop than a failure: the file became shorter.
outcome copy_bytes(const named_file& from, const named_file& to, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t& bytes) {
  std::array<char, 128 * 1024> buffer;
  while (begin < end) {
    const auto wanted = std::min<std::uint64_t>(buffer.size(), end - begin);
    errno = 0;
    const auto got = kcx::read_at(from.fd.value(), buffer.data(), wanted, begin);
    if (got < wanted && errno != 0)
      return system_failure("cannot read " + from.path.string());
    if (write_at(to.fd.value(), std::string_view{buffer.data(), got}, begin) != got)
      return system_failure("cannot write " + to.path.string());
    bytes += got;
    if (got < wanted)
      break;
    begin += got;
  }
  return done{};
}

} // namespace

expected<named_file> make_file(const std::filesystem::path& path) {
  named_file made{unique_fd{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)}, path};
  if (!made.fd)
    return system_failure("cannot make " + path.string());
  return made;
}

expected<std::uint64_t> copy_sparse(const named_file& from, const named_file& to, std::uint64_t size) {
  std::uint64_t bytes = 0;
  for (std::uint64_t at = 0; at < size;) {
    const auto begin = ::lseek(from.fd.value(), static_cast<off_t>(at), SEEK_DATA);
    if (begin < 0)
      break; // only a hole is left
    const auto hole = ::lseek(from.fd.value(), begin, SEEK_HOLE);
    at = hole < 0 ? size : std::min(static_cast<std::uint64_t>(hole), size);
    if (auto copied = copy_bytes(from, to, static_cast<std::uint64_t>(begin), at, bytes); !copied)
      return std::move(copied).error();
  }
  if (::ftruncate(to.fd.value(), static_cast<off_t>(size)) != 0)
    return system_failure("cannot write " + to.path.string());
  return bytes;
}

} // namespace kcx
