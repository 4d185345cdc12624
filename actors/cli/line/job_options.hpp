/// The options of `kcx run` and `kcx submit`.
#pragma once

#include "actors/cli/line/command_line.hpp"

#include <CLI/App.hpp>

namespace kcx::cli {

/// --secret and --secret-file.
void add_secret_options(CLI::App& to, job_flags& job);
/// A field of a job each.
void add_job_options(CLI::App& to, job_flags& job);
/// The file, and --dry-run.
void add_submission_options(CLI::App& to, invocation& what);
/// How several jobs are followed.
void add_run_options(CLI::App& to, run_flags& run);

} // namespace kcx::cli
