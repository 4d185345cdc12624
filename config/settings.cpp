#include "config/settings.hpp"

#include "config/ini_file.hpp"
#include "config/manual_page.hpp"

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

using namespace std::chrono_literals;
using namespace std::string_view_literals;

constexpr std::array log_levels{"debug"sv, "info"sv, "warning"sv, "error"sv};

// -- reading one value
// ------------------------------------------------------------------------------------------------- Each stores the
// value and returns true, or returns false if it is not one of those allowed.

bool read(std::chrono::milliseconds& to, std::string_view text, std::chrono::milliseconds low,
          std::chrono::milliseconds high) {
  auto value = parse_duration(text);
  if (!value || *value < low || *value > high)
    return false;
  to = *value;
  return true;
}

bool read(std::int32_t& to, std::string_view text, std::int32_t low, std::int32_t high) {
  auto value = parse_number(text, low, high);
  if (value)
    to = static_cast<std::int32_t>(*value);
  return value.has_value();
}

bool read_size(std::int64_t& to, std::string_view text, std::int64_t low, std::int64_t high) {
  auto value = parse_size(text);
  if (!value || *value < low || *value > high)
    return false;
  to = *value;
  return true;
}

bool read(endpoint& to, std::string_view text) {
  auto value = parse_endpoint(text);
  if (value)
    to = *value;
  return value.has_value();
}

bool read(bool& to, std::string_view text) {
  if (text != "true" && text != "false")
    return false;
  to = text == "true";
  return true;
}

bool read(std::filesystem::path& to, std::string_view text) {
  if (text.empty() || text.find('\0') != std::string_view::npos)
    return false;
  to = text;
  return true;
}

bool read(log_level& to, std::string_view text) {
  auto value = parse_log_level(text);
  if (value)
    to = *value;
  return value.has_value();
}

bool read_account(std::string& to, std::string_view text) {
  constexpr auto letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"sv;
  if (text.empty() || text.size() > 32 || text[0] == '-' || text.find_first_not_of(letters) != std::string_view::npos)
    return false;
  to = text;
  return true;
}

bool add_label(std::vector<std::string>& to, std::string_view text) {
  constexpr auto letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/=:"sv;
  if (text.empty() || text.size() > 255 || text.find_first_not_of(letters) != std::string_view::npos)
    return false;
  to.emplace_back(text);
  return true;
}

constexpr std::array final_states{"succeeded"sv, "failed"sv,      "timed_out"sv,
                                  "cancelled"sv, "interrupted"sv, "skipped"sv};

/// "STATE:VALUE" with a final state, or "all", and a value that `parse` takes, or "forever".
template <class Value, class Parse>
bool add_rule(std::map<std::string, Value>& to, std::string_view text, Parse parse) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos)
    return false;
  const auto state = text.substr(0, colon);
  const auto word = text.substr(colon + 1);
  const auto value = word == "forever" ? std::nullopt : parse(word);
  if ((!value && word != "forever") ||
      (state != "all" && std::find(final_states.begin(), final_states.end(), state) == final_states.end()))
    return false;
  for (const auto name : final_states) {
    if (state != "all" && state != name)
      continue;
    to.erase(std::string{name});
    if (value)
      to.emplace(name, *value);
  }
  return true;
}

bool add_keep(std::map<std::string, std::chrono::milliseconds>& to, std::string_view text) {
  return add_rule(to, text, [](std::string_view word) {
    // A number alone, meant as days and read as seconds, would delete nearly everything.
    const bool has_unit = word.find_first_not_of("0123456789.") != std::string_view::npos;
    const auto span = has_unit ? parse_duration(word) : std::nullopt;
    return span && *span >= 1s && *span <= 24h * 36'500 ? span : std::nullopt;
  });
}

bool add_keep_count(std::map<std::string, std::int64_t>& to, std::string_view text) {
  return add_rule(to, text, [](std::string_view word) { return parse_number(word, 0, 1'000'000'000); });
}

// -- the table
// ---------------------------------------------------------------------------------------------------------

struct row {
  setting_info info;
  const char* group;
  const char* description;
  bool (*assign)(settings& to, std::string_view value);
};

constexpr auto on_or_off = "true or false"sv;

std::vector<row> network_rows(const settings& base) {
  return {
    {{"data", "DIR", base.data.string(), "a directory on a local disk"},
     "Storage",
     "Data directory: database, logs, workspaces, admin token; created where missing",
     [](settings& to, std::string_view value) { return read(to.data, value); }},
    {{"min-free", "SIZE", format_size(base.min_free), "a size from 0 to 1T"},
     "Storage",
     "Free space below which no job is accepted or started",
     [](settings& to, std::string_view value) { return read_size(to.min_free, value, 0, 1LL << 40); }},
    {{"http", "ADDR:PORT", to_string(base.http), "a numeric address and a port, as 127.0.0.1:7070 or [::1]:7070"},
     "Network",
     "Where the HTTP API listens; port 0 takes a free one",
     [](settings& to, std::string_view value) { return read(to.http, value); }},
    {{"inspect", "ADDR:PORT", to_string(base.inspect), "a numeric address and a port, as 127.0.0.1:7071 or [::1]:7071"},
     "Network",
     "Where the inspection port listens; port 0 takes a free one",
     [](settings& to, std::string_view value) { return read(to.inspect, value); }},
    {{"insecure", "", "false", on_or_off},
     "Network",
     "Allow addresses that other hosts can reach although nothing is encrypted",
     [](settings& to, std::string_view value) { return read(to.insecure, value); }},
    {{"tls-certificate", "FILE", "", "a path"},
     "Network",
     "PEM file with the certificate chain: both ports speak TLS; SIGHUP reads it again",
     [](settings& to, std::string_view value) { return read(to.tls_certificate, value); }},
    {{"tls-key", "FILE", "", "a path"},
     "Network",
     "PEM file with the key of the certificate",
     [](settings& to, std::string_view value) { return read(to.tls_key, value); }},
    {{"rate-limit", "N", std::to_string(base.rate_limit), "a whole number from 0 to 1000000"},
     "Network",
     "Requests per minute of a token that has no limit of its own; 0 for no limit",
     [](settings& to, std::string_view value) { return read(to.rate_limit, value, 0, 1'000'000); }},
    {{"webhook-backoff", "DURATION", format_duration(base.webhook_backoff), "a duration from 10ms to 1h"},
     "Network",
     "Pause after a webhook's first failure, doubled with each further one up to 1h",
     [](settings& to, std::string_view value) { return read(to.webhook_backoff, value, 10ms, 1h); }},
    {{"body-limit", "SIZE", format_size(base.body_limit), "a size from 1K to 1G"},
     "Network",
     "Largest body of one HTTP request",
     [](settings& to, std::string_view value) { return read_size(to.body_limit, value, 1LL << 10, 1LL << 30); }},
  };
}

std::vector<row> job_rows(const settings& base) {
  return {
    {{"slots", "N", "(number of cores)", "a whole number from 1 to 1024"},
     "Jobs",
     "Jobs that run at the same time",
     [](settings& to, std::string_view value) { return read(to.slots, value, 1, 1'024); }},
    {{"label", "LABEL", "", "1 to 255 letters, digits or . _ - / = :", true},
     "Jobs",
     "A label of this node's workers; may be given several times",
     [](settings& to, std::string_view value) { return add_label(to.labels, value); }},
    {{"runner", "FILE", "(kcx-runner beside kcx-node)", "a path"},
     "Jobs",
     "The program that leads each slot's processes",
     [](settings& to, std::string_view value) { return read(to.runner, value); }},
    {{"log-limit", "SIZE", format_size(base.log_limit), "a size from 4K to 1T"},
     "Jobs",
     "Log kept of each attempt of a job that does not say itself",
     [](settings& to, std::string_view value) { return read_size(to.log_limit, value, 4LL << 10, 1LL << 40); }},
    {{"compress-logs-after", "DURATION", format_duration(base.compress_logs_after), "a duration from 0s to 36500d"},
     "Jobs",
     "When the log of an attempt that has ended is compressed",
     [](settings& to, std::string_view value) { return read(to.compress_logs_after, value, 0s, 24h * 36'500); }},
    {{"artifacts-limit", "SIZE", format_size(base.artifacts_limit), "a size from 0 to 1T"},
     "Jobs",
     "Artifacts kept of each attempt",
     [](settings& to, std::string_view value) { return read_size(to.artifacts_limit, value, 0, 1LL << 40); }},
    {{"keep", "STATE:DURATION", "(30d; 90d for failed, timed_out and interrupted)",
      "STATE:DURATION with a final state or \"all\" and a duration with its unit from 1s to 36500d or \"forever\"",
      true},
     "Jobs",
     "How long jobs of a final state stay listed after their end; may be given several times",
     [](settings& to, std::string_view value) { return add_keep(to.keep, value); }},
    {{"keep-count", "STATE:N", "(all)",
      "STATE:N with a final state or \"all\" and a whole number from 0 or \"forever\"", true},
     "Jobs",
     "How many jobs of a final state stay listed, the newest; may be given several times",
     [](settings& to, std::string_view value) { return add_keep_count(to.keep_count, value); }},
    {{"cgroups", "true|false", "true", on_or_off},
     "Jobs",
     "Limit whole jobs by cgroup v2 where the node is allowed to",
     [](settings& to, std::string_view value) { return read(to.cgroups, value); }},
    {{"job-user", "NAME", "", "the name of an account"},
     "Jobs",
     "Account of jobs that name none; only for a node that runs as root",
     [](settings& to, std::string_view value) { return read_account(to.job_user, value); }},
    {{"drain-timeout", "DURATION", format_duration(base.drain_timeout), "a duration from 0s to 7d"},
     "Stopping",
     "How long SIGTERM lets running jobs go on before they are ended",
     [](settings& to, std::string_view value) { return read(to.drain_timeout, value, 0s, 168h); }},
    {{"stop-grace", "DURATION", format_duration(base.stop_grace), "a duration from 0s to 1h"},
     "Stopping",
     "Time between SIGTERM and SIGKILL for jobs the node ends when it stops",
     [](settings& to, std::string_view value) { return read(to.stop_grace, value, 0s, 1h); }},
  };
}

std::vector<row> engine_rows(const settings& base) {
  return {
    {{"readers", "N", std::to_string(base.readers), "a whole number from 1 to 64"},
     "Engine",
     "Read-only database connections, each with a thread",
     [](settings& to, std::string_view value) { return read(to.readers, value, 1, 64); }},
    {{"scheduler-threads", "N", std::to_string(base.scheduler_threads), "a whole number from 1 to 64"},
     "Engine",
     "Threads shared by all actors that do not block",
     [](settings& to, std::string_view value) { return read(to.scheduler_threads, value, 1, 64); }},
    {{"ageing-step", "DURATION", format_duration(base.ageing_step), "a duration from 1s to 1d"},
     "Engine",
     "How much older one step of priority makes a waiting job look",
     [](settings& to, std::string_view value) { return read(to.ageing_step, value, 1s, 24h); }},
    {{"log-level", "LEVEL", std::string{to_string(base.log)}, "debug, info, warning or error"},
     "Diagnosis",
     "Least important entries that the node writes to standard error",
     [](settings& to, std::string_view value) { return read(to.log, value); }},
    {{"fault-injection", "", "false", on_or_off},
     "Diagnosis",
     "Let administrators make actors fail by POST /v1/node/faults; for tests only",
     [](settings& to, std::string_view value) { return read(to.fault_injection, value); }},
  };
}

const std::vector<row>& table() {
  static const auto rows = [] {
    const settings base;
    auto all = network_rows(base);
    for (auto& more : {job_rows(base), engine_rows(base)})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

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

const row* find_row(std::string_view name) {
  auto found = std::find_if(table().begin(), table().end(), [&](const row& r) { return r.info.name == name; });
  return found == table().end() ? nullptr : &*found;
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
  for (const auto& known : table()) {
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
  for (const auto& known : table()) {
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

std::map<std::string, std::chrono::milliseconds> default_keep() {
  std::map<std::string, std::chrono::milliseconds> keep;
  for (const auto name : final_states) {
    const bool worth_a_look = name == "failed" || name == "timed_out" || name == "interrupted";
    keep.emplace(name, 24h * (worth_a_look ? 90 : 30));
  }
  return keep;
}

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
  for (const auto& known : table())
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
  for (const auto& known : table())
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
