/// The subcommands of kcx.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

/// Carries out what was asked and gives the exit code (exit_code.hpp). Writes to standard output and standard error.
/// `what.where` must be completed. For `run`, blocks SIGINT and SIGTERM in the calling thread.
[[nodiscard]] int carry_out(const invocation& what);

} // namespace kcx::cli
