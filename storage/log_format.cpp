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

bool remove_log(const std::filesystem::path& data_file) noexcept {
  std::error_code data_error;
  std::error_code index_error;
  std::filesystem::remove(data_file, data_error);
  std::filesystem::remove(log_index_path(data_file), index_error);
  return !data_error && !index_error;
}

} // namespace kcx
