#include "actors/cli/jobs/job_document.hpp"

#include "config/units.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

bool is_variable(std::string_view name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !name.empty() && name.find_first_not_of(letters) == std::string_view::npos && (name[0] < '0' || name[0] > '9');
}

/// Whether JSON can hold it.
bool is_text(const json& value) {
  try {
    std::ignore = value.dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

outcome add_variable(const std::string& word, json& env) {
  auto equals = word.find('=');
  auto name = word.substr(0, equals);
  if (!is_variable(name))
    return refused("option --env cannot be \"" + word + "\"; allowed is KEY=VALUE, or KEY for its value here");
  if (equals != std::string::npos) {
    env[name] = word.substr(equals + 1);
    return done{};
  }
  const char* value = std::getenv(name.c_str());
  if (value == nullptr)
    return refused("option --env " + name + ": the environment of kcx has no such variable");
  env[name] = value;
  return done{};
}

outcome add_environment(const job_flags& flags, json& document) {
  if (flags.env.empty() && flags.env_files.empty())
    return done{};
  auto& env = document["env"];
  if (!env.is_object())
    env = json::object();
  for (const auto& file : flags.env_files) {
    errno = 0;
    std::ifstream in{file};
    if (!in)
      return refused("cannot read the environment file " + file + ": " + std::generic_category().message(errno));
    if (auto read = read_env_file(in, file, env); !read)
      return read;
  }
  for (const auto& word : flags.env)
    if (auto added = add_variable(word, env); !added)
      return added;
  return done{};
}

template <class Value>
void set(json& document, const char* key, const std::optional<Value>& value) {
  if (value)
    document[key] = *value;
}

void set(json& document, const char* key, const std::optional<std::chrono::milliseconds>& value) {
  if (value)
    document[key] = static_cast<double>(value->count()) / 1000.0;
}

void set(json& document, const char* key, const std::vector<std::string>& value) {
  if (!value.empty())
    document[key] = value;
}

void set_fields(const job_flags& flags, json& document) {
  set(document, "name", flags.name);
  set(document, "project", flags.project);
  set(document, "queue", flags.queue);
  set(document, "labels", flags.labels);
  set(document, "working_dir", flags.working_dir);
  set(document, "keep_workspace", flags.keep_workspace);
  set(document, "on_interrupt", flags.on_interrupt);
  set(document, "artifacts", flags.artifacts);
  if (flags.webhook)
    document["webhook"]["url"] = *flags.webhook;
  set(document, "user", flags.user);
  set(document, "run_at", flags.run_at);
  set(document, "unique_key", flags.unique_key);
  set(document, "group", flags.group);
  set(document, "group_limit", flags.group_limit);
  set(document, "supersede", flags.supersede);
  set(document, "on_conflict", flags.on_conflict);
  set(document, "retry_on", flags.retry_on);
  set(document, "priority", flags.priority);
  set(document, "weight", flags.weight);
  set(document, "max_attempts", flags.max_attempts);
  set(document, "max_interrupts", flags.max_interrupts);
  set(document, "log_limit_bytes", flags.log_limit_bytes);
  set(document, "time_limit_s", flags.time_limit);
  set(document, "no_output_limit_s", flags.no_output_limit);
  set(document, "wait_limit_s", flags.wait_limit);
  set(document, "cancel_grace_s", flags.cancel_grace);
  set(document, "backoff_s", flags.backoff);
}

void set_limits(const job_flags& flags, json& document) {
  auto limits = json::object();
  set(limits, "memory_bytes", flags.memory_bytes);
  set(limits, "cpu_s", flags.cpu_s);
  set(limits, "cpus", flags.cpus);
  set(limits, "open_files", flags.open_files);
  set(limits, "processes", flags.processes);
  set(limits, "file_bytes", flags.file_bytes);
  if (limits.empty())
    return;
  if (auto& own = document["limits"]; own.is_object())
    own.update(limits);
  else
    own = std::move(limits);
}

outcome set_needs(const job_flags& flags, json& document) {
  if (flags.needs.empty())
    return done{};
  auto needs = json::array();
  for (const auto& word : flags.needs) {
    const auto colon = word.find(':');
    const auto id = parse_number(word.substr(0, colon), 1, INT64_MAX);
    if (!id)
      return refused("option --need cannot be \"" + word + "\"; allowed is the number of a job, as in 12 or 12:always");
    const auto when = colon == std::string::npos ? "success" : word.substr(colon + 1);
    if (when != "success" && when != "failure" && when != "always")
      return refused("option --need cannot be \"" + word + "\"; behind the number is success, failure or always");
    needs.push_back({{"id", *id}, {"if", when}});
  }
  document["needs"] = std::move(needs);
  return done{};
}

outcome set_metadata(const job_flags& flags, json& document) {
  if (!flags.metadata)
    return done{};
  auto metadata = json::parse(*flags.metadata, nullptr, false);
  if (!metadata.is_object())
    return refused("option --metadata cannot be \"" + *flags.metadata + "\"; allowed is a JSON object");
  document["metadata"] = std::move(metadata);
  return done{};
}

/// An argument may hold any bytes, JSON only UTF-8. Names the field: what it came from, a flag, a file or a variable of
/// the environment, is told by that.
outcome check_text(const json& document) {
  for (const auto& [field, value] : document.items())
    if (!is_text(value))
      return refused("what is given for " + (is_text(field) ? field : "a field") +
                     " is no UTF-8 text, which a job document must be");
  return done{};
}

} // namespace

outcome read_env_file(std::istream& in, const std::string& file, json& env) {
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    auto begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#')
      continue;
    std::string_view text{line};
    text.remove_prefix(begin);
    if (text.starts_with("export "))
      text.remove_prefix(7);
    auto equals = text.find('=');
    if (equals == std::string_view::npos || !is_variable(text.substr(0, equals)))
      return refused(file + ":" + std::to_string(number) + ": not a line KEY=VALUE");
    if (!is_text(text))
      return refused(file + ":" + std::to_string(number) + ": no UTF-8 text, which a variable must be");
    env[std::string{text.substr(0, equals)}] = text.substr(equals + 1);
  }
  return done{};
}

error refused(std::string message) {
  return {ec::invalid_input, std::move(message), {}};
}

bool flags_for_one_job(const job_flags& flags) {
  return !flags.argv.empty() || flags.shell || flags.name || flags.unique_key || !flags.needs.empty();
}

expected<std::string> read_secret_file(const std::string& file, std::istream& standard_input) {
  errno = 0;
  std::ifstream opened;
  if (file != "-")
    opened.open(file);
  auto& in = file == "-" ? standard_input : opened;
  std::string value{std::istreambuf_iterator<char>{in}, {}};
  if (file != "-" && (!opened.is_open() || opened.bad()))
    return refused("cannot read the secret in " + file + ": " + std::generic_category().message(errno));
  if (value.ends_with('\n'))
    value.pop_back();
  if (value.ends_with('\r'))
    value.pop_back();
  const auto name = file == "-" ? std::string{"standard input"} : file;
  if (value.empty())
    return refused(name + " holds no secret: it is empty");
  if (!is_text(value))
    return refused(name + " holds bytes that are no UTF-8 text, which a secret must be");
  return value;
}

expected<secret_values> read_secrets(const job_flags& flags, std::istream& standard_input) {
  secret_values secrets;
  for (const auto& name : flags.secrets) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr)
      return refused("option --secret " + name + ": the environment of kcx has no such variable");
    if (!is_text(value))
      return refused("option --secret " + name + ": its value is no UTF-8 text, which a secret must be");
    secrets[name] = value;
  }
  for (const auto& word : flags.secret_files) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || !is_variable(word.substr(0, equals)))
      return refused("option --secret-file cannot be \"" + word + "\"; allowed is NAME=FILE");
    auto value = read_secret_file(word.substr(equals + 1), standard_input);
    if (!value)
      return std::move(value).error();
    secrets[word.substr(0, equals)] = *std::move(value);
  }
  return secrets;
}

outcome apply_flags(const job_flags& flags, const secret_values& secrets, json& document) {
  if (!flags.argv.empty() || flags.shell) {
    document.erase("steps");
    document["command"] = flags.shell ? json(*flags.shell) : json(flags.argv);
  }
  set_fields(flags, document);
  set_limits(flags, document);
  for (const auto& [name, value] : secrets)
    document["secrets"][name] = value;
  for (auto& step : {set_needs(flags, document), set_metadata(flags, document), add_environment(flags, document),
                     check_text(document)})
    if (!step)
      return step.error();
  return done{};
}

} // namespace kcx::cli
