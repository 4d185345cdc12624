#define CAF_SUITE completion
#include "actors/cli/line/completion.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace kcx::cli;
using namespace kcx::test;

namespace {

/// What bash offers after these words; the last one is what is being typed.
std::string offered(const std::string& words) {
  temp_dir dir;
  write_file(dir / "script", completion_script("bash", command_summaries()) + "COMP_WORDS=(" + words +
                               ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_kcx\nprintf '%s ' \"${COMPREPLY[@]}\"\n");
  auto* out = ::popen(("bash " + (dir / "script").string() + " 2>&1").c_str(), "r");
  std::string text;
  for (int c = 0; (c = std::fgetc(out)) != EOF;)
    text += static_cast<char>(c);
  CAF_CHECK_EQUAL(::pclose(out), 0);
  return text;
}

} // namespace

CAF_TEST(bash offers subcommands and their options) {
  CAF_CHECK_EQUAL(offered("kcx st"), "status ");
  CAF_CHECK_EQUAL(offered("kcx node dr"), "drain ");
  CAF_CHECK_EQUAL(offered("kcx run --max-a"), "--max-attempts ");
  CAF_CHECK_EQUAL(offered("kcx --data x run --max-a"), "--max-attempts ");
  CAF_CHECK_EQUAL(offered("kcx completion z"), "zsh ");
  CAF_CHECK_EQUAL(offered("kcx list --pat"), "--patience ");
}

CAF_TEST(bash offers the words an option takes and files where they belong) {
  CAF_CHECK_EQUAL(offered("kcx run --logs a"), "all ");
  CAF_CHECK_EQUAL(offered("kcx list -s ru"), "running ");
  CAF_CHECK_EQUAL(offered("kcx token create ci -s ad"), "admin ");
  CAF_CHECK_EQUAL(offered("kcx deliveries list --state ''"), "pending delivered failed ");
  CAF_CHECK_EQUAL(offered("kcx webhook set web http://x/ -e ti"), "timed_out ");
  CAF_CHECK_EQUAL(offered("kcx submit /etc/hostnam"), "/etc/hostname ");
  CAF_CHECK_EQUAL(offered("kcx status /etc/hostnam"), " ");
}

CAF_TEST(bash offers nothing for a value it cannot know) {
  CAF_CHECK_EQUAL(offered("kcx run --name ''"), " ");
}

CAF_TEST(every subcommand and option is in every script) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    auto script = completion_script(shell, command_summaries());
    for (const auto& command : command_summaries()) {
      CAF_CHECK(script.find(command.path.substr(command.path.rfind(' ') + 1)) != std::string::npos);
      for (const auto& option : command.options) {
        auto name = option.names.back();
        CAF_CHECK(script.find(name.substr(name.find_first_not_of('-'))) != std::string::npos);
      }
    }
  }
  CAF_CHECK(completion_script("tcsh", command_summaries()).empty());
}

CAF_TEST(bash offers each option once) {
  CAF_CHECK_EQUAL(offered("kcx list --he"), "--help ");
  CAF_CHECK_EQUAL(offered("kcx node --he"), "--help ");
}
