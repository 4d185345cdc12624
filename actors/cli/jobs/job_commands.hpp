/// The commands about jobs that are there: look at them, follow, wait, cancel. Each does all of its work and returns
/// the exit code, as carry_out() does.
#pragma once

#include "actors/cli/line/command_line.hpp"

#include <string>

namespace kcx::cli {

int show_status(const invocation& what);
int print_logs(const invocation& what);
int wait_for_jobs(const invocation& what);
int cancel_jobs(const invocation& what);
/// The jobs at this path, page by page up to --limit; `if_none` is printed instead of an empty table.
int list_jobs(const invocation& what, const std::string& path, const char* if_none);

} // namespace kcx::cli
