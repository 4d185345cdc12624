#include "actors/cli/pipeline/yaml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

namespace kcx::cli {

namespace {

/// Aliases can make a small file a huge document.
constexpr std::size_t most_values = 200'000;
constexpr int most_levels = 64;

/// How scalars are read: by their form, all as text, or by their form whatever the keys below are called.
enum class reading_mode { by_form, text, always_by_form };

error wrong(const YAML::Mark& at, const std::string& cause) {
  if (at.is_null())
    return {ec::invalid_input, cause, {}};
  return {ec::invalid_input,
          "line " + std::to_string(at.line + 1) + ", column " + std::to_string(at.column + 1) + ": " + cause,
          {}};
}

std::optional<source_value> as_number(const std::string& text) {
  std::string_view digits = text;
  if (digits.starts_with('+'))
    digits.remove_prefix(1);
  const auto* end = digits.data() + digits.size();
  std::int64_t whole = 0;
  if (digits.starts_with("0x") || digits.starts_with("0o")) {
    const int base = digits[1] == 'x' ? 16 : 8;
    const auto [stop, failed] = std::from_chars(digits.data() + 2, end, whole, base);
    return failed == std::errc{} && stop == end ? std::optional<source_value>{whole} : std::nullopt;
  }
  if (const auto [stop, failed] = std::from_chars(digits.data(), end, whole); failed == std::errc{} && stop == end)
    return whole;
  // from_chars takes "inf" and "nan", which JSON has no words for.
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::nullopt;
  double real = 0;
  const auto [stop, failed] = std::from_chars(digits.data(), end, real);
  return failed == std::errc{} && stop == end && std::isfinite(real) ? std::optional<source_value>{real} : std::nullopt;
}

source_value by_form(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE")
    return true;
  if (text == "false" || text == "False" || text == "FALSE")
    return false;
  return as_number(text).value_or(source_value(text));
}

class converter {
public:
  converter(const std::string& text, yaml_document& to) : text_{text}, to_{to} {}

  /// Nothing, or what is wrong.
  std::optional<error> convert(const YAML::Node& from, const std::string& pointer, int level, reading_mode mode,
                               source_value& into);

private:
  std::optional<error> convert_scalar(const YAML::Node& from, reading_mode mode, source_value& into);
  std::optional<error> convert_sequence(const YAML::Node& from, const std::string& pointer, int level,
                                        reading_mode mode, source_value& into);
  std::optional<error> convert_map(const YAML::Node& from, const std::string& pointer, int level, reading_mode mode,
                                   source_value& into);
  std::optional<error> convert_member(const YAML::Node& key, const YAML::Node& value, const std::string& pointer,
                                      int level, reading_mode mode, source_value& into);
  std::optional<error> merge(const YAML::Node& from, const std::string& pointer, int level, reading_mode mode,
                             source_value& into);

  /// What stands there for null: "~", "null" in its spellings, or nothing.
  [[nodiscard]] std::string null_text(const YAML::Mark& at) const;

  const std::string& text_;
  yaml_document& to_;
  std::size_t values_ = 0;
};

std::optional<error> converter::convert(const YAML::Node& from, const std::string& pointer, int level,
                                        reading_mode mode, source_value& into) {
  if (++values_ > most_values)
    return wrong(from.Mark(), "the document holds too many values; do its aliases multiply?");
  if (level > most_levels)
    return wrong(from.Mark(), "nested too deeply");
  if (from.IsSequence())
    return convert_sequence(from, pointer, level, mode, into);
  if (from.IsMap())
    return convert_map(from, pointer, level, mode, into);
  return convert_scalar(from, mode, into);
}

std::string converter::null_text(const YAML::Mark& at) const {
  if (at.is_null())
    return "";
  std::string_view rest{text_};
  if (rest.starts_with("\xEF\xBB\xBF"))
    rest.remove_prefix(3); // yaml-cpp does not count it
  rest = rest.substr(std::min(rest.size(), static_cast<std::size_t>(at.pos)));
  for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (!rest.starts_with(word))
      continue;
    // Of nothing the place is that of what comes next, which may be a key.
    const auto next = rest.find_first_not_of(" \t", word.size());
    const bool ends =
      word.size() == rest.size() || std::string_view{" \t\r\n,]}"}.find(rest[word.size()]) != std::string_view::npos;
    return ends && (next == std::string_view::npos || rest[next] != ':') ? std::string{word} : "";
  }
  return "";
}

std::optional<error> converter::convert_scalar(const YAML::Node& from, reading_mode mode, source_value& into) {
  if (!from.IsScalar()) {
    // yaml-cpp forgets how a null was written; its place in the text still tells "~" and "null" from nothing.
    into = mode == reading_mode::text ? source_value(null_text(from.Mark())) : source_value(nullptr);
    return std::nullopt;
  }
  const auto& tag = from.Tag();
  constexpr std::string_view standard = "tag:yaml.org,2002:";
  const bool plain = tag.empty() || tag == "?";
  if (!plain && tag != "!" && !tag.starts_with(standard))
    return wrong(from.Mark(), "the tag " + tag + " means nothing here");
  const bool text = tag == "!" || tag == "tag:yaml.org,2002:str" || mode == reading_mode::text;
  into = text ? source_value(from.Scalar()) : by_form(from.Scalar());
  return std::nullopt;
}

std::optional<error> converter::convert_sequence(const YAML::Node& from, const std::string& pointer, int level,
                                                 reading_mode mode, source_value& into) {
  into = source_value::array();
  for (const auto& each : from) {
    auto at = pointer_to(pointer, into.size());
    to_.lines.emplace(at, each.Mark().line + 1);
    if (auto failed = convert(each, at, level + 1, mode, into.emplace_back()))
      return failed;
  }
  return std::nullopt;
}

std::optional<error> converter::convert_map(const YAML::Node& from, const std::string& pointer, int level,
                                            reading_mode mode, source_value& into) {
  into = source_value::object();
  std::optional<YAML::Node> merged;
  for (const auto& member : from) {
    const auto& key = member.first;
    const auto& value = member.second;
    if (!key.IsScalar())
      return wrong(key.Mark(), "a key must be a plain word");
    if (key.Scalar() == "<<" && key.Tag() != "!") {
      merged.emplace(value);
      continue;
    }
    if (into.contains(key.Scalar()))
      return wrong(key.Mark(), "the key \"" + key.Scalar() + "\" is there already");
    if (auto failed = convert_member(key, value, pointer, level, mode, into))
      return failed;
  }
  return merged ? merge(*merged, pointer, level, mode, into) : std::nullopt;
}

std::optional<error> converter::convert_member(const YAML::Node& key, const YAML::Node& value,
                                               const std::string& pointer, int level, reading_mode mode,
                                               source_value& into) {
  const auto& name = key.Scalar();
  auto at = pointer_to(pointer, name);
  to_.lines.emplace(at, key.Mark().line + 1);
  auto below = mode;
  if (mode == reading_mode::by_form && (name == "env" || name == "matrix" || name == "command"))
    below = reading_mode::text;
  else if (mode == reading_mode::by_form && name == "metadata")
    below = reading_mode::always_by_form;
  if (value.IsNull() && below != mode) {
    into[name] = nullptr; // "env:" with nothing below it is no text.
    return std::nullopt;
  }
  // Filled outside: a new member may move those that are there.
  source_value converted;
  auto failed = convert(value, at, level + 1, below, converted);
  into[name] = std::move(converted);
  return failed;
}

/// What the map itself says wins over what is merged into it.
std::optional<error> converter::merge(const YAML::Node& from, const std::string& pointer, int level, reading_mode mode,
                                      source_value& into) {
  if (++values_ > most_values || level > most_levels)
    return wrong(from.Mark(), "nested too deeply, or too many values");
  if (from.IsSequence()) {
    for (const auto& each : from)
      if (auto failed = merge(each, pointer, level + 1, mode, into))
        return failed;
    return std::nullopt;
  }
  if (!from.IsMap())
    return wrong(from.Mark(), "\"<<\" takes a mapping, or a sequence of mappings");
  source_value more;
  if (auto failed = convert_map(from, pointer, level + 1, mode, more))
    return failed;
  for (auto& [key, value] : more.items())
    if (!into.contains(key))
      into[key] = std::move(value);
  return std::nullopt;
}

} // namespace

expected<yaml_document> read_yaml(const std::string& text) {
  try {
    const auto all = YAML::LoadAll(text);
    if (all.size() != 1)
      return error{ec::invalid_input, std::to_string(all.size()) + " YAML documents; there must be one", {}};
    yaml_document document;
    document.lines.emplace("", all.front().Mark().line + 1);
    if (auto failed = converter{text, document}.convert(all.front(), "", 0, reading_mode::by_form, document.value))
      return std::move(*failed);
    return document;
  } catch (const YAML::DeepRecursion& failure) {
    return wrong(failure.mark, "nested too deeply"); // its own words are "bad file"
  } catch (const YAML::Exception& failure) {
    return wrong(failure.mark, failure.msg);
  }
}

} // namespace kcx::cli
