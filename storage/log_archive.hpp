/// Compresses the log of an attempt that has ended. Readers (storage/log_reader.hpp) see no difference.
#pragma once

#include "config/error.hpp"

#include <cstdint>
#include <filesystem>

namespace kcx {

/// Files of at most this size stay as they are: they take one block of the disk either way.
inline constexpr std::uint64_t archive_above_bytes = 4096;

/// Whether the log has a plain file that is worth compressing.
[[nodiscard]] bool wants_archive(const std::filesystem::path& data_file) noexcept;

/// Replaces data file and index of a log by compressed ones (see log_archive_path()); a cut middle is left out. Whether
/// there was anything to do: small files stay, and one that is not there is no error. Nobody may write to the log any
/// more; readers may be at it, and go on. A crash in between leaves the log whole: a file goes after its successor is
/// on the disk. Fails with storage_full, storage_unusable or system_failed; then the log is as it was.
[[nodiscard]] expected<bool> archive_log(const std::filesystem::path& data_file);

} // namespace kcx
