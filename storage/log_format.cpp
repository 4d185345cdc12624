#include "storage/log_format.hpp"

#include <system_error>

namespace kcx {

std::filesystem::path log_path(const std::filesystem::path& data_dir, std::int64_t job_id, std::int32_t attempt) {
  return data_dir / "logs" / std::to_string(job_id / 1000) /
         (std::to_string(job_id) + '-' + std::to_string(attempt) + ".log");
}

std::filesystem::path log_index_path(std::filesystem::path data_file) {
  return data_file.replace_extension(".idx");
}

std::filesystem::path log_archive_path(const std::filesystem::path& file) {
  return file.string() + ".zst";
}

bool remove_log(const std::filesystem::path& data_file) noexcept {
  auto removed = true;
  // The plain file first: whoever compresses it finds it gone and takes back what it made.
  for (const auto& file : {data_file, log_index_path(data_file)}) {
    for (const auto& each :
         {file, log_archive_path(file), std::filesystem::path{log_archive_path(file).string() + ".part"}}) {
      std::error_code failed;
      std::filesystem::remove(each, failed);
      removed = removed && !failed;
    }
  }
  return removed;
}

} // namespace kcx
