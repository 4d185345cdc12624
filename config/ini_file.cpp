#include "config/ini_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace kcx {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr auto blanks = " \t\r";
  auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

error unreadable(const std::string& file) {
  auto cause = std::generic_category().message(errno == 0 ? EIO : errno);
  return {ec::invalid_setting, "option --config: cannot read the settings file " + file + ": " + cause, {}};
}

} // namespace

expected<std::vector<ini_entry>> read_ini_file(const std::string& file) {
  // A pipe or a device could have whoever reads it wait for ever.
  std::error_code unknown;
  if (std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown))
    return error{ec::invalid_setting, "option --config: " + file + " is no regular file", {}};
  errno = 0;
  std::ifstream in{file};
  if (!in)
    return unreadable(file);
  std::vector<ini_entry> entries;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    auto text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';')
      continue;
    auto equals = text.find('=');
    if (text.front() == '[' || equals == std::string_view::npos || equals == 0)
      return error{ec::invalid_setting,
                   file + ":" + std::to_string(number) + ": \"" + std::string{text} +
                     "\" is no setting; allowed are lines \"name = value\" and comments that begin with #",
                   {}};
    auto value = trimmed(text.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    entries.push_back({std::string{trimmed(text.substr(0, equals))}, std::string{value}, number});
  }
  if (in.bad())
    return unreadable(file);
  return entries;
}

} // namespace kcx
