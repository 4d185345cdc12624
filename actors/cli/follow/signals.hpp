/// SIGINT and SIGTERM as something to look for, so that a Ctrl-C can end jobs in order.
#pragma once

#include <chrono>

namespace kcx::cli {

/// From here on SIGINT and SIGTERM wait until somebody asks for them, in this thread and every one started later.
void block_signals();

/// Waits for one of them, at most `time`; whether one came. They must be blocked.
[[nodiscard]] bool signal_within(std::chrono::milliseconds time);

} // namespace kcx::cli
