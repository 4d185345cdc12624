#include "tests/actors/cli/run_kcx.hpp"

#include "actors/cli/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <stdexcept>
#include <stdio_ext.h>
#include <unistd.h>
#include <utility>

namespace kcx::test {

using namespace kcx::cli;
using nlohmann::json;

finished run_kcx(fake_node& node, std::vector<std::string> arguments, const std::string& onto) {
  arguments.insert(arguments.begin(), {"--data", node.data()});
  if (std::find(arguments.begin(), arguments.end(), "--patience") == arguments.end())
    arguments.insert(arguments.begin(), {"--patience", "200ms"});
  auto what = parse_command_line(arguments);
  if (!what)
    throw std::runtime_error{"refused: " + what.error().message};
  what->where = completed(what->where, [](const char*) -> const char* { return nullptr; });
  temp_dir dir;
  std::cout.flush();
  int saved[] = {::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
  const std::string out = onto.empty() ? (dir / "out").string() : onto;
  for (const auto& [fd, name] : {std::pair{STDOUT_FILENO, out}, std::pair{STDERR_FILENO, (dir / "err").string()}}) {
    int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ::dup2(file, fd);
    ::close(file);
  }
  finished result;
  result.code = carry_out(*what);
  std::cout.flush();
  // What could not be written must not come where the next one writes.
  ::__fpurge(stdout);
  std::clearerr(stdout);
  std::cout.clear();
  ::dup2(saved[0], STDOUT_FILENO);
  ::dup2(saved[1], STDERR_FILENO);
  if (onto.empty())
    result.out = read_file(dir / "out");
  result.err = read_file(dir / "err");
  return result;
}

std::string job(const std::string& state, json more) {
  json whole{{"id", 7}, {"name", "j"}, {"state", state}, {"attempt", 1}, {"steps", json::array()}};
  whole.update(more);
  return whole.dump();
}

http::response log_from(const http::request& ask, const std::string& log) {
  std::string events;
  auto offset = std::stoul(std::string{ask.parameter("offset").value_or("0")});
  while (offset < log.size()) {
    const auto piece = log.substr(offset, 1'000);
    offset += piece.size();
    events += "id: " + std::to_string(offset) + "\ndata: " + json{{"text", piece}}.dump() + "\n\n: ping\n\n";
  }
  auto answer = http::text_response(200, events + "id: " + std::to_string(offset) + "\nevent: end\ndata: {}\n\n");
  return answer;
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos)
    return true;
  std::cerr << "no \"" << part << "\" in \"" << text << "\"\n";
  return false;
}

} // namespace kcx::test
