#include "actors/cli/node_client.hpp"

#include "config/units.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

expected<std::string> read_token(const std::string& file) {
  errno = 0;
  std::ifstream in{file};
  std::string token{std::istreambuf_iterator<char>{in}, {}};
  if (!in.is_open() || in.bad())
    return error{
      ec::invalid_setting, "cannot read the token in " + file + ": " + std::generic_category().message(errno), {}};
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.empty())
    return error{ec::invalid_setting, file + " holds no token", {}};
  return token;
}

expected<std::string> read_address(const std::string& data) {
  auto file = data + "/node.json";
  errno = 0;
  std::ifstream in{file};
  if (!in && errno != ENOENT)
    return error{ec::invalid_setting,
                 "cannot read " + file +
                   ", which tells where the node listens: " + std::generic_category().message(errno),
                 {}};
  if (!in)
    return error{ec::system_failed,
                 "no node runs on the data directory " + data + " (there is no " + file +
                   "); start one with \"kcx-node --data " + data + "\", or tell where it is by --data or --url",
                 {}};
  auto document = json::parse(in, nullptr, false);
  if (document.is_object() && document.contains("http") && document["http"].is_string())
    return document["http"].get<std::string>();
  return error{ec::system_failed, file + " does not tell where the node listens", {}};
}

expected<std::string> find_token(const node_location& where) {
  if (!where.token.empty())
    return where.token;
  if (!where.token_file.empty())
    return read_token(where.token_file);
  if (!where.data.empty())
    return read_token(where.data + "/admin.token");
  return error{
    ec::invalid_setting, "no token for " + where.url + ": name a file by --token-file, or set KCX_TOKEN", {}};
}

/// The API lies at the root of its port: with a path in front, every call would go elsewhere than was meant.
outcome check_url(const std::string& url) {
  const auto scheme = url.find("://");
  const auto path = scheme == std::string::npos ? scheme : url.find_first_of("/?#", scheme + 3);
  if (path == std::string::npos || url.substr(path) == "/")
    return done{};
  return error{ec::invalid_setting,
               "\"" + url + "\" is no URL of a node: nothing can stand behind the port; write it as " +
                 url.substr(0, path),
               {}};
}

reply to_reply(http::response from) {
  reply answer{from.status, std::move(from.body), nullptr};
  if (const auto seconds = parse_number(from.headers.find("Retry-After").value_or(""), 0, 86'400))
    answer.retry_after = std::chrono::seconds{*seconds};
  auto document = json::parse(answer.body, nullptr, false);
  if (!document.is_discarded())
    answer.document = std::move(document);
  return answer;
}

} // namespace

node_location completed(node_location given, const std::function<const char*(const char*)>& environment) {
  auto from = [&](const char* name) {
    const char* value = environment(name);
    return std::string{value == nullptr ? "" : value};
  };
  const bool placed = !given.url.empty() || !given.data.empty();
  if (!placed) {
    given.url = from("KCX_URL");
    given.data = from("KCX_DATA");
  }
  if (given.url.empty() && given.data.empty())
    given.data = "./kcx-data";
  // A directory named on the command line brings its own token; one from the environment may belong to another node.
  const bool by_directory = placed && given.url.empty();
  if (given.token.empty() && given.token_file.empty() && !by_directory)
    given.token = from("KCX_TOKEN");
  if (given.ca_file.empty())
    given.ca_file = from("KCX_CA_FILE");
  return given;
}

outcome node_client::connect() {
  if (client_)
    return done{};
  if (auto checked = check_url(where_.url); !checked)
    return checked;
  auto token = find_token(where_);
  auto url = where_.url.empty() ? read_address(where_.data) : expected<std::string>{where_.url};
  // A directory without a node has no token either; that no node runs is what helps.
  if (!url)
    return std::move(url).error();
  if (!token)
    return std::move(token).error();
  token_ = *std::move(token);
  http::client_options options;
  options.url = *std::move(url);
  options.ca_file = where_.ca_file;
  options.if_refused = "is the node running?";
  auto opened = http::client::open(std::move(options));
  if (!opened)
    return std::move(opened).error();
  client_ = *std::move(opened);
  return done{};
}

expected<http::client_request> node_client::prepared(std::string_view method, const std::string& target) {
  if (auto connected = connect(); !connected)
    return std::move(connected).error();
  http::client_request what;
  what.method = method;
  what.target = target;
  what.headers.add("Authorization", "Bearer " + token_);
  return what;
}

expected<reply> node_client::call(std::string_view method, const std::string& target, const json& body,
                                  std::chrono::milliseconds timeout) {
  may_have_been_sent_ = false;
  auto what = prepared(method, target);
  if (!what)
    return std::move(what).error();
  what->headers.add("Accept", "application/json, application/problem+json");
  what->timeout = timeout;
  if (!idempotency_key_.empty())
    what->headers.add("Idempotency-Key", idempotency_key_);
  if (!body.is_null()) {
    what->headers.add("Content-Type", "application/json");
    what->body = body.dump();
  }
  auto answer = client_->request(*what);
  if (answer)
    return to_reply(*std::move(answer));
  may_have_been_sent_ = client_->may_have_been_sent();
  client_.reset();
  return std::move(answer).error();
}

expected<reply> node_client::stream(const std::string& target, const std::function<bool(std::string_view)>& piece,
                                    std::chrono::milliseconds timeout, const std::string& accept) {
  auto what = prepared("GET", target);
  if (!what)
    return std::move(what).error();
  what->timeout = timeout;
  if (!accept.empty())
    what->headers.add("Accept", accept);
  auto answer = client_->stream(*what, piece);
  if (answer)
    return to_reply(*std::move(answer));
  client_.reset();
  return std::move(answer).error();
}

} // namespace kcx::cli
