/// Compressed files that can be read from any place: zstd frames of a fixed size of content, each complete in itself,
/// with a table of them at the end. Any zstd program unpacks them.
///
/// The table is that of the zstd seekable format (facebook/zstd, contrib/seekable_format): a skippable frame with the
/// compressed and the plain size of each frame, then their number and a magic number.
#pragma once

#include "config/error.hpp"
#include "config/posix.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kcx {

/// Content of a frame; what a reader has to unpack to get at one byte.
inline constexpr std::size_t seekable_frame_bytes = 256U << 10;

/// Writes one file. Not before finish() has returned is anything of it of use.
class seekable_writer {
public:
  /// Makes the file with mode 0600, or empties what a crash left of one. Fails with storage_full or system_failed, as
  /// all here.
  [[nodiscard]] static expected<seekable_writer> create(const std::filesystem::path& file);

  [[nodiscard]] outcome append(std::string_view bytes);

  /// Writes the table and has all of it on the disk.
  [[nodiscard]] outcome finish();

private:
  struct free_context {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
  };
  explicit seekable_writer(unique_fd file);

  outcome end_frame();
  outcome write(std::string_view bytes);

  unique_fd file_;
  std::unique_ptr<ZSTD_CCtx_s, free_context> context_;
  std::string plain_;
  std::string packed_;
  /// Two numbers of four bytes for each frame.
  std::string table_;
  std::uint32_t frames_ = 0;
};

/// Reads one file. Keeps the frame that was read last, so reading on is cheap. Of one thread at a time.
class seekable_reader {
public:
  /// Fails with not_found, storage_unusable if it has no such table, or system_failed.
  [[nodiscard]] static expected<seekable_reader> open(const std::filesystem::path& file);

  /// Of the content.
  [[nodiscard]] std::uint64_t size() const noexcept { return begins_.back(); }

  /// Up to `size` bytes from `offset` on; fewer at the end, or where the file is damaged: then errno is EIO.
  [[nodiscard]] std::size_t read_at(char* to, std::size_t size, std::uint64_t offset);

private:
  struct free_context {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  seekable_reader() = default;

  /// Has the frame unpacked in frame_.
  [[nodiscard]] bool load(std::size_t number);

  unique_fd file_;
  std::unique_ptr<ZSTD_DCtx_s, free_context> context_;
  /// Where each frame begins, in the content and in the file, and where the last one ends.
  std::vector<std::uint64_t> begins_{0};
  std::vector<std::uint64_t> places_{0};
  std::string frame_;
  std::size_t loaded_ = static_cast<std::size_t>(-1);
};

} // namespace kcx
