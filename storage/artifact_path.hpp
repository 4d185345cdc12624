/// Where the artifacts of an attempt lie: in a directory of its own, with the paths they had in the workspace. Written
/// by runners, read by the node, removed with the job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kcx {

/// `<data>/artifacts/<id>-<attempt>`: complete once it is there, and never changed.
[[nodiscard]] inline std::filesystem::path artifacts_path(const std::filesystem::path& data_dir, std::int64_t job_id,
                                                          std::int32_t attempt) {
  return data_dir / "artifacts" / (std::to_string(job_id) + '-' + std::to_string(attempt));
}

/// Where they are gathered until they are complete.
[[nodiscard]] inline std::filesystem::path partial_artifacts_path(const std::filesystem::path& artifacts) {
  return artifacts.string() + ".part";
}

} // namespace kcx
