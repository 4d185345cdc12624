#include "actors/cli/pipeline/matrix.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace kcx::cli {

namespace {

/// A job array takes 10,000; more than this of one job is a slip.
constexpr std::size_t most_combinations = 1'000;

using values = std::vector<std::pair<std::string, std::string>>;

bool is_axis_name(std::string_view name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(letters) == std::string_view::npos &&
         (name[0] < '0' || name[0] > '9') && name[0] != '-';
}

bool is_axis(const source_value& matrix, std::string_view name) {
  return name != "include" && name != "exclude" && matrix.contains(name);
}

/// Every value of `some` is in `all`.
bool has_all(const values& all, const values& some) {
  return std::all_of(some.begin(), some.end(),
                     [&](const auto& each) { return std::find(all.begin(), all.end(), each) != all.end(); });
}

std::optional<std::vector<std::string>> read_axis(const std::string& name, const source_value& axis,
                                                  const std::string& pointer, complaints& wrong) {
  if (!is_axis_name(name)) {
    wrong.add(pointer, "is no name of an axis: letters, digits, \"_\" and \"-\", not a digit first");
    return std::nullopt;
  }
  if (!axis.is_array() || axis.empty()) {
    wrong.add(pointer, "must be an array of at least one value");
    return std::nullopt;
  }
  std::vector<std::string> read;
  for (const auto& value : axis) {
    auto at = pointer_to(pointer, read.size());
    if (auto& text = read.emplace_back(); !scalar_text(value, text))
      wrong.add(at, "must be a text, a number or a boolean");
    else if (std::count(read.begin(), read.end(), text) > 1)
      wrong.add(at, "is there already");
  }
  return read;
}

/// The objects of `include` or `exclude`.
std::vector<values> read_objects(const source_value& matrix, const char* member, const std::string& pointer,
                                 complaints& wrong) {
  std::vector<values> all;
  const auto found = matrix.find(member);
  if (found == matrix.end())
    return all;
  const auto at = pointer_to(pointer, std::string_view{member});
  if (!found->is_array()) {
    wrong.add(at, "must be an array of objects");
    return all;
  }
  for (const auto& object : *found) {
    const auto here = pointer_to(at, all.size());
    auto& read = all.emplace_back();
    if (!object.is_object() || object.empty()) {
      wrong.add(here, "must be an object with at least one value");
      continue;
    }
    for (const auto& [key, value] : object.items())
      if (std::string text; !is_axis_name(key) || !scalar_text(value, text))
        wrong.add(pointer_to(here, key), "must be a text, a number or a boolean, under a name as axes have");
      else
        read.emplace_back(key, std::move(text));
  }
  return all;
}

std::vector<combination> product(const source_value& matrix, const std::string& pointer, complaints& wrong) {
  std::vector<combination> all;
  std::set<std::string> variables;
  bool first = true;
  for (const auto& [name, axis] : matrix.items()) {
    if (!is_axis(matrix, name))
      continue;
    const auto axis_values = read_axis(name, axis, pointer_to(pointer, name), wrong);
    if (!axis_values)
      continue; // the others may be wrong, too
    if (!variables.insert(matrix_variable(name)).second)
      wrong.add(pointer_to(pointer, name), "has the variable of another axis, " + matrix_variable(name));
    if (std::exchange(first, false))
      all.emplace_back();
    if (all.size() * axis_values->size() > most_combinations) {
      wrong.add(pointer, "has more than " + std::to_string(most_combinations) + " combinations");
      return {};
    }
    std::vector<combination> more;
    for (const auto& before : all)
      for (const auto& value : *axis_values) {
        more.push_back(before);
        more.back().values.emplace_back(name, value);
        ++more.back().naming;
      }
    all = std::move(more);
  }
  return all;
}

void exclude(const source_value& matrix, const std::string& pointer, std::vector<combination>& all, complaints& wrong) {
  std::size_t number = 0;
  const auto before = wrong.count();
  const auto objects = read_objects(matrix, "exclude", pointer, wrong);
  const bool readable = wrong.count() == before;
  for (const auto& object : objects) {
    const auto taken = std::erase_if(all, [&](const auto& each) { return has_all(each.values, object); });
    if (taken == 0 && readable)
      wrong.add(pointer_to(pointer_to(pointer, "exclude"), number), "is no combination, so there is none to exclude");
    ++number;
  }
}

void set_value(values& of, const values::value_type& value) {
  const auto same = [&](const auto& each) { return each.first == value.first; };
  if (const auto old = std::find_if(of.begin(), of.end(), same); old != of.end())
    old->second = value.second;
  else
    of.push_back(value);
}

void include(const source_value& matrix, const std::string& pointer, std::vector<combination>& all, complaints& wrong) {
  const auto made = all.size();
  for (const auto& object : read_objects(matrix, "include", pointer, wrong)) {
    values axes;
    values more;
    for (const auto& each : object)
      (is_axis(matrix, each.first) ? axes : more).push_back(each);
    bool added = false;
    for (std::size_t i = 0; i < made; ++i) {
      auto& each = all[i];
      if (!has_all(each.values, axes))
        continue;
      added = true;
      for (const auto& value : more)
        set_value(each.values, value);
    }
    if (!added)
      all.push_back({object, object.size()});
  }
}

/// Fields of a job whose values are numbers or booleans.
bool takes_number(std::string_view field) {
  constexpr std::array<std::string_view, 9> names{"priority",          "weight",      "max_attempts",
                                                  "max_interrupts",    "group_limit", "open_files",
                                                  "continue_on_error", "processes",   "always"};
  return field.ends_with("_s") || field.ends_with("_bytes") ||
         std::find(names.begin(), names.end(), field) != names.end();
}

/// One text. `whole` tells whether it was nothing but one place.
std::string replaced(const std::string& text, const combination& with, const std::string& pointer, complaints& wrong,
                     bool& whole) {
  std::string out;
  std::size_t from = 0;
  for (auto begin = text.find("${{"); begin != std::string::npos; begin = text.find("${{", from)) {
    if (begin > from && text[begin - 1] == '$') {
      out += text.substr(from, begin - from) + "{{";
      from = begin + 3;
      continue;
    }
    out += text.substr(from, begin - from);
    const auto end = text.find("}}", begin);
    auto inside = text.substr(begin + 3, end == std::string::npos ? end : end - begin - 3);
    inside.erase(0, inside.find_first_not_of(' '));
    inside.erase(inside.find_last_not_of(' ') + 1);
    const auto* value = inside.starts_with("matrix.") ? with.find(inside.substr(7)) : nullptr;
    if (end == std::string::npos || value == nullptr) {
      whole = false;
      wrong.add(pointer, end == std::string::npos ? "has \"${{\" without \"}}\"; \"$${{\" stands for the characters"
                                                  : "has ${{ " + inside + " }}, which " +
                                                      (with.values.empty() ? "a job without a matrix does not have"
                                                                           : "this combination does not have"));
      if (end == std::string::npos)
        return text;
      from = end + 2;
      continue;
    }
    whole = begin == 0 && end + 2 == text.size();
    out += *value;
    from = end + 2;
  }
  return out + text.substr(from);
}

void substitute_in(source_value& value, const combination& with, const std::string& pointer, std::string_view field,
                   complaints& wrong) {
  if (value.is_string()) {
    bool whole = false;
    value = replaced(value.get<std::string>(), with, pointer, wrong, whole);
    if (!whole || !takes_number(field))
      return;
    auto read = source_value::parse(value.get<std::string>(), nullptr, false);
    if (read.is_number() || read.is_boolean())
      value = std::move(read);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      substitute_in(value[i], with, pointer_to(pointer, i), {}, wrong);
  } else if (value.is_object()) {
    for (auto& [key, member] : value.items())
      substitute_in(member, with, pointer_to(pointer, key), key, wrong);
  }
}

} // namespace

const std::string* combination::find(std::string_view name) const noexcept {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& each) { return each.first == name; });
  return found == values.end() ? nullptr : &found->second;
}

std::string combination::suffix() const {
  std::string text;
  for (std::size_t i = 0; i < naming; ++i)
    text += (i == 0 ? " (" : ", ") + values[i].second;
  return text.empty() ? text : text + ')';
}

std::vector<combination> expand_matrix(const source_value& matrix, const std::string& pointer, complaints& wrong) {
  if (!matrix.is_object() || matrix.empty()) {
    wrong.add(pointer, "must be an object of axes, each an array of values");
    return {};
  }
  const auto before = wrong.count();
  auto all = product(matrix, pointer, wrong);
  // What is excluded can only be looked for among axes that are right.
  if (wrong.count() == before)
    exclude(matrix, pointer, all, wrong);
  include(matrix, pointer, all, wrong);
  if (wrong.count() != before)
    return {};
  if (all.empty())
    wrong.add(pointer, "leaves no combination");
  return all;
}

void substitute(source_value& value, const combination& with, const std::string& pointer, complaints& wrong) {
  substitute_in(value, with, pointer, {}, wrong);
}

std::string matrix_variable(std::string_view name) {
  std::string variable = "MATRIX_";
  for (const char c : name)
    variable += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

bool scalar_text(const source_value& value, std::string& text) {
  if (value.is_string())
    text = value.get<std::string>();
  else if (value.is_number() || value.is_boolean())
    text = value.dump();
  else
    return false;
  return true;
}

} // namespace kcx::cli
