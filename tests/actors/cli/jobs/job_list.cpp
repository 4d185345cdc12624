#define CAF_SUITE job_list
#include "actors/cli/jobs/job_list.hpp"

#include "actors/cli/command_support.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/cli/run_kcx.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

using namespace kcx;
using namespace kcx::cli;
using namespace kcx::test;
using nlohmann::json;
using words = std::vector<std::string>;

CAF_TEST(list goes through the pages up to its limit) {
  fake_node node;
  node.react("GET", "/v1/jobs", [](const http::request& ask) {
    return http::json_response(200, ask.parameter("cursor")
                                      ? R"({"items":[{"id":1,"name":"old","state":"queued"}],"next_cursor":"x"})"
                                      : R"({"items":[{"id":2,"name":"new","state":"queued"}],"next_cursor":"c d"})");
  });
  auto done = run_kcx(node, {"list", "--limit", "2", "--state", "queued", "--state", "running", "--name", "a&b"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK(contains(done.out, "new"));
  CAF_CHECK(contains(done.out, "old"));
  CAF_CHECK_EQUAL(std::string{node.seen().at(1).target},
                  "/v1/jobs?limit=1&state=queued%2Crunning&name=a%26b&cursor=c%20d");
  done = run_kcx(node, {"list", "--limit", "2", "--json"});
  CAF_CHECK_EQUAL(json::parse(done.out).at("items").size(), 2u);
}

CAF_TEST(dead letters are listed by state and page by page) {
  fake_node node;
  node.react("GET", "/v1/dead-letters", [](const http::request& ask) {
    const bool first = !ask.parameter("cursor");
    auto items = json::array();
    for (auto id = first ? 300 : 100; id > (first ? 100 : 50); --id)
      items.push_back({{"id", id}, {"name", "j"}, {"state", "failed"}});
    return http::json_response(200, json{{"items", items}, {"next_cursor", first ? json("101") : json()}}.dump());
  });
  const auto done = run_kcx(node, {"--json", "dead-letters", "list", "--state", "failed", "--limit", "250"});
  CAF_CHECK_EQUAL(done.code, 0);
  CAF_CHECK_EQUAL(json::parse(done.out)["items"].size(), 250u);
  const auto seen = node.seen();
  CAF_REQUIRE_EQUAL(seen.size(), 2u);
  CAF_CHECK_EQUAL(seen[0].target, "/v1/dead-letters?limit=200&state=failed");
  CAF_CHECK_EQUAL(seen[1].target, "/v1/dead-letters?limit=50&state=failed&cursor=101");
}

CAF_TEST(a list is printed as its pages come) {
  temp_dir dir;
  const std::string out = dir / "out";
  for (const bool as_json : {false, true}) {
    fake_node node;
    std::string before;
    node.react("GET", "/v1/jobs", [&](const http::request& ask) {
      if (ask.parameter("cursor"))
        before = read_file(out);
      return http::json_response(200, ask.parameter("cursor")
                                        ? R"({"items":[{"id":1,"name":"old"}],"next_cursor":null})"
                                        : R"({"items":[{"id":2,"name":"new"}],"next_cursor":"c"})");
    });
    const auto done = run_kcx(node, as_json ? words{"list", "--json"} : words{"list"}, out);
    CAF_CHECK_EQUAL(done.code, 0);
    CAF_CHECK(contains(before, "new"));
    if (as_json)
      CAF_CHECK_EQUAL(read_file(out), dumped({{"items", {{{"id", 2}, {"name", "new"}}, {{"id", 1}, {"name", "old"}}}},
                                              {"next_cursor", nullptr}}));
    std::filesystem::remove(out);
  }
}

CAF_TEST(what was printed of a list is one document also where its next page is refused) {
  fake_node node;
  node.react("GET", "/v1/jobs", [](const http::request& ask) {
    return ask.parameter("cursor") ? http::json_response(503, "{}")
                                   : http::json_response(200, R"({"items":[{"id":2}],"next_cursor":"c"})");
  });
  const auto done = run_kcx(node, {"list", "--json"});
  CAF_CHECK_EQUAL(done.code, 4);
  CAF_CHECK_EQUAL(json::parse(done.out), (json{{"items", {{{"id", 2}}}}, {"next_cursor", "c"}}));
  node.answer("GET", "/v1/jobs", 200, R"({"items":[],"next_cursor":null})");
  CAF_CHECK_EQUAL(run_kcx(node, {"list", "--json"}).out, dumped({{"items", json::array()}, {"next_cursor", nullptr}}));
  CAF_CHECK_EQUAL(run_kcx(node, {"list"}).out, "no jobs\n");
}

CAF_TEST(a list that nobody reads is not gone on with) {
  fake_node node;
  node.answer("GET", "/v1/jobs", 200, R"({"items":[{"id":2}],"next_cursor":"c"})");
  CAF_CHECK_EQUAL(run_kcx(node, {"list", "--limit", "1000"}, "/dev/full").code, 1);
  CAF_CHECK_EQUAL(node.count("GET", "/v1/jobs"), 1u);
}
