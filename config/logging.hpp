/// The log of the node: spdlog to standard error. Code writes with spdlog::info(…) and friends.
#pragma once

#include "config/settings.hpp"

namespace kcx {

/// Makes the default logger write "2026-01-31T12:00:00.000Z info  text" to standard error, one line per entry: control
/// characters in the text, line ends included, are written as \xNN or \n, so that no job's or client's text can forge
/// an entry. Call once, before other threads start. spdlog's logger may be used from any thread.
void set_up_logging(log_level level);

/// From now on entries of this level and above are written. Any thread.
void set_log_level(log_level level);

} // namespace kcx
