/// Runs command lines of kcx against a fake node, within the test's process.
#pragma once

#include "tests/actors/cli/fake_node.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace kcx::test {

struct finished {
  int code = -1;
  std::string out;
  std::string err;
};

/// Carries out a command line with both outputs in files. Throws if it is refused. `onto` takes standard output
/// instead, as "/dev/full".
finished run_kcx(fake_node& node, std::vector<std::string> arguments, const std::string& onto = "");

/// Job 7 with name "j" in this state, as the API shows it; `more` wins.
std::string job(const std::string& state, nlohmann::json more = nlohmann::json::object());

/// The events of a log from the offset that is asked for on, in pieces of a thousand bytes, and its end.
http::response log_from(const http::request& ask, const std::string& log);

/// Says on failure what was looked for and where.
bool contains(const std::string& text, const std::string& part);

} // namespace kcx::test
