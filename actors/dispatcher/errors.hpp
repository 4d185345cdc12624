/// What the dispatcher concludes from a failed claim. For its source files only.
#pragma once

#include "config/error.hpp"

namespace kcx {

/// Whether a failed write may have happened all the same.
[[nodiscard]] inline bool is_unknown(const error& why) {
  return why.code == ec::outcome_unknown || why.code == ec::timeout;
}

/// Whether the job is still ready although its claim failed: nothing was stored for reasons of the disk.
[[nodiscard]] inline bool is_storage_trouble(const error& why) {
  return why.code == ec::storage_busy || why.code == ec::storage_full || why.code == ec::storage_failed;
}

[[nodiscard]] inline error draining_error() {
  return {ec::draining, "the node hands out no more jobs", {}};
}

} // namespace kcx
