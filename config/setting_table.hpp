/// The rows behind known_settings() and parse_settings(): what each setting is called, takes and does.
///
/// For settings.cpp only; everybody else sees settings.hpp.
#pragma once

#include "config/settings.hpp"

#include <string_view>
#include <vector>

namespace kcx {

struct setting_row {
  setting_info info;
  /// The heading that it stands below in help.
  const char* group;
  const char* description;
  /// Stores the value, or returns false if it is not one of those allowed.
  bool (*assign)(settings& to, std::string_view value);
};

/// In the order of --help and node.ini.
[[nodiscard]] const std::vector<setting_row>& setting_table();

} // namespace kcx
