/// Reads members of documents that a node of another version may have made: nothing here throws for another form.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace kcx::cli {

/// The member if it is a text, else nothing; also of what is no object.
[[nodiscard]] inline std::string text_at(const nlohmann::json& object, std::string_view key) {
  if (!object.is_object())
    return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

} // namespace kcx::cli
