// What docs/http_api.md promises is what the tables in the code hold.
#define CAF_SUITE http_documentation
#include "actors/http/api/openapi.hpp"
#include "actors/http/api/routes.hpp"
#include "actors/http/message/problem.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <nlohmann/json.hpp>

#include <cctype>
#include <set>
#include <sstream>
#include <string>

using namespace kcx;
using namespace kcx::http;

namespace {

std::string document() {
  return test::read_file(std::filesystem::path{KCX_SOURCE_DIR} / "docs" / "http_api.md");
}

} // namespace

CAF_TEST(every problem has its section) {
  const auto text = document();
  for (const auto& kind : all_problem_kinds()) {
    const auto title = "### " + std::string{kind.code} + " (" + std::to_string(kind.status) + ")\n";
    if (text.find(title) == std::string::npos)
      CAF_ERROR("docs/http_api.md has no section " << title);
  }
}

CAF_TEST(every section is a problem that exists) {
  const auto text = document();
  auto at = text.find("## Problems");
  CAF_REQUIRE(at != std::string::npos);
  while ((at = text.find("\n### ", at + 1)) != std::string::npos) {
    const auto title = text.substr(at + 5, text.find('\n', at + 5) - at - 5);
    bool exists = false;
    for (const auto& kind : all_problem_kinds())
      exists = exists || title == std::string{kind.code} + " (" + std::to_string(kind.status) + ")";
    if (!exists)
      CAF_ERROR("no problem is called " << title);
  }
}

CAF_TEST(every route is described) {
  const auto text = document();
  for (const auto& each : api_routes()) {
    const auto call = std::string{each.method} + " " + std::string{each.path};
    if (text.find(call) == std::string::npos)
      CAF_ERROR("docs/http_api.md does not mention " << call);
  }
}

CAF_TEST(the table of the fields of a job has what is answered besides its submission) {
  const auto api = nlohmann::json::parse(openapi_document());
  const auto& schemas = api["components"]["schemas"];
  std::set<std::string> answered{"run_at", "steps"};
  for (const auto& [name, about] : schemas["Job"]["properties"].items())
    if (!schemas["JobSpec"]["properties"].contains(name))
      answered.insert(name);
  const auto text = document();
  const auto begin = text.find("#### The fields of a job\n");
  CAF_REQUIRE(begin != std::string::npos);
  std::set<std::string> described;
  std::istringstream lines{text.substr(begin, text.find("\n### ", begin) - begin)};
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("| `"))
      described.insert(line.substr(3, line.find('`', 3) - 3));
  CAF_CHECK_EQUAL(described, answered);
}

CAF_TEST(the OpenAPI document has every route with its scope and no other) {
  const auto openapi = nlohmann::json::parse(openapi_document());
  std::size_t operations = 0;
  for (const auto& path : openapi["paths"])
    operations += path.size();
  CAF_CHECK_EQUAL(operations, api_routes().size());
  for (const auto& each : api_routes()) {
    std::string method{each.method};
    for (auto& c : method)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto& paths = openapi["paths"];
    const auto path = paths.find(each.path);
    if (path == paths.end() || !path->contains(method)) {
      CAF_ERROR("openapi.json lacks " << each.method << " " << each.path);
      continue;
    }
    CAF_CHECK_EQUAL((*path)[method].value("x-kcx-scope", ""), to_string(each.needs));
  }
}
