/// The commands that list jobs.
#pragma once

#include "actors/cli/line/command_line.hpp"

#include <string>

namespace kcx::cli {

/// The jobs at this path up to --limit, printed page by page as they come, so that no number of them fills the memory;
/// `if_none` is printed instead of an empty table. The exit code. With --json what was printed is one whole document
/// also where a later page could not be had: its `next_cursor` tells where to go on.
int list_jobs(const invocation& what, const std::string& path, const char* if_none);

} // namespace kcx::cli
