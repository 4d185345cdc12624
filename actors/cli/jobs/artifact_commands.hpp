/// The command that shows and fetches what jobs kept.
#pragma once

#include "actors/cli/line/command_line.hpp"

namespace kcx::cli {

/// Lists the artifacts of a job's attempt, or copies them into a directory; gives the exit code. A file is written
/// under another name beside its place first, so that what stands there is whole, also when the copying breaks off.
int show_artifacts(const invocation& what);

} // namespace kcx::cli
