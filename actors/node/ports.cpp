#include "actors/node/ports.hpp"

#include "actors/http/api/line_cutter.hpp"
#include "actors/http/message/auth.hpp"
#include "actors/inspector/routes.hpp"
#include "storage/sqlite/reader.hpp"

#include <utility>

namespace kcx {

namespace {

/// The inspection port takes no documents.
constexpr std::size_t inspection_body_bytes = 64 * 1024;

/// What both ports have in common.
http::server_options port_options(const settings& options) {
  http::server_options result;
  result.allowed_hosts = options.allowed_hosts;
  result.allowed_origins = options.allowed_origins;
  if (!options.tls_certificate.empty())
    result.tls = http::tls_options{options.tls_certificate.string(), options.tls_key.string()};
  return result;
}

} // namespace

http::server_options api_options(const settings& options, std::shared_ptr<http::token_table> tokens) {
  auto result = port_options(options);
  result.limits.body_bytes = static_cast<std::size_t>(options.body_limit);
  // Before the body is read: whoever has no token must not be able to fill memory.
  result.admit = [tokens = std::move(tokens)](const http::request& ask) {
    auto verdict = tokens->admit(ask);
    verdict.streamed = http::is_line_upload(ask);
    if (ask.path == "/v1/jobs")
      verdict.body_advice = "Send many jobs as application/x-ndjson, a line each: such a body may have any length.";
    return verdict;
  };
  return result;
}

http::server_options inspection_options(const settings& options, std::shared_ptr<http::token_table> tokens) {
  auto result = port_options(options);
  result.limits.body_bytes = inspection_body_bytes;
  result.admit = [tokens = std::move(tokens)](const http::request& ask) {
    // The page and what shows counts need no token, nor does a path that does not exist tell anything.
    const auto where = http::find_route(ask.method, ask.path, inspection_routes());
    if (where.found == nullptr || where.found->needs == http::scope::none)
      return http::admission{};
    return tokens->admit(ask, inspection_routes());
  };
  return result;
}

expected<std::shared_ptr<http::token_table>> load_tokens(const settings& options, const data_directory& data) {
  http::token_table::options how;
  how.admin_digest = http::token_digest(data.admin_token());
  how.rate_limit = options.rate_limit;
  how.secure = !options.tls_certificate.empty();
  auto table = std::make_shared<http::token_table>(std::move(how));
  auto reader = open_sqlite_reader(data.database());
  if (!reader)
    return std::move(reader).error();
  const auto tokens = (*reader)->tokens();
  if (!tokens)
    return tokens.error();
  for (const auto& each : *tokens)
    table->add(each);
  return table;
}

} // namespace kcx
