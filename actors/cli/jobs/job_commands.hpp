/// The commands about jobs that are there: look at them, follow, wait, cancel. Each does all of its work and returns
/// the exit code, as carry_out() does.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

int show_status(const invocation& what);
int print_logs(const invocation& what);
int wait_for_jobs(const invocation& what);
int cancel_jobs(const invocation& what);

} // namespace kcx::cli
