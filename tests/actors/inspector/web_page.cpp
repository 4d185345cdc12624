#define CAF_SUITE web_page
#include "actors/inspector/web_page.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx::http;

CAF_TEST(the page is served with a policy that loads nothing foreign) {
  const auto page = web_page("/");
  CAF_REQUIRE(page.has_value());
  CAF_CHECK(page->body.starts_with("<!doctype html>"));
  CAF_CHECK(page->body.ends_with("</html>\n"));
  CAF_CHECK_EQUAL(std::string{page->headers.find("Content-Type").value_or("")}, "text/html; charset=utf-8");
  const auto policy = page->headers.find("Content-Security-Policy").value_or("");
  CAF_CHECK(policy.find("default-src 'none'") != std::string_view::npos);
  CAF_CHECK(policy.find("unsafe") == std::string_view::npos);
}

CAF_TEST(what the page needs is served beside it) {
  CAF_CHECK(web_page("/app.js").has_value());
  CAF_CHECK(web_page("/style.css").has_value());
  CAF_CHECK(!web_page("/missing.js"));
  CAF_CHECK(!web_page(""));
  const auto html = web_page("/")->body;
  // The policy forbids both, and so does the promise to need no other server.
  CAF_CHECK(html.find("style=") == std::string::npos);
  CAF_CHECK(html.find("http://") == std::string::npos);
  CAF_CHECK(html.find("https://") == std::string::npos);
}

CAF_TEST(the script never sets markup) {
  const auto script = web_page("/app.js")->body;
  for (const auto* way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    CAF_CHECK(script.find(way) == std::string::npos);
}
