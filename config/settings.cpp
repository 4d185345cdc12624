#include "config/settings.hpp"

#include "config/ini_file.hpp"
#include "config/manual_page.hpp"
#include "config/setting_table.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kcx {

namespace {

using namespace std::string_view_literals;

constexpr std::array log_levels{"debug"sv, "info"sv, "warning"sv, "error"sv};

// -- where values come from ----------------------------------------------------------------------------------------

/// Name of a setting to its values, and for messages where they stand ("node.ini:12: " or nothing).
struct given {
  std::vector<std::string> values;
  std::string where;
};
using given_values = std::map<std::string, given, std::less<>>;

error wrong(std::string message) {
  return {ec::invalid_setting, std::move(message), {}};
}

const setting_row* find_row(std::string_view name) {
  auto found = std::find_if(setting_table().begin(), setting_table().end(),
                            [&](const setting_row& r) { return r.info.name == name; });
  return found == setting_table().end() ? nullptr : &*found;
}

outcome read_file(const std::string& file, given_values& into) {
  auto entries = read_ini_file(file);
  if (!entries)
    return std::move(entries).error();
  for (const auto& entry : *entries) {
    auto where = file + ":" + std::to_string(entry.line) + ": ";
    const auto* known = find_row(entry.key);
    if (known == nullptr)
      return wrong(where + "unknown setting \"" + entry.key + "\"; kcx-node --help lists those there are");
    auto& seen = into[entry.key];
    if (!seen.values.empty() && !known->info.repeats)
      return wrong(where + "setting \"" + entry.key + "\" was already given above");
    seen.values.push_back(entry.value);
    seen.where = std::move(where);
  }
  return done{};
}

outcome assign_all(const given_values& from, settings& to) {
  for (const auto& known : setting_table()) {
    auto found = from.find(known.info.name);
    if (found == from.end())
      continue;
    for (const auto& value : found->second.values)
      if (!known.assign(to, value))
        return wrong(found->second.where + "option --" + std::string{known.info.name} + " cannot be \"" + value +
                     "\"; allowed is " + std::string{known.info.allowed});
  }
  return done{};
}

// -- rules between settings
// --------------------------------------------------------------------------------------------

outcome check_addresses(const settings& chosen) {
  if (chosen.tls_certificate.empty() != chosen.tls_key.empty())
    return wrong("options --tls-certificate and --tls-key belong together: one of them is missing");
  const bool encrypted = !chosen.tls_certificate.empty();
  for (const auto& [name, where] : {std::pair{"http", chosen.http}, std::pair{"inspect", chosen.inspect}})
    if (!is_loopback(where) && !encrypted && !chosen.insecure)
      return wrong(
        "option --" + std::string{name} + " cannot be \"" + to_string(where) +
        "\": other hosts could reach it, and tokens and logs would cross the network unencrypted. Give "
        "--tls-certificate and --tls-key, or use a loopback address, or add --insecure if the network can be trusted");
  if (chosen.http == chosen.inspect && chosen.http.port != 0)
    return wrong("options --http and --inspect are both \"" + to_string(chosen.http) +
                 "\"; each needs a port of its own");
  return done{};
}

void complete(settings& chosen, const given_values& from) {
  if (!from.contains("slots"))
    chosen.slots = static_cast<std::int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 1'024U));
  std::error_code failed;
  if (chosen.runner.empty())
    chosen.runner = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / "kcx-runner";
  chosen.runner = std::filesystem::absolute(chosen.runner, failed);
  std::sort(chosen.labels.begin(), chosen.labels.end());
  chosen.labels.erase(std::unique(chosen.labels.begin(), chosen.labels.end()), chosen.labels.end());
}

// -- the command line
// --------------------------------------------------------------------------------------------------

std::vector<manual_section> manual_sections() {
  return {{"EXIT STATUS",
           {{"0", "after a stop that was asked for"},
            {"1", "it could not start"},
            {"2", "a setting is wrong"},
            {"70", "a part of it could not be kept alive"}}},
          {"SIGNALS",
           {{"SIGTERM, SIGINT", "Drain: no new work, running jobs may end. A second one ends the drain."},
            {"SIGHUP", "Read the settings again; what can change while the node runs does."}}}};
}

void describe(CLI::App& app) {
  app.set_version_flag("--version", "kcx-node " KCX_VERSION, "Print the version and exit");
  app.set_help_flag("--help,-h", "Print this help and exit");
  app.add_flag_callback(
    "--man", [&app] { throw CLI::CallForVersion(manual_page(app, manual_sections()), 0); },
    "Print the manual page (for man -l -) and exit");
  app.add_option("--config", "Read settings from FILE, one \"name = value\" a line; this command line wins over it")
    ->type_name("FILE");
  for (const auto& known : setting_table()) {
    auto name = "--" + std::string{known.info.name};
    const auto& standard = known.info.default_text;
    // Const: CLI11 takes a string that can change for the variable to fill.
    const std::string text = known.description + (standard.empty() ? "" : " [" + standard + ']');
    bool is_switch = known.info.placeholder.empty();
    auto* option = is_switch ? app.add_flag(name, text) : app.add_option(name, text);
    option->group(known.group);
    if (!is_switch)
      option->type_name(std::string{known.info.placeholder});
    if (known.info.repeats)
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  app.get_formatter()->column_width(34);
  app.footer(
    "Every option is also a setting of the same name in the file; config/node.ini explains each with its range.\n"
    "Durations: 500ms, 10s, 2m, 1h, 7d. Sizes: 4096, 64K, 32M, 1G.");
}

} // namespace

std::string_view to_string(log_level level) noexcept {
  return log_levels.at(static_cast<std::size_t>(level));
}

std::optional<log_level> parse_log_level(std::string_view text) noexcept {
  const auto* found = std::find(log_levels.begin(), log_levels.end(), text);
  if (found == log_levels.end())
    return std::nullopt;
  return static_cast<log_level>(found - log_levels.begin());
}

std::vector<setting_info> known_settings() {
  std::vector<setting_info> all;
  for (const auto& known : setting_table())
    all.push_back(known.info);
  return all;
}

expected<settings> parse_settings(int argc, const char* const* argv) {
  settings chosen;
  CLI::App app{"kcx-node: a work queue for CI/CD jobs; one process, one data directory.\n", "kcx-node"};
  describe(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    chosen.answer = app.help();
    return chosen;
  } catch (const CLI::CallForVersion& version) {
    chosen.answer = std::string{version.what()} + '\n';
    return chosen;
  } catch (const CLI::ExtrasError&) {
    auto words = app.remaining();
    return wrong("unknown option or word \"" + (words.empty() ? "" : words.front()) +
                 "\"; kcx-node --help lists the options");
  } catch (const CLI::ParseError& refused) {
    return wrong(std::string{refused.what()} + "; kcx-node --help lists the options");
  }
  given_values values;
  if (const auto* file = app.get_option("--config"); file->count() > 0)
    if (auto read = read_file(file->results().back(), values); !read)
      return std::move(read).error();
  for (const auto& known : setting_table())
    if (const auto* option = app.get_option("--" + std::string{known.info.name}); option->count() > 0)
      values[std::string{known.info.name}] = {option->results(), ""};
  if (auto assigned = assign_all(values, chosen); !assigned)
    return std::move(assigned).error();
  complete(chosen, values);
  if (auto checked = check_addresses(chosen); !checked)
    return std::move(checked).error();
  return chosen;
}

} // namespace kcx
