/// Shell completion scripts, made from the command line's own table.
#pragma once

#include "actors/cli/line/command_line.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

/// The script for "bash", "zsh" or "fish"; empty for another shell.
[[nodiscard]] std::string completion_script(std::string_view shell, const std::vector<command_summary>& commands);

} // namespace kcx::cli
