/// Kinds of options on the command line, and those that several commands share. Each gives the CLI11 option, so that
/// more can be said of it; what the user typed goes to `target`, and what it cannot be is refused in one form of words.
#pragma once

#include "actors/cli/line/command_line.hpp"
#include "config/units.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

/// Throws what CLI11 tells the user: OPTION cannot be VALUE, and what is allowed.
[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& allowed);

template <class To, class Read>
CLI::Option* add_value(CLI::App& to, const std::string& name, const char* type, const std::string& description,
                       To& target, Read read, const char* allowed) {
  auto assign = [&target, name, read, allowed](const std::string& text) {
    auto value = read(text);
    if (!value)
      refuse(name, text, allowed);
    target = *value;
  };
  return to.add_option_function<std::string>(name, assign, description)->type_name(type);
}

template <class Text>
CLI::Option* add_text(CLI::App& to, const std::string& name, const char* type, Text& target,
                      const std::string& description) {
  return to
    .add_option_function<std::string>(
      name, [&target](const std::string& text) { target = text; }, description)
    ->type_name(type);
}

template <class Number>
CLI::Option* add_number(CLI::App& to, const std::string& name, std::optional<Number>& target,
                        const std::string& description, std::int64_t low = INT64_MIN, std::int64_t high = INT64_MAX,
                        const char* allowed = "a whole number") {
  auto read = [low, high](const std::string& text) -> std::optional<Number> {
    auto value = parse_number(text, low, high);
    return value ? std::optional{static_cast<Number>(*value)} : std::nullopt;
  };
  return add_value(to, name, "N", description, target, read, allowed);
}

template <class Duration>
CLI::Option* add_duration(CLI::App& to, const std::string& name, Duration& target, const std::string& description) {
  return add_value(
    to, name, "DURATION", description, target, [](const std::string& text) { return parse_duration(text); },
    "a duration such as 500ms, 30s or 2m");
}

/// One of these words, and how they read in a sentence: "fail or requeue".
using choices = std::vector<std::string_view>;
[[nodiscard]] std::string choices_text(const choices& words);

/// A text that must be one of `words`.
CLI::Option* add_choice(CLI::App& to, const std::string& name, const char* type, std::optional<std::string>& target,
                        const choices& words, const std::string& description);

/// One word each time it is given.
CLI::Option* add_texts(CLI::App& to, const std::string& name, const char* type, std::vector<std::string>& target,
                       const std::string& description);

/// Which jobs are meant: state, project, queue, name, label, group.
void add_filter(CLI::App& to, list_flags& list);

/// The same, and how many of them.
void add_list_options(CLI::App& command, list_flags& list);

/// A duration longer than 0.
void add_lifetime(CLI::App& to, const std::string& name, std::optional<std::chrono::milliseconds>& target,
                  const std::string& description);

/// Numbers of jobs, the positional arguments; or of `what`.
void add_ids(CLI::App& to, std::vector<std::int64_t>& ids, bool several, bool required = true,
             const std::string& what = "job");

/// Refuses a positional argument that is empty, which a URL or a path must not end with.
void refuse_empty(CLI::Option* option, const char* placeholder);

/// One positional argument that must be given and not be empty.
void add_name(CLI::App& to, const char* placeholder, const char* description, std::vector<std::string>& names);

} // namespace kcx::cli
