/// A JSON or YAML file as a tree of values that remembers where each stood, so that a complaint can name the line.
#pragma once

#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

/// Keeps the order of the file, which is the order of jobs and of a matrix' axes.
using source_value = nlohmann::ordered_json;

class source_file {
public:
  /// Reads a file, "-" is `standard_input`. `.json` is JSON, `.yaml` and `.yml` are YAML; anything else is JSON if it
  /// begins with "{" or "[", and YAML otherwise. Fails with ec::invalid_input, naming the file, the line and the cause;
  /// a key that an object has twice is an error in both.
  static expected<source_file> read(const std::string& file, std::istream& standard_input);
  /// The same for a text that is here; `file` names it in messages.
  static expected<source_file> parse(const std::string& file, std::string text);

  [[nodiscard]] const source_value& value() const noexcept { return value_; }
  /// As messages name it: its path, or "standard input".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// "ci.yaml:12: /jobs/test/needs": of a JSON pointer, or of the nearest thing around it that is in the file.
  [[nodiscard]] std::string place(std::string_view pointer) const;

  /// The pointer is in the file.
  [[nodiscard]] bool has(std::string_view pointer) const;

private:
  source_file(std::string name, std::string text) : name_{std::move(name)}, text_{std::move(text)} {}

  std::string name_;
  std::string text_;
  source_value value_;
  /// JSON pointer to line. Of JSON made when a message needs it, as it takes a second reading.
  mutable std::map<std::string, int, std::less<>> lines_;
};

/// "/a" + "b/c" = "/a/b~1c" (RFC 6901).
[[nodiscard]] std::string pointer_to(std::string_view parent, std::string_view key);
[[nodiscard]] std::string pointer_to(std::string_view parent, std::size_t index);

/// What is wrong with a file, all of it at once.
class complaints {
public:
  /// The same about the same place once more says nothing new.
  void add(std::string pointer, std::string detail);
  [[nodiscard]] bool none() const noexcept { return count_ == 0; }
  /// Something was told of exactly this place.
  [[nodiscard]] bool about(std::string_view pointer) const noexcept;
  /// How often something was added: tells whether a part of the file added anything.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// ec::invalid_input; each field is the place in the file, and at most 50 of them.
  [[nodiscard]] error as_error(const source_file& file) const;

private:
  std::vector<field_error> list_;
  std::size_t count_ = 0;
};

} // namespace kcx::cli
