/// The `matrix` of a job in a pipeline file: one job for each combination of its axes' values.
#pragma once

#include "actors/cli/pipeline/source_file.hpp"

#include <string>
#include <utility>
#include <vector>

namespace kcx::cli {

/// The values one of the jobs has, in the order in which they are named.
struct combination {
  /// Axis (or further key of an `include`) and its value as text.
  std::vector<std::pair<std::string, std::string>> values;
  /// How many of the values name the job; those an `include` adds to a combination do not.
  std::size_t naming = 0;

  [[nodiscard]] const std::string* find(std::string_view name) const noexcept;
  /// " (gcc, debug)".
  [[nodiscard]] std::string suffix() const;
};

/// All combinations of a `matrix` object, the last axis changing fastest:
///  * each member but `include` and `exclude` is an axis, an array of texts, numbers or booleans;
///  * each object of `exclude` takes away the combinations that have all its values;
///  * each object of `include` adds its further keys to the combinations that have all the axis values it names, or, if
///    there is none, is a combination of its own.
/// What is wrong, all of it, goes to `wrong` with its pointer; there is no combination then.
[[nodiscard]] std::vector<combination> expand_matrix(const source_value& matrix, const std::string& pointer,
                                                     complaints& wrong);

/// Replaces "${{ matrix.NAME }}" in every string of `value`. "$${{" stands for "${{". In a field that takes a number or
/// a boolean, a string that is nothing but such a place becomes one. Anything else between the braces, and a name the
/// combination has not, goes to `wrong`.
void substitute(source_value& value, const combination& with, const std::string& pointer, complaints& wrong);

/// "MATRIX_C_COMPILER" for "c-compiler": the variable that tells a job the value.
[[nodiscard]] std::string matrix_variable(std::string_view name);

/// A string, number or boolean as text; nothing for others.
[[nodiscard]] bool scalar_text(const source_value& value, std::string& text);

} // namespace kcx::cli
