/// The table of the inspection port's calls besides the page's files, in the form of the API's.
#pragma once

#include "actors/http/api/routes.hpp"

#include <span>

namespace kcx {

[[nodiscard]] std::span<const http::route> inspection_routes() noexcept;

} // namespace kcx
