// What docs/http_api.md promises is what the tables in the code hold.
#define CAF_SUITE http_documentation
#include "actors/http/problem.hpp"
#include "actors/http/routes.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

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
