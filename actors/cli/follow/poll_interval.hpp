/// How long to wait between two questions about what goes on.
#pragma once

#include <algorithm>
#include <chrono>

namespace kcx::cli {

/// From 50 ms, half as long again each time, up to 500 ms: short jobs are told at once, long ones cost little.
class poll_interval {
public:
  [[nodiscard]] std::chrono::milliseconds now() const noexcept { return now_; }
  void grow() noexcept { now_ = std::min(now_ * 3 / 2, longest); }

private:
  static constexpr std::chrono::milliseconds longest{500};
  std::chrono::milliseconds now_{50};
};

} // namespace kcx::cli
