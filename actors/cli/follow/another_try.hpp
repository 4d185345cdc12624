/// Which answers of the node mean "not now" rather than "no", and how long to wait before it is asked again.
#pragma once

#include "actors/cli/node_client.hpp"
#include "config/error.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kcx::cli {

/// What is told where kcx must wait for its rate.
inline constexpr std::string_view too_many_requests =
  "the node says there are too many requests with this token; asking less often";

enum class asked_for : std::uint8_t {
  /// What goes on: any answer that says nothing about it leaves it unknown.
  state,
  /// To take jobs, with a key: a node that drains or has no room says so for longer than anybody wants to wait.
  submission,
};

/// Nothing if the answer decides, for good or bad. Otherwise how long the node wants to be left alone; zero where it
/// did not say, or did not answer.
[[nodiscard]] std::optional<std::chrono::milliseconds> another_try(const expected<reply>& answer, asked_for what);

/// How long a node that cannot answer now is still asked. Not thread-safe.
class patience_left {
public:
  using clock = std::chrono::steady_clock;

  explicit patience_left(std::chrono::milliseconds most) : most_{most} {}

  /// The node had no answer: the pause before the next try, `wanted` or what is left if that is less; nothing once
  /// nothing is left.
  [[nodiscard]] std::optional<std::chrono::milliseconds> pause(std::chrono::milliseconds wanted,
                                                               clock::time_point now = clock::now());
  /// It answered: the next silence is counted from its own beginning.
  void renew() noexcept { since_.reset(); }

private:
  std::chrono::milliseconds most_;
  std::optional<clock::time_point> since_;
};

} // namespace kcx::cli
