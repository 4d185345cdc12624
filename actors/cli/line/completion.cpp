#include "actors/cli/line/completion.hpp"

#include <algorithm>
#include <utility>

namespace kcx::cli {

namespace {

/// Within single quotes of any of the shells.
std::string shell_text(std::string_view text) {
  std::string out;
  for (char c : text)
    out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out;
}

std::string last_word(const std::string& path) {
  return path.substr(path.rfind(' ') + 1);
}

std::string parent(const std::string& path) {
  auto blank = path.rfind(' ');
  return blank == std::string::npos ? std::string{} : path.substr(0, blank);
}

std::vector<const command_summary*> children(const std::vector<command_summary>& all, const std::string& path) {
  std::vector<const command_summary*> found;
  for (const auto& each : all)
    if (!each.path.empty() && parent(each.path) == path)
      found.push_back(&each);
  return found;
}

bool takes_file(const option_summary& option) {
  constexpr std::string_view files[] = {"--data", "--token-file", "--ca-file", "--env-file", "--working-dir"};
  return std::any_of(option.names.begin(), option.names.end(), [&](const std::string& name) {
    return std::find(std::begin(files), std::end(files), name) != std::end(files);
  });
}

/// The words an option takes, where they are few.
std::string_view words_of(const option_summary& option) {
  if (option.of == "deliveries list" && option.names.front() == "--state")
    return "pending delivered failed";
  constexpr std::pair<std::string_view, std::string_view> known[] = {
    {"--state", "scheduled blocked queued running cancelling succeeded failed timed_out cancelled interrupted skipped"},
    {"--event", "running succeeded failed timed_out cancelled interrupted skipped"},
    {"--keep-workspace", "never on_failure always"},
    {"--on-interrupt", "fail requeue"},
    {"--scope", "read submit work cancel admin"},
    {"--on-conflict", "reject return replace"},
    {"--supersede", "none queued running"},
    {"--retry-on", "exit_code signal spawn_failed worker_crashed time_limit no_output"},
    {"--logs", "failed all none"}};
  for (const auto& [name, words] : known)
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end())
      return words;
  return {};
}

/// Names of the options with a value, for a case label: "--data|--url".
std::string value_names(const std::vector<command_summary>& all, bool files) {
  std::vector<std::string> names;
  for (const auto& command : all)
    for (const auto& option : command.options)
      if (option.takes_value && takes_file(option) == files)
        names.insert(names.end(), option.names.begin(), option.names.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string joined;
  for (const auto& name : names)
    joined += (joined.empty() ? "" : "|") + name;
  return joined;
}

/// The labels of a case over "$path $prev": a short name may mean something else after another subcommand.
std::string word_cases(const std::vector<command_summary>& all) {
  std::string cases;
  for (const auto& command : all)
    for (const auto& option : command.options)
      if (const auto words = words_of(option); !words.empty()) {
        std::string labels;
        for (const auto& name : option.names)
          labels += (labels.empty() ? "' " : "|' ") + command.path + ' ' + name + '\'';
        cases += "    " + labels + ") COMPREPLY=($(compgen -W '" + std::string{words} + "' -- \"$cur\")); return ;;\n";
      }
  return cases;
}

std::string bash_script(const std::vector<command_summary>& all) {
  std::string out = "# bash completion of kcx: eval \"$(kcx completion bash)\"\n"
                    "_kcx() {\n"
                    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path='' skip='' word i\n"
                    "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
                    "    word=${COMP_WORDS[i]}\n"
                    "    [[ $word == -- ]] && { COMPREPLY=($(compgen -f -- \"$cur\")); return; }\n"
                    "    [[ -n $skip ]] && { skip=''; continue; }\n"
                    "    case $word in\n";
  out += "      " + value_names(all, true) + "|" + value_names(all, false) + ") skip=1 ;;\n";
  out += "      -*) ;;\n      *) case \"$path $word\" in\n";
  for (const auto& command : all)
    if (!command.path.empty())
      out += "        ' " + command.path + "') path=' " + command.path + "' ;;\n";
  out +=
    "        esac ;;\n    esac\n  done\n  case \"$path $prev\" in\n" + word_cases(all) + "  esac\n  case $prev in\n";
  out += "    " + value_names(all, true) + ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n";
  out += "    " + value_names(all, false) + ") COMPREPLY=(); return ;;\n  esac\n  case $path in\n";
  std::string common;
  for (const auto& option : all.front().options)
    for (const auto& name : option.names)
      common += ' ' + name;
  for (const auto& command : all) {
    std::string words;
    for (const auto* child : children(all, command.path))
      words += ' ' + last_word(child->path);
    if (command.path == "completion")
      words += " bash zsh fish";
    if (!command.path.empty())
      for (const auto& option : command.options)
        for (const auto& name : option.names)
          // What every subcommand has stands in `common`.
          words += (common + ' ').find(' ' + name + ' ') == std::string::npos ? ' ' + name : "";
    // Files only where no option is begun.
    const std::string files = command.takes_file ? "; [[ $cur == -* ]] || COMPREPLY+=($(compgen -f -- \"$cur\"))" : "";
    out += "    '" + (command.path.empty() ? "" : ' ' + command.path) + "') COMPREPLY=($(compgen -W '" +
           words.substr(words.empty() ? 0 : 1) + common + "' -- \"$cur\"))" + files + " ;;\n";
  }
  return out + "  esac\n}\ncomplete -o filenames -F _kcx kcx\n";
}

/// "--name[description]:value:" as _arguments wants it; brackets and colons inside are escaped.
std::string zsh_option(const option_summary& option, const std::string& name) {
  std::string description;
  for (char c : option.description)
    description += c == '[' || c == ']' || c == ':' ? std::string{"\\"} + c : std::string{c};
  std::string out = "'*" + name + '[' + shell_text(description) + ']';
  if (option.takes_value)
    out += takes_file(option)         ? ":file:_files"
           : words_of(option).empty() ? ":value: "
                                      : ":value:(" + std::string{words_of(option)} + ')';
  return out + '\'';
}

std::string zsh_options(const command_summary& command) {
  std::string out;
  for (const auto& option : command.options)
    for (const auto& name : option.names)
      out += "    " + zsh_option(option, name) + '\n';
  return out;
}

std::string zsh_function(const std::vector<command_summary>& all, const command_summary& command) {
  std::string name = "_kcx";
  for (char c : command.path.empty() ? std::string{} : '_' + command.path)
    name += c == ' ' ? '_' : c;
  auto own =
    "  local -a options=(\n" + zsh_options(all.front()) + (command.path.empty() ? "" : zsh_options(command)) + "  )\n";
  auto below = children(all, command.path);
  if (below.empty()) {
    auto rest = command.path == "completion" ? "'*:shell:(bash zsh fish)'"
                : command.takes_file         ? "'1:file:_files' '*::word:_normal'"
                                             : "'*::word:_normal'";
    return name + "() {\n" + own + "  _arguments -s $options " + rest + "\n}\n";
  }
  auto out = name + "() {\n" + own + "  local -a commands=(\n";
  for (const auto* child : below)
    out += "    '" + last_word(child->path) + ':' + shell_text(child->description) + "'\n";
  out += "  )\n  local context state line\n"
         "  _arguments -s -C $options '1:command:->command' '*::argument:->argument'\n"
         "  case $state in\n    command) _describe command commands ;;\n"
         "    argument) (( $+functions[" +
         name + "_$line[1]] )) && " + name + "_$line[1] ;;\n  esac\n}\n";
  return out;
}

std::string zsh_script(const std::vector<command_summary>& all) {
  std::string out = "#compdef kcx\n# zsh completion of kcx: kcx completion zsh > \"${fpath[1]}/_kcx\"\n";
  for (auto command = all.rbegin(); command != all.rend(); ++command)
    out += zsh_function(all, *command);
  return out + "if [[ ${funcstack[1]} == _kcx ]]; then _kcx \"$@\"; else compdef _kcx kcx; fi\n";
}

std::string fish_condition(const std::vector<command_summary>& all, const std::string& path) {
  std::string words;
  for (const auto* child : children(all, path))
    words += ' ' + last_word(child->path);
  if (path.empty())
    return "not __fish_seen_subcommand_from" + words;
  auto out = "__fish_seen_subcommand_from " + last_word(parent(path).empty() ? path : parent(path));
  if (!parent(path).empty())
    out += "; and __fish_seen_subcommand_from " + last_word(path);
  return words.empty() ? out : out + "; and not __fish_seen_subcommand_from" + words;
}

std::string fish_option(const option_summary& option) {
  std::string out;
  for (const auto& name : option.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_value)
    out += takes_file(option) ? " -r -F" : " -x";
  if (!words_of(option).empty())
    out += " -a '" + std::string{words_of(option)} + '\'';
  return out + " -d '" + shell_text(option.description) + "'\n";
}

std::string fish_script(const std::vector<command_summary>& all) {
  std::string out = "# fish completion of kcx: kcx completion fish > ~/.config/fish/completions/kcx.fish\n"
                    "complete -c kcx -f\n";
  for (const auto& command : all) {
    auto condition = " -n '" + fish_condition(all, command.path) + '\'';
    for (const auto* child : children(all, command.path))
      out += "complete -c kcx" + condition + " -a " + last_word(child->path) + " -d '" +
             shell_text(child->description) + "'\n";
    if (command.path == "completion")
      out += "complete -c kcx" + condition + " -a 'bash zsh fish'\n";
    if (command.takes_file)
      out += "complete -c kcx" + condition + " -F\n";
    for (const auto& option : command.options)
      out += "complete -c kcx" + (command.path.empty() ? std::string{} : condition) + fish_option(option);
  }
  return out;
}

} // namespace

std::string completion_script(std::string_view shell, const std::vector<command_summary>& commands) {
  if (shell == "bash")
    return bash_script(commands);
  if (shell == "zsh")
    return zsh_script(commands);
  return shell == "fish" ? fish_script(commands) : std::string{};
}

} // namespace kcx::cli
