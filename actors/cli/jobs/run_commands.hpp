/// The commands that make jobs. Each does all of its work and returns the exit code, as carry_out() does.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

/// One job, several, or a pipeline: prints their numbers.
int submit_jobs(const invocation& what);
/// The same, followed to its end; the exit code is the job's, or that of the first job of several that did not succeed.
int run_jobs(const invocation& what);

} // namespace kcx::cli
