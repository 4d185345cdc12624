/// The page of the inspection port, from files compiled into the program.
#pragma once

#include "actors/http/message/message.hpp"

#include <optional>
#include <string_view>

namespace kcx::http {

/// The file for a path ("/" is index.html), with its type and a policy that lets it load only what lies beside it;
/// nothing if there is none.
[[nodiscard]] std::optional<response> web_page(std::string_view path);

} // namespace kcx::http
