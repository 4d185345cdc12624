/// YAML as JSON values. The one place that knows the YAML library.
#pragma once

#include "actors/cli/pipeline/source_file.hpp"

#include <map>
#include <string>

namespace kcx::cli {

struct yaml_document {
  source_value value;
  /// JSON pointer to line, from 1: of members that of their key.
  std::map<std::string, int, std::less<>> lines;
};

/// Reads exactly one YAML document, with anchors, aliases and merge keys ("<<"). Plain scalars are what YAML 1.2's core
/// schema says: true, false, null and numbers; "yes", "on" and 1.2.3 are text. Below `env`, `matrix` and `command`
/// every scalar is text as it is written, so that 1.10 stays 1.10, but not below `metadata`.
/// Fails with ec::invalid_input: "line 3, column 7: …".
[[nodiscard]] expected<yaml_document> read_yaml(const std::string& text);

} // namespace kcx::cli
