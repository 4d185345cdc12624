/// What the runner has to say to its node, and when: each message wakes the node, and a start that is told gets stored.
#pragma once

#include "actors/runner/protocol.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace kcx {

/// Events, encoded and in order. Those of starts and steps wait a moment for what else there is to say; a job that ends
/// meanwhile says it all with its end, for finished_event repeats them. Not thread-safe.
class event_outbox {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// How long the start of a job or a change of its steps may wait to be told.
  static constexpr std::chrono::milliseconds patience{20};

  /// An event that is too large for a frame is left out.
  void add(const runner_event& event, time_point now);

  /// What is to be sent now. The caller erases what it could send.
  [[nodiscard]] std::string& unsent(time_point now);

  /// When there will be more to send, unless it is sent with something else before.
  [[nodiscard]] std::optional<time_point> due() const noexcept { return due_; }

private:
  void release();

  std::string unsent_;
  std::string waiting_;
  std::optional<time_point> due_;
};

} // namespace kcx
