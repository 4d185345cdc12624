/// Names of questions: what a worker's question for work is known by.
#pragma once

#include <cstdint>

namespace kcx {

/// Unique among all questions of all workers and restarts, not to be guessed, and never 0. Fits a signed integer, as
/// the database keeps it. Any thread.
[[nodiscard]] std::uint64_t new_nonce();

} // namespace kcx
