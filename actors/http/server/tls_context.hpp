/// What a server needs for TLS, from the files that its options name. Internal to the transport.
#pragma once

#include "actors/http/server/server.hpp"
#include "config/error.hpp"

#include <boost/asio/ssl/context.hpp>

#include <memory>

namespace kcx::http {

/// Reads both files. Fails with ec::invalid_setting: the message names the setting, the file and the cause.
[[nodiscard]] expected<std::shared_ptr<boost::asio::ssl::context>> load_tls_context(const tls_options& files);

} // namespace kcx::http
