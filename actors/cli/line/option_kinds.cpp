#include "actors/cli/line/option_kinds.hpp"

#include "actors/cli/view/text.hpp"

#include <algorithm>

namespace kcx::cli {

void refuse(const std::string& option, const std::string& value, const std::string& allowed) {
  throw CLI::ValidationError(option, "cannot be \"" + visible(value) + "\"; allowed is " + allowed);
}

std::string choices_text(const choices& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string{words[i]};
  return text;
}

CLI::Option* add_choice(CLI::App& to, const std::string& name, const char* type, std::optional<std::string>& target,
                        const choices& words, const std::string& description) {
  auto assign = [&target, name, words](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end())
      refuse(name, text, choices_text(words));
    target = text;
  };
  return to.add_option_function<std::string>(name, assign, description)->type_name(type);
}

CLI::Option* add_texts(CLI::App& to, const std::string& name, const char* type, std::vector<std::string>& target,
                       const std::string& description) {
  // One word each time: a list would swallow the words behind it.
  return to.add_option(name, target, description + "; may be repeated")
    ->type_name(type)
    ->expected(1)
    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
    ->allow_extra_args(false);
}

namespace {

/// "failed", or several with commas, as the API takes them.
void add_states(std::string_view words, std::vector<std::string>& states) {
  const choices known{"scheduled", "blocked",   "queued",    "running",     "cancelling", "succeeded",
                      "failed",    "timed_out", "cancelled", "interrupted", "skipped"};
  for (;;) {
    const auto word = words.substr(0, words.find(','));
    if (std::find(known.begin(), known.end(), word) == known.end())
      refuse("--state", std::string{word}, choices_text(known));
    states.emplace_back(word);
    if (word.size() == words.size())
      return;
    words.remove_prefix(word.size() + 1);
  }
}

} // namespace

void add_filter(CLI::App& to, list_flags& list) {
  auto read = [&list](const std::vector<std::string>& words) {
    for (const auto& word : words)
      add_states(word, list.states);
  };
  to.add_option_function<std::vector<std::string>>("-s,--state", read, "Only jobs in this state; may be repeated")
    ->type_name("STATE")
    ->expected(1)
    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
    ->allow_extra_args(false);
  add_text(to, "-p,--project", "NAME", list.project, "Only jobs of this project");
  add_text(to, "-q,--queue", "NAME", list.queue, "Only jobs of this queue");
  add_text(to, "-n,--name", "NAME", list.name, "Only jobs of this name");
  add_text(to, "-l,--label", "LABEL", list.label, "Only jobs with this label");
  add_text(to, "-g,--group", "NAME", list.group, "Only jobs of this group");
}

void add_list_options(CLI::App& command, list_flags& list) {
  add_filter(command, list);
  add_value(
    command, "--limit", "N", "At most N jobs [50]", list.limit,
    [](const std::string& text) { return parse_number(text, 1, 1'000'000); }, "a whole number from 1 to 1000000");
}

void add_lifetime(CLI::App& to, const std::string& name, std::optional<std::chrono::milliseconds>& target,
                  const std::string& description) {
  const auto read = [](const std::string& text) {
    const auto duration = parse_duration(text);
    return duration && duration->count() > 0 ? duration : std::nullopt;
  };
  add_value(to, name, "DURATION", description, target, read, "a duration longer than 0, such as 12h or 30d");
}

/// CLI11 keeps a list option that may stand without a value; ids are read by hand so that "12x" is told as such.
void add_ids(CLI::App& to, std::vector<std::int64_t>& ids, bool several, bool required, const std::string& what) {
  auto read = [&ids, what](const std::vector<std::string>& words) {
    for (const auto& word : words) {
      auto id = parse_number(word, 1, INT64_MAX);
      if (!id)
        refuse("ID", word, "the number of a " + what);
      ids.push_back(*id);
    }
  };
  auto* option = to.add_option_function<std::vector<std::string>>("ID", read, "Number of the " + what)
                   ->type_name("")
                   ->required(required);
  if (!several)
    option->expected(1)->allow_extra_args(false); // what follows may be other words
}

void refuse_empty(CLI::Option* option, const char* placeholder) {
  option->each([placeholder](const std::string& text) {
    if (text.empty())
      refuse(placeholder, text, "a name");
  });
}

void add_name(CLI::App& to, const char* placeholder, const char* description, std::vector<std::string>& names) {
  refuse_empty(to.add_option(placeholder, names, description)->type_name("")->required()->expected(1), placeholder);
}

} // namespace kcx::cli
