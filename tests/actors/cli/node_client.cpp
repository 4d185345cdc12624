#define CAF_SUITE node_client
#include "actors/cli/node_client.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/fake_node.hpp"
#include "tests/support/files.hpp"

#include <map>
#include <string>

using namespace kcx;
using namespace kcx::cli;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

node_location completed_from(node_location given, const std::map<std::string, std::string>& environment) {
  return completed(std::move(given), [&](const char* name) -> const char* {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

} // namespace

CAF_TEST(the command line wins over the environment and a url over a directory) {
  const std::map<std::string, std::string> both{{"KCX_URL", "http://u"}, {"KCX_DATA", "/d"}, {"KCX_TOKEN", "t"}};
  auto nothing = completed_from({}, {});
  CAF_CHECK_EQUAL(nothing.data, "./kcx-data");
  auto from_environment = completed_from({}, both);
  CAF_CHECK_EQUAL(from_environment.url, "http://u");
  CAF_CHECK_EQUAL(from_environment.token, "t");
  node_location by_directory;
  by_directory.data = "/other";
  auto directory = completed_from(by_directory, both);
  CAF_CHECK(directory.url.empty());
  CAF_CHECK_EQUAL(directory.data, "/other");
  CAF_CHECK(directory.token.empty());
}

CAF_TEST(address and token come from the data directory) {
  fake_node node;
  node.answer("GET", "/v1/node", 200, R"({"pid":1})");
  auto reply = node_client{{"", "", "", node.data(), ""}}.call("GET", "/v1/node");
  CAF_REQUIRE(reply.has_value());
  CAF_CHECK(reply->ok());
  CAF_CHECK_EQUAL(reply->document["pid"], 1);
  CAF_CHECK_EQUAL(std::string{node.seen().front().authorization}, "Bearer " + node.token());
}

CAF_TEST(where nobody listens it is asked whether the node runs) {
  const auto refused = node_client{{"http://127.0.0.1:1", "t", "", "", ""}}.call("GET", "/v1/node");
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().message, "cannot reach http://127.0.0.1:1: Connection refused; is the node running?");
}

CAF_TEST(a token file ends with its line) {
  fake_node node;
  temp_dir dir;
  write_file(dir / "t", "secret\n");
  auto reply = node_client{{node.url(), "", dir / "t", "", ""}}.call("GET", "/x");
  CAF_REQUIRE(reply.has_value());
  CAF_CHECK_EQUAL(std::string{node.seen().front().authorization}, "Bearer secret");
}

CAF_TEST(what is missing is told and tells here from there) {
  temp_dir dir;
  auto no_node = node_client{{"", "", "", dir.path(), ""}}.call("GET", "/x");
  CAF_REQUIRE(!no_node.has_value());
  CAF_CHECK(no_node.error().code == ec::system_failed);
  CAF_CHECK(no_node.error().message.find("no node runs") != std::string::npos);
  std::filesystem::create_symlink("node.json", dir / "node.json");
  auto unreadable = node_client{{"", "", "", dir.path(), ""}}.call("GET", "/x");
  CAF_CHECK(unreadable.error().code == ec::invalid_setting);
  CAF_CHECK(unreadable.error().message.find("cannot read " + (dir / "node.json").string()) == 0);
  CAF_CHECK(unreadable.error().message.find("Too many levels of symbolic links") != std::string::npos);
  auto no_token = node_client{{"http://127.0.0.1:1", "", "", "", ""}}.call("GET", "/x");
  CAF_CHECK(no_token.error().code == ec::invalid_setting);
  auto no_file = node_client{{"http://127.0.0.1:1", "", "/no/such", "", ""}}.call("GET", "/x");
  CAF_CHECK(no_file.error().code == ec::invalid_setting);
  auto no_url = node_client{{"nonsense", "t", "", "", ""}}.call("GET", "/x");
  CAF_CHECK(no_url.error().code == ec::invalid_setting);
  auto with_path = node_client{{"http://127.0.0.1:1/kcx", "t", "", "", ""}}.call("GET", "/x");
  CAF_CHECK(with_path.error().code == ec::invalid_setting);
  CAF_CHECK(with_path.error().message.find("write it as http://127.0.0.1:1") != std::string::npos);
  CAF_CHECK(node_client({"http://127.0.0.1:1/", "t", "", "", ""}).call("GET", "/x").error().code == ec::system_failed);
  auto refused = node_client{{"http://127.0.0.1:1", "t", "", "", ""}}.call("GET", "/x");
  CAF_CHECK(refused.error().code == ec::system_failed);
}

CAF_TEST(after a failure the address is looked up anew) {
  auto first = std::make_unique<fake_node>();
  temp_dir dir;
  auto publish = [&](const std::string& url) { write_file(dir / "node.json", R"({"http":")" + url + "\"}"); };
  write_file(dir / "admin.token", "t\n");
  publish(first->url());
  node_client client{{"", "", "", dir.path(), ""}};
  CAF_CHECK(client.call("GET", "/x").has_value());
  first.reset();
  CAF_CHECK(!client.call("GET", "/x").has_value());
  fake_node second;
  publish(second.url());
  CAF_CHECK(client.call("GET", "/x").has_value());
  CAF_CHECK_EQUAL(second.seen().size(), 1u);
}
