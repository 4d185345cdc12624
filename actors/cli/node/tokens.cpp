#include "actors/cli/node/tokens.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"

#include <ctime>
#include <iostream>
#include <unistd.h>

namespace kcx::cli {

namespace {

using nlohmann::json;

std::string utc_in(std::chrono::milliseconds from_now) {
  const auto at = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + from_now);
  std::tm parts{};
  ::gmtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string text_of(const json& token, const char* key) {
  const auto at = token.find(key);
  if (at == token.end() || at->is_null())
    return "-";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

} // namespace

int token_create(const invocation& what) {
  json body{{"name", what.token.name}, {"scopes", what.token.scopes}};
  if (what.token.expires_in)
    body["expires_at"] = utc_in(*what.token.expires_in);
  if (what.token.rate_limit)
    body["rate_limit"] = *what.token.rate_limit;
  int code = exit_codes::success;
  node_client node{what.where};
  const auto made = get_or_tell(what, node, "POST", "/v1/tokens", code, body);
  if (!made)
    return code;
  if (what.json)
    std::cout << dumped(*made);
  else
    std::cout << made->value("token", "") << '\n';
  code = flushed(code);
  const auto id = made->value("id", std::int64_t{0});
  if (!std::cout)
    std::cerr << "kcx: token " << id << " is made all the same and cannot be shown again: \"kcx token revoke " << id
              << "\" ends it\n";
  else if (!what.quiet)
    std::cerr << "token " << id << " made; it is not shown again\n";
  return code;
}

int token_list(const invocation& what) {
  int code = exit_codes::success;
  node_client node{what.where};
  const auto tokens = get_or_tell(what, node, "GET", "/v1/tokens", code);
  if (!tokens)
    return code;
  if (what.json) {
    std::cout << dumped(*tokens);
    return flushed(code);
  }
  table shown{{"ID", "NAME", "SCOPES", "EXPIRES", "LAST USED", "PER MINUTE"}, {}, {1}};
  for (const auto& each : tokens->value("items", json::array())) {
    std::string scopes;
    for (const auto& one : each.value("scopes", json::array()))
      scopes += (scopes.empty() ? "" : ",") + one.get<std::string>();
    shown.rows.push_back({{text_of(each, "id")},
                          {visible(text_of(each, "name"))},
                          {scopes},
                          {text_of(each, "expires_at")},
                          {text_of(each, "last_used_at")},
                          {text_of(each, "rate_limit")}});
  }
  const auto how = look_of(STDOUT_FILENO);
  std::cout << render(shown, how.width, how.colours);
  return flushed(code);
}

int token_revoke(const invocation& what) {
  int code = exit_codes::success;
  node_client node{what.where};
  auto revoked = json::array();
  for (const auto id : what.ids)
    if (get_or_tell(what, node, "DELETE", "/v1/tokens/" + std::to_string(id), code)) {
      revoked.push_back({{"id", id}, {"revoked", true}});
      if (!what.quiet)
        std::cerr << "token " << id << " revoked\n";
    }
  if (what.json && !revoked.empty())
    std::cout << dumped(what.ids.size() == 1 ? revoked.front() : json{{"items", revoked}});
  return flushed(code);
}

} // namespace kcx::cli
