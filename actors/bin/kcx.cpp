// kcx: the command line client of kcx-node.
#include "actors/cli/command_support.hpp"
#include "actors/cli/commands.hpp"
#include "actors/cli/exit_code.hpp"
#include "config/posix.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

int run(const std::vector<std::string>& arguments) {
  using namespace kcx::cli;
  auto what = parse_command_line(arguments);
  if (!what) {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    return tell(std::find(arguments.begin(), dashes, "--json") != dashes, what.error());
  }
  if (!what->answer.empty()) {
    std::cout << what->answer;
    return flushed(exit_codes::success);
  }
  what->where = completed(std::move(what->where), [](const char* name) -> const char* { return std::getenv(name); });
  return carry_out(*what);
}

} // namespace

int main(int argc, char** argv) {
  kcx::keep_standard_descriptors();
  // A closed pipe is seen as a failed write.
  std::signal(SIGPIPE, SIG_IGN);
  int code = kcx::cli::exit_codes::failed;
  try {
    code = run({argv + 1, argv + argc});
  } catch (const std::exception& failure) {
    std::cerr << "kcx: " << failure.what() << '\n';
  }
  std::cout.flush();
  // A follower that was left alone may still read from the network: static objects must not go from under it.
  std::_Exit(code);
}
