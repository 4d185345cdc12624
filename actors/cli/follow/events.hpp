/// `kcx events`: follows the state changes of all jobs.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

/// Prints until standard output is closed; goes on where it was after a lost connection. Gives the exit code.
[[nodiscard]] int follow_events(const invocation& what);

} // namespace kcx::cli
