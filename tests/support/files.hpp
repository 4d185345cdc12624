/// Small helpers for tests that touch the file system. Not for product code.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kcx::test {

/// A new empty directory below $TMPDIR (default /tmp), mode 0700, removed with all it holds by the destructor.
/// Throws std::system_error if it cannot be made: a test has nothing to go on with then.
class temp_dir {
public:
  temp_dir();
  ~temp_dir();
  temp_dir(const temp_dir&) = delete;
  temp_dir& operator=(const temp_dir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The path of an entry below the directory; nothing is created.
  [[nodiscard]] std::filesystem::path operator/(std::string_view entry) const { return path_ / entry; }

private:
  std::filesystem::path path_;
};

/// The whole content of a file. Throws std::system_error if it cannot be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

/// Replaces the content of a file, creating it where missing. Throws std::system_error on failure.
void write_file(const std::filesystem::path& file, std::string_view content);

/// Overwrites bytes at `offset` (bytes from the start) of an existing file: for tests of damaged files.
/// Throws std::system_error on failure.
void overwrite_file(const std::filesystem::path& file, std::size_t offset, std::string_view bytes);

} // namespace kcx::test
