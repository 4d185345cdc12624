/// A program's manual page, made of the same description as its --help.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace kcx {

/// A section that help does not have, such as EXIT STATUS.
struct manual_section {
  std::string title;
  /// A term and what it means, each; the term may be empty for a paragraph.
  std::vector<std::pair<std::string, std::string>> entries;
};

/// The page in section 1 as roff (man macros): name, synopsis, options by their groups, each subcommand with its own,
/// then `sections`. The application's description is "NAME: what it is.". Only ASCII, so any roff reads it.
[[nodiscard]] std::string manual_page(const CLI::App& app, const std::vector<manual_section>& sections);

} // namespace kcx
