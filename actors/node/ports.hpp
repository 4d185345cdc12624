/// How a node's two ports are set up, from its settings.
#pragma once

#include "actors/http/api/token_table.hpp"
#include "actors/http/server/server.hpp"
#include "config/data_directory.hpp"
#include "config/error.hpp"
#include "config/settings.hpp"

#include <memory>

namespace kcx {

/// All tokens there are. Call it once the database file is open for writing.
[[nodiscard]] expected<std::shared_ptr<http::token_table>> load_tokens(const settings& options,
                                                                       const data_directory& data);

/// Without addresses and the number of connections.
[[nodiscard]] http::server_options api_options(const settings& options, std::shared_ptr<http::token_table> tokens);
[[nodiscard]] http::server_options inspection_options(const settings& options,
                                                      std::shared_ptr<http::token_table> tokens);

} // namespace kcx
