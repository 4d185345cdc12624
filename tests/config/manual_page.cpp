#define CAF_SUITE manual_page
#include "config/manual_page.hpp"

#include "caf/test/unit_test.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <string>

using namespace kcx;

namespace {

std::string page() {
  CLI::App app{"tool: does things.\n", "tool"};
  std::string text;
  std::vector<std::string> files;
  app.add_option("-n,--name", text, "A name; it's \\ or \u2026")->type_name("NAME");
  app.add_option("--speed", text, ".5 or more")->group("Motion");
  auto* sub = app.add_subcommand("copy", "Copy files");
  bool force = false;
  sub->add_flag("-f,--force", force, "Even if it is there");
  sub->add_option("FILE", files, "What to copy")->type_name("")->required();
  sub->footer("Two\n  lines.");
  app.require_subcommand(1);
  return manual_page(app, {{"EXIT STATUS", {{"0", "done"}}}});
}

bool has(const std::string& part) {
  const auto text = page();
  if (text.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in " << text);
  return false;
}

} // namespace

CAF_TEST(a page tells name synopsis options commands and what was added) {
  CAF_CHECK(has(".SH NAME\ntool \\- does things\n"));
  CAF_CHECK(has(".SH SYNOPSIS\n\\fBtool\\fR [\\fIOPTION\\fR...] \\fICOMMAND\\fR ...\n"));
  CAF_CHECK(has(".TP\n\\fB\\-n\\fR, \\fB\\-\\-name\\fR \\fINAME\\fR\n"));
  CAF_CHECK(has(".SS \"Motion\"\n"));
  CAF_CHECK(has(".SS \"tool copy\"\n\\fBtool copy\\fR [\\fIOPTION\\fR...] \\fIFILE\\fR...\n"));
  CAF_CHECK(has(".nf\nTwo\n  lines.\n.fi\n"));
  CAF_CHECK(has(".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone\n"));
}

CAF_TEST(text cannot be taken for roff) {
  CAF_CHECK(has("\nA name; it's \\e or \\[u2026]\n"));
  CAF_CHECK(has("\n\\&.5 or more\n"));
}
