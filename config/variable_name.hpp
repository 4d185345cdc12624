/// What can be the name of an environment variable.
#pragma once

#include <algorithm>
#include <string_view>

namespace kcx {

/// Letters, digits and '_', not beginning with a digit.
[[nodiscard]] inline bool is_variable_name(std::string_view name) noexcept {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

} // namespace kcx
