/// A node of a few lines for tests of the command line: answers requests as it was told and remembers them.
#pragma once

#include "actors/http/server/server.hpp"
#include "tests/support/files.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kcx::test {

class fake_node {
public:
  struct call {
    std::string method;
    std::string target;
    std::string authorization;
    std::string body;
  };
  using reaction = std::function<http::response(const http::request&)>;

  fake_node();
  ~fake_node();

  /// A data directory with node.json and admin.token.
  [[nodiscard]] std::string data() const { return dir_.path(); }
  [[nodiscard]] std::string url() const { return server_->url(); }
  [[nodiscard]] std::string token() const { return std::string(64, 'a'); }

  /// How requests of this method and path are answered, on the server's thread; anything else gets 404.
  void react(const std::string& method, const std::string& path, reaction how);
  void answer(const std::string& method, const std::string& path, unsigned status, std::string document);
  /// The answers to one request after the other; the last one repeats.
  void answer_in_turn(const std::string& method, const std::string& path, std::vector<std::string> documents);

  [[nodiscard]] std::vector<call> seen();
  /// How many requests had this method and path.
  [[nodiscard]] std::size_t count(const std::string& method, const std::string& path);

private:
  temp_dir dir_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<reaction>> reactions_;
  std::vector<call> seen_;
  std::map<std::string, std::size_t> counts_;
  std::unique_ptr<http::server> server_;
};

/// A body that breaks off: sends `bytes`, then the connection is cut.
[[nodiscard]] http::response broken_off(std::string bytes);

} // namespace kcx::test
