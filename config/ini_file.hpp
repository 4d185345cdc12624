/// Reads a flat INI file strictly: a setting that is silently ignored or cut is worse than one refused.
#pragma once

#include "config/error.hpp"

#include <string>
#include <vector>

namespace kcx {

/// One "key = value" line. Lines count from 1.
struct ini_entry {
  std::string key;
  std::string value;
  int line = 0;
};

/// Every entry in order. Blank lines and lines that begin with "#" or ";" are comments; a value reaches to the end of
/// its line, blanks around it cut, and may stand in double quotes. Fails with ec::invalid_setting for an unreadable
/// file, a [section], or a line without "=", naming file and line.
[[nodiscard]] expected<std::vector<ini_entry>> read_ini_file(const std::string& file);

} // namespace kcx
