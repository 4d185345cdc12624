#include "config/manual_page.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace kcx {

namespace {

/// The code point that begins at `at`, which is moved to its last byte. What is no UTF-8 becomes "?".
std::uint32_t code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t more = byte(at) >= 0xF0 ? 3 : byte(at) >= 0xE0 ? 2 : byte(at) >= 0xC0 ? 1 : 0;
  if (more == 0 || at + more >= text.size())
    return '?';
  std::uint32_t value = byte(at) & (0x3FU >> more);
  for (std::size_t i = 0; i < more; ++i)
    value = value << 6U | (byte(++at) & 0x3FU);
  return value;
}

/// Text that roff prints as it is. A line that begins with a control character is told to be none.
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (static_cast<unsigned char>(c) < 0x80)
      out += c;
    else {
      char name[16];
      std::snprintf(name, sizeof name, "\\[u%04X]", code_point(text, i));
      out += name;
    }
  }
  return out;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return text.empty() ? std::string{} : "\\fI" + escaped(text) + "\\fR";
}

/// In quotes, for an argument of a macro.
std::string argument(std::string_view text) {
  std::string out = "\"";
  for (const char c : escaped(text))
    out += c == '"' ? std::string{"\\(dq"} : std::string{c};
  return out + '"';
}

/// Lines that keep their ends.
std::string verbatim(const std::string& text) {
  return ".nf\n" + escaped(text) + (text.ends_with('\n') ? "" : "\n") + ".fi\n";
}

std::string option_term(const CLI::Option& option) {
  if (option.get_positional())
    return italic(option.get_name(true));
  std::string term;
  for (const auto& name : option.get_snames())
    term += (term.empty() ? "" : ", ") + bold("-" + name);
  for (const auto& name : option.get_lnames())
    term += (term.empty() ? "" : ", ") + bold("--" + name);
  const auto value = option.get_type_name();
  return option.get_expected_min() > 0 && !value.empty() ? term + ' ' + italic(value) : term;
}

std::string entry(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + escaped(text) + "\n";
}

/// Options one below the other; with `headings`, those of a group below its name.
std::string options_text(const CLI::App& app, bool headings) {
  std::string out;
  for (const auto& group : app.get_groups()) {
    const auto members = app.get_options([&](const CLI::Option* option) { return option->get_group() == group; });
    if (group.empty() || members.empty())
      continue;
    if (headings && group != "Options" && group != "Positionals")
      out += ".SS " + argument(group) + "\n";
    for (const auto* option : members)
      out += entry(option_term(*option), option->get_description());
  }
  return out;
}

std::string synopsis(const CLI::App& app, const std::string& path) {
  auto out = bold(path) + " [" + italic("OPTION") + "...]";
  for (const auto* option : app.get_options([](const CLI::Option* each) { return each->get_positional(); })) {
    const auto name = italic(option->get_name(true)) + (option->get_expected_max() > 1 ? "..." : "");
    out += option->get_required() ? ' ' + name : " [" + name + ']';
  }
  if (app.get_require_subcommand_min() > 0)
    out += ' ' + italic("COMMAND") + " ...";
  return out;
}

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void add_command(const CLI::App& app, const std::string& path, std::string& out) {
  const auto below = subcommands(app);
  if (below.empty()) {
    out += ".SS " + argument(path) + "\n" + synopsis(app, path) + "\n.PP\n" + escaped(app.get_description()) + ".\n";
    out += options_text(app, false);
    if (!app.get_footer().empty())
      out += ".PP\n" + verbatim(app.get_footer());
  }
  for (const auto* each : below)
    add_command(*each, path + ' ' + each->get_name(), out);
}

} // namespace

std::string manual_page(const CLI::App& app, const std::vector<manual_section>& sections) {
  const auto name = app.get_name();
  auto title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  auto what = app.get_description();
  what.erase(0, std::min(what.size(), what.find(": ") + 2));
  what.erase(what.find_last_not_of(".\n") + 1);
  auto out = ".\\\" Made of the description behind \"" + name + " --help\".\n.TH " + argument(title) + " 1 \"\" " +
             argument(name + " " KCX_VERSION) + " \"KCX\"\n.nh\n.ad l\n.SH NAME\n" + escaped(name) + " \\- " +
             escaped(what) + "\n.SH SYNOPSIS\n" + synopsis(app, name) + "\n.SH OPTIONS\n" + options_text(app, true);
  if (const auto below = subcommands(app); !below.empty()) {
    out += ".SH COMMANDS\n";
    for (const auto* each : below)
      add_command(*each, name + ' ' + each->get_name(), out);
  }
  for (const auto& section : sections) {
    out += ".SH " + argument(section.title) + "\n";
    for (const auto& [term, text] : section.entries)
      out += term.empty() ? ".PP\n" + escaped(text) + "\n" : entry(bold(term), text);
  }
  if (!app.get_footer().empty())
    out += ".SH NOTES\n" + verbatim(app.get_footer());
  return out;
}

} // namespace kcx
