/// Webhooks and deliveries as the API has them. Pure.
#pragma once

#include "config/error.hpp"
#include "storage/webhook.hpp"

#include <nlohmann/json.hpp>

namespace kcx {

/// `{"url", "secret", "events"}`: the webhook of a project. Fails with invalid_input.
[[nodiscard]] expected<webhook_spec> parse_webhook(const nlohmann::json& document);

/// Without its secret; `signed` tells whether there is one.
[[nodiscard]] nlohmann::json to_json(const project_webhook& hook);

/// Without body and secret.
[[nodiscard]] nlohmann::json to_json(const delivery& sent);

} // namespace kcx
