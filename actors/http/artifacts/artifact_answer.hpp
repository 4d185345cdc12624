/// The answers to requests for what a job kept of its workspace: a listing, or one file.
///
/// The files were put there by a runner and are complete. Nothing is served that lies elsewhere, whatever the path
/// says.
#pragma once

#include "actors/http/api/parameters.hpp"
#include "actors/http/logs/file_thread.hpp"
#include "actors/http/message/message.hpp"
#include "storage/job.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace kcx::http {

/// Where the artifacts of an attempt are.
struct artifact_source {
  attempt_key key;
  std::filesystem::path directory;
};

/// Reads the directory or opens the file, so call it on a file thread; a file's bytes are read there as well. An empty
/// path, or that of a directory, gives a listing of all files below it; one of nothing is a 404, an empty path never.
[[nodiscard]] response artifact_answer(const file_executor& files, const artifact_source& source,
                                       const artifact_query& query);

/// By the extension of the name; application/octet-stream for those that are not known.
[[nodiscard]] std::string_view content_type_of(std::string_view name) noexcept;

} // namespace kcx::http
