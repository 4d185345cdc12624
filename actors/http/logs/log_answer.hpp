/// The answer to a request for a log as it is now (not followed): whole, a range, a tail, with or without time stamps.
#pragma once

#include "actors/http/api/parameters.hpp"
#include "actors/http/logs/file_thread.hpp"
#include "actors/http/message/message.hpp"
#include "storage/job.hpp"

#include <filesystem>

namespace kcx::http {

/// Where the log is and what is known of it.
struct log_source {
  attempt_key key;
  std::filesystem::path file;
  /// What the database says; counts only when `final`.
  log_summary summary;
  bool final = false;
};

/// Opens the log, so call it on a file thread; the body is read there as well. Any failure is a problem document.
[[nodiscard]] response log_answer(const file_executor& files, const log_source& source, const log_query& query);

/// An empty log, for a job without an attempt.
[[nodiscard]] response empty_log();

} // namespace kcx::http
