#define CAF_SUITE text
#include "actors/cli/view/text.hpp"

#include "caf/test/unit_test.hpp"

#include <string>

using namespace kcx::cli;

CAF_TEST(control characters and broken utf8 become visible) {
  CAF_CHECK_EQUAL(visible("plain äöü €"), "plain äöü €");
  CAF_CHECK_EQUAL(visible("a\x1b[2Jb\nc"), "a\\x1b[2Jb\\x0ac");
  CAF_CHECK_EQUAL(visible(std::string{"\0x", 2}), "\\x00x");
  CAF_CHECK_EQUAL(visible("\xc2\x9b"), "\\x9b");
  CAF_CHECK_EQUAL(visible("\xff\xc3"), "??");
}

CAF_TEST(text is cut by columns and not inside a character) {
  CAF_CHECK_EQUAL(columns("äöü"), 3u);
  CAF_CHECK_EQUAL(shortened("äöü", 3), "äöü");
  CAF_CHECK_EQUAL(shortened("äöüß", 3), "äö…");
  CAF_CHECK_EQUAL(shortened("abc", 1), "…");
  CAF_CHECK_EQUAL(shortened("abc", 0), "");
}

CAF_TEST(durations and sizes read well) {
  CAF_CHECK_EQUAL(duration_text(0.04), "0.0 s");
  CAF_CHECK_EQUAL(duration_text(12.34), "12.3 s");
  CAF_CHECK_EQUAL(duration_text(59.96), "1 min 00 s");
  CAF_CHECK_EQUAL(duration_text(245), "4 min 05 s");
  CAF_CHECK_EQUAL(duration_text(3 * 3600 + 120), "3 h 02 min");
  CAF_CHECK_EQUAL(duration_text(2 * 86400 + 3 * 3600), "2 d 03 h");
  CAF_CHECK_EQUAL(duration_text(-1), "?");
  CAF_CHECK_EQUAL(counted(0, "job"), "0 jobs");
  CAF_CHECK_EQUAL(counted(1, "job"), "1 job");
  CAF_CHECK_EQUAL(size_text(0), "0 B");
  CAF_CHECK_EQUAL(size_text(1536), "1.5 KiB");
}

CAF_TEST(a table aligns its columns and leaves no blanks at line ends) {
  table shown{{"ID", "NAME"}, {{{"1"}, {"a"}}, {{"200"}, {""}}, {{"3"}, {"äöü"}}}, {1}};
  CAF_CHECK_EQUAL(render(shown, 0, false), "ID   NAME\n1    a\n200\n3    äöü\n");
}

CAF_TEST(a table too wide for the terminal shortens its flexible columns) {
  table shown{{"ID", "NAME", "STATE"}, {{{"1"}, {std::string(60, 'n')}, {"succeeded"}}}, {1}};
  auto text = render(shown, 40, false);
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    CAF_CHECK(columns(text.substr(at, end - at)) <= 40);
  CAF_CHECK(text.find("…") != std::string::npos);
  CAF_CHECK(text.find("succeeded") != std::string::npos);
}

CAF_TEST(colours are written only where they are wanted) {
  table shown{{"STATE"}, {{{"failed", colour_of("failed")}}}, {}};
  CAF_CHECK(render(shown, 0, true).find("\x1b[31mfailed\x1b[0m") != std::string::npos);
  CAF_CHECK(render(shown, 0, false).find('\x1b') == std::string::npos);
}
