/// Finds the node and its token, and calls its API.
#pragma once

#include "actors/http/client/client.hpp"
#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kcx::cli {

/// Where the command line and the environment say the node is. Empty: not said.
struct node_location {
  std::string url;
  std::string token;
  std::string token_file;
  std::string data;
  /// PEM file of the authorities to trust for https.
  std::string ca_file;
};

/// Fills what the command line left open from KCX_URL, KCX_DATA, KCX_TOKEN, KCX_CA_FILE and the default ./kcx-data. A
/// place on the command line wins over any in the environment, a URL over a directory.
[[nodiscard]] node_location completed(node_location given, const std::function<const char*(const char*)>& environment);

/// An answer of any status. `document` is null where the body is no JSON.
struct reply {
  unsigned status = 0;
  std::string body;
  nlohmann::json document;
  /// How long the node wants to be left alone before it is asked again; nothing where it does not say.
  std::optional<std::chrono::seconds> retry_after{};

  [[nodiscard]] bool ok() const noexcept { return status >= 200 && status < 300; }
};

/// One connection to the node. Not thread-safe: one per thread. After a failure the next call looks up address and
/// token anew, since a node that was restarted may listen elsewhere.
class node_client {
public:
  explicit node_client(node_location where) : where_{std::move(where)} {}

  /// Fails with ec::invalid_setting (no usable token or URL) or ec::system_failed or ec::timeout (the node cannot be
  /// reached, or did not answer).
  expected<reply> call(std::string_view method, const std::string& target, const nlohmann::json& body = nullptr,
                       std::chrono::milliseconds timeout = std::chrono::seconds{30});

  /// Sent with every further call. Empty: none.
  void use_idempotency_key(std::string key) { idempotency_key_ = std::move(key); }

  /// Of the latest call that failed: whether the node may yet have carried it out.
  [[nodiscard]] bool may_have_been_sent() const noexcept { return may_have_been_sent_; }

  /// GET whose 2xx body goes to `piece` as it comes; see http::client::stream. `timeout` bounds the silence. `accept`
  /// is sent unless empty. Fails like call().
  expected<reply> stream(const std::string& target, const std::function<bool(std::string_view)>& piece,
                         std::chrono::milliseconds timeout, const std::string& accept = "");

private:
  outcome connect();
  expected<http::client_request> prepared(std::string_view method, const std::string& target);

  node_location where_;
  std::unique_ptr<http::client> client_;
  std::string token_;
  std::string idempotency_key_;
  bool may_have_been_sent_ = false;
};

} // namespace kcx::cli
