#include "tests/support/files.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

namespace kcx::test {

namespace {

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw std::system_error{errno, std::generic_category(), file.string()};
}

} // namespace

temp_dir::temp_dir() {
  auto pattern = (std::filesystem::temp_directory_path() / "kcx-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    fail(pattern);
  path_ = pattern;
}

temp_dir::~temp_dir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in)
    fail(file);
  return {std::istreambuf_iterator<char>{in}, {}};
}

void write_file(const std::filesystem::path& file, std::string_view content) {
  std::ofstream out{file, std::ios::binary | std::ios::trunc};
  if (!out.write(content.data(), static_cast<std::streamsize>(content.size())).flush())
    fail(file);
}

void overwrite_file(const std::filesystem::path& file, std::size_t offset, std::string_view bytes) {
  std::fstream out{file, std::ios::binary | std::ios::in | std::ios::out};
  out.seekp(static_cast<std::streamoff>(offset));
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
    fail(file);
}

} // namespace kcx::test
