#include "actors/cli/follow/another_try.hpp"

#include <algorithm>
#include <string_view>

namespace kcx::cli {

using namespace std::chrono_literals;

namespace {

bool passes_soon(const reply& answer) {
  constexpr std::string_view passing[] = {"outcome_unknown", "overloaded", "storage_busy", "timeout"};
  const auto code = answer.document.is_object() ? answer.document.value("code", nlohmann::json{}) : nlohmann::json{};
  return answer.status == 503 && std::find(std::begin(passing), std::end(passing), code) != std::end(passing);
}

} // namespace

std::optional<std::chrono::milliseconds> another_try(const expected<reply>& answer, asked_for what) {
  if (!answer)
    return 0ms;
  const bool not_now =
    answer->status == 429 || (what == asked_for::submission ? passes_soon(*answer) : answer->status >= 500);
  if (!not_now)
    return std::nullopt;
  return answer->retry_after.value_or(answer->status == 429 ? 1s : 0s);
}

std::optional<std::chrono::milliseconds> patience_left::pause(std::chrono::milliseconds wanted, clock::time_point now) {
  if (!since_)
    since_ = now;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*since_ + most_ - now);
  if (left <= 0ms)
    return std::nullopt;
  return std::min(wanted, left);
}

} // namespace kcx::cli
