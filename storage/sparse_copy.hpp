/// Copies a file without what it has no disk space for: the cut middle of a log may be a thousand times as large as
/// what is kept of it.
#pragma once

#include "config/error.hpp"
#include "config/posix.hpp"

#include <cstdint>
#include <filesystem>

namespace kcx {

/// An open file, and how a failure names it.
struct named_file {
  unique_fd fd;
  std::filesystem::path path;
};

/// Makes a file that is not there yet, mode 0600. Fails with ec::storage_full or ec::system_failed.
[[nodiscard]] expected<named_file> make_file(const std::filesystem::path& path);

/// Makes `to`, which is empty, what the first `size` bytes of `from` are; where that is shorter or gets shorter, with a
/// hole at its end. Returns how many bytes were copied, holes not counted. Fails with ec::storage_full or
/// ec::system_failed.
[[nodiscard]] expected<std::uint64_t> copy_sparse(const named_file& from, const named_file& to, std::uint64_t size);

} // namespace kcx
