/// The description of the API for programs: openapi.json beside this file, compiled in. A test compares it with the
/// routes, scripts/check lints it, and tests/end_to_end/test_contract.py tries every answer it promises.
#pragma once

#include <string_view>

namespace kcx::http {

/// OpenAPI 3.1, as JSON.
[[nodiscard]] std::string_view openapi_document() noexcept;

} // namespace kcx::http
