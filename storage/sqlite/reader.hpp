/// The queue in an SQLite file: the read side. See job_reader.hpp.
#pragma once

#include "config/error.hpp"
#include "storage/job_reader.hpp"

#include <chrono>
#include <filesystem>
#include <memory>

namespace kcx {

/// Opens a read-only connection to a database that open_sqlite_store has opened before. A call that works longer than
/// `work_limit` is interrupted and fails with timeout. Fails as open_sqlite_store does.
[[nodiscard]] expected<std::unique_ptr<job_reader>>
open_sqlite_reader(const std::filesystem::path& file,
                   std::chrono::milliseconds work_limit = std::chrono::milliseconds{250});

} // namespace kcx
