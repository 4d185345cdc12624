#include "storage/job_values.hpp"

#include "config/variable_name.hpp"
#include "storage/job_outputs.hpp"

#include <algorithm>
#include <array>

namespace kcx {

using nlohmann::json;

namespace {

std::optional<command_line> read_argv(reading& in, const json_place& at, const json& value) {
  if (value.empty() || value.size() > in.limits.words) {
    in.errors.add(at, "must have 1 to " + std::to_string(in.limits.words) + " words");
    return std::nullopt;
  }
  command_line line;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    const json_place here{&at, index};
    auto word = read_text(in.errors, here, value[i], in.limits.words_bytes);
    if (!word)
      return std::nullopt;
    if (i == 0 && word->empty()) {
      in.errors.add(here, "must name a program");
      return std::nullopt;
    }
    bytes += word->size() + 1;
    line.words.push_back(std::move(*word));
  }
  if (bytes > in.limits.words_bytes) {
    in.errors.add(at, "must have at most " + std::to_string(in.limits.words_bytes) + " bytes");
    return std::nullopt;
  }
  return line;
}

std::optional<command_line> read_command_line(reading& in, const json_place& at, const json& value) {
  if (value.is_array())
    return read_argv(in, at, value);
  if (!value.is_string()) {
    in.errors.add(at, "must be a string for /bin/sh, or an array of the program and its arguments");
    return std::nullopt;
  }
  auto text = read_text(in.errors, at, value, in.limits.words_bytes);
  if (!text)
    return std::nullopt;
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) {
    in.errors.add(at, "must not be empty");
    return std::nullopt;
  }
  return command_line{true, {std::move(*text)}};
}

constexpr std::chrono::milliseconds longest_limit = std::chrono::hours{366 * 24};

bool is_step_field(std::string_view key) noexcept {
  return key == "name" || key == "continue_on_error" || key == "always" || key == "time_limit_s";
}

void read_step(reading& in, const json_place& at, const json& value, step_spec& step) {
  if (!value.is_object()) {
    in.errors.add(at, "must be an object with a command");
    return;
  }
  auto has_command = false;
  for (const auto& [key, field] : value.items()) {
    const json_place here{&at, key};
    if (field.is_null() && key != "command" && is_step_field(key))
      continue; // null says "not given", as the API shows it
    if (key == "command") {
      has_command = true;
      if (auto line = read_command_line(in, here, field))
        step.command = std::move(*line);
    } else if (key == "name") {
      read_name(in, here, field, step.name);
    } else if (key == "continue_on_error") {
      step.continue_on_error = read_bool(in.errors, here, field).value_or(false);
    } else if (key == "always") {
      step.always = read_bool(in.errors, here, field).value_or(false);
    } else if (key == "time_limit_s") {
      step.time_limit = read_seconds(in.errors, here, field, std::chrono::milliseconds{1}, longest_limit);
    } else {
      in.errors.add(here, "is not a field of a step: name, command, continue_on_error, always, time_limit_s");
    }
  }
  if (!has_command)
    in.errors.add({&at, "command"}, "is missing");
}

} // namespace

json show_line(const command_line& line) {
  return line.shell ? json(line.words.front()) : json(line.words);
}

void read_name(reading& in, const json_place& at, const json& value, std::string& member) {
  auto text = read_text(in.errors, at, value, in.limits.name_bytes);
  if (!text)
    return;
  auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(text->begin(), text->end(), control))
    in.errors.add(at, "must not hold control characters");
  else
    member = std::move(*text);
}

void read_key(reading& in, const json_place& at, const json& value, std::string& member) {
  if (value == json(""))
    in.errors.add(at, "must not be empty");
  else
    read_name(in, at, value, member);
}

bool is_queue_name(std::string_view text) noexcept {
  return text.size() <= queue_name_bytes && is_plain_name(text, "._-");
}

void read_queue(reading& in, const json_place& at, const json& value, std::string& member) {
  auto text = read_text(in.errors, at, value, queue_name_bytes);
  if (!text)
    return;
  if (is_queue_name(*text))
    member = std::move(*text);
  else
    in.errors.add(at, "must be " + std::string{queue_name_rule});
}

/// Names parted by '/', as repositories have them.
void read_project(reading& in, const json_place& at, const json& value, std::string& member) {
  auto text = read_text(in.errors, at, value, 255);
  if (!text)
    return;
  auto rest = std::string_view{*text};
  auto good = true;
  for (auto more = true; good && more;) {
    const auto slash = rest.find('/');
    good = is_plain_name(rest.substr(0, slash), "._-");
    more = slash != std::string_view::npos;
    rest.remove_prefix(more ? slash + 1 : 0);
  }
  if (good)
    member = std::move(*text);
  else
    in.errors.add(at, "must be names parted by '/', each of letters, digits, '.', '_' and '-', beginning with a letter "
                      "or digit");
}

void read_labels(reading& in, const json_place& at, const json& value, std::vector<std::string>& member) {
  if (!value.is_array() || value.size() > in.limits.labels) {
    in.errors.add(at, "must be an array of at most " + std::to_string(in.limits.labels) + " strings");
    return;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    const json_place here{&at, index};
    auto text = read_text(in.errors, here, value[i], 64);
    if (!text)
      continue;
    if (!is_plain_name(*text, "._-:=/"))
      in.errors.add(here, "must be letters, digits and any of . _ - : = /, beginning with a letter or digit");
    else if (std::find(member.begin(), member.end(), *text) == member.end())
      member.push_back(std::move(*text));
  }
}

void read_metadata(reading& in, const json_place& at, const json& value, json& member) {
  constexpr std::size_t most_depth = 32;
  if (!value.is_object() || json_depth(value, most_depth + 1) > most_depth) {
    in.errors.add(at, "must be an object, nested at most " + std::to_string(most_depth) + " deep");
    return;
  }
  try {
    if (value.dump().size() > in.limits.metadata_bytes)
      in.errors.add(at, "must have at most " + std::to_string(in.limits.metadata_bytes) + " bytes as JSON");
    else
      member = value;
  } catch (const json::exception&) { // dump() checks UTF-8
    in.errors.add(at, "must hold valid UTF-8 only");
  }
}

void read_command(reading& in, const json_place& at, const json& value, std::optional<command_line>& member) {
  member = read_command_line(in, at, value);
}

json show_command(const std::optional<command_line>& member) {
  return member ? show_line(*member) : json(nullptr);
}

void read_steps(reading& in, const json_place& at, const json& value, std::vector<step_spec>& member) {
  if (!value.is_array() || value.size() > in.limits.steps) {
    in.errors.add(at, "must be an array of at most " + std::to_string(in.limits.steps) + " steps");
    return;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    auto& step = member.emplace_back();
    read_step(in, {&at, index}, value[i], step);
    if (step.name.empty())
      step.name = "step " + std::to_string(i + 1);
  }
}

json show_steps(const std::vector<step_spec>& member) {
  auto steps = json::array();
  for (const auto& step : member)
    steps.push_back({{"name", step.name},
                     {"command", show_line(step.command)},
                     {"continue_on_error", step.continue_on_error},
                     {"always", step.always},
                     {"time_limit_s",
                      step.time_limit ? json(static_cast<double>(step.time_limit->count()) / 1000.0) : json(nullptr)}});
  return steps;
}

void read_variables(reading& in, const json_place& at, const json& value, std::map<std::string, std::string>& member) {
  if (!value.is_object() || value.size() > in.limits.env_entries) {
    in.errors.add(at, "must be an object of at most " + std::to_string(in.limits.env_entries) + " strings");
    return;
  }
  std::size_t bytes = 0;
  for (const auto& [key, field] : value.items()) {
    const json_place here{&at, key};
    if (key.size() > in.limits.name_bytes || !is_variable_name(key) || key.starts_with("KCX_"))
      in.errors.add(here, "is no name for a variable: letters, digits and '_', not beginning with a digit or KCX_, at "
                          "most " +
                            std::to_string(in.limits.name_bytes) + " bytes");
    else if (auto text = read_text(in.errors, here, field, in.limits.env_bytes)) {
      bytes += key.size() + text->size() + 2;
      member.emplace(key, std::move(*text));
    }
  }
  if (bytes > in.limits.env_bytes)
    in.errors.add(at, "must have at most " + std::to_string(in.limits.env_bytes) + " bytes");
}

void read_outputs(reading& in, const json_place& at, const json& value, job_outputs& member) {
  if (!value.is_object() || value.size() > output_keys) {
    in.errors.add(at, "must be an object of at most " + std::to_string(output_keys) + " strings");
    return;
  }
  std::size_t bytes = 0;
  for (const auto& [key, field] : value.items()) {
    const json_place here{&at, key};
    if (key.size() > output_key_bytes || !is_variable_name(key))
      in.errors.add(here, "is no name for a variable of at most " + std::to_string(output_key_bytes) + " bytes");
    else if (auto text = read_text(in.errors, here, field, output_bytes)) {
      // As in the file of a job that runs on the node, where a line is a value.
      if (text->find('\n') != std::string::npos)
        in.errors.add(here, "must be one line");
      bytes += key.size() + text->size() + 2;
      member.insert_or_assign(key, std::move(*text));
    }
  }
  if (bytes > output_bytes)
    in.errors.add(at, "must have at most " + std::to_string(output_bytes) + " bytes");
}

void read_user(reading& in, const json_place& at, const json& value, std::string& member) {
  auto text = read_text(in.errors, at, value, 32);
  if (!text)
    return;
  if (is_plain_name(*text, "._-") || (text->starts_with('_') && is_plain_name(text->substr(1), "._-")))
    member = std::move(*text);
  else
    in.errors.add(at, "must be the name of an account: letters, digits, '.', '_' and '-'");
}

namespace {

struct limit_field {
  std::string_view key;
  std::optional<std::uint64_t> resource_limits::*member;
  std::int64_t least;
  std::int64_t most;
};

constexpr std::array limit_fields{
  limit_field{"memory_bytes", &resource_limits::memory_bytes, 1LL << 20, 1LL << 50},
  limit_field{"cpu_s", &resource_limits::cpu_s, 1, 1LL << 31},
  limit_field{"open_files", &resource_limits::open_files, 8, 1LL << 30},
  limit_field{"processes", &resource_limits::processes, 1, 1LL << 22},
  limit_field{"file_bytes", &resource_limits::file_bytes, 0, 1LL << 50},
};

/// Shown and read as a number with fractions.
constexpr std::string_view cpus_key = "cpus";
constexpr double most_cpus = 1'024;

void read_cpus(reading& in, const json_place& at, const json& value, resource_limits& member) {
  const auto cpus = value.is_number() ? value.get<double>() : 0;
  if (cpus >= 0.01 && cpus <= most_cpus)
    member.cpu_millis = static_cast<std::uint64_t>(cpus * 1'000 + 0.5);
  else
    in.errors.add(at, "must be a number of CPUs from 0.01 to 1024");
}

} // namespace

void read_limits(reading& in, const json_place& at, const json& value, resource_limits& member) {
  if (!value.is_object()) {
    in.errors.add(at, "must be an object of limits: memory_bytes, cpu_s, open_files, processes, file_bytes, cpus");
    return;
  }
  for (const auto& [key, field] : value.items()) {
    const json_place here{&at, key};
    const auto* known = std::find_if(limit_fields.begin(), limit_fields.end(),
                                     [&name = key](const limit_field& each) { return each.key == name; });
    if (field.is_null() && (key == cpus_key || known != limit_fields.end()))
      continue;
    if (key == cpus_key)
      read_cpus(in, here, field, member);
    else if (known == limit_fields.end())
      in.errors.add(here, "is no limit: memory_bytes, cpu_s, open_files, processes, file_bytes, cpus");
    else if (auto number = read_whole(in.errors, here, field, known->least, known->most))
      member.*known->member = static_cast<std::uint64_t>(*number);
  }
}

json show_limits(const resource_limits& member) {
  auto shown = json::object();
  for (const auto& each : limit_fields) {
    const auto& limit = member.*each.member;
    shown[std::string{each.key}] = limit ? json(*limit) : json(nullptr);
  }
  shown[std::string{cpus_key}] =
    member.cpu_millis ? json(static_cast<double>(*member.cpu_millis) / 1'000.0) : json(nullptr);
  return shown;
}

namespace {

/// What is wrong with a glob; empty if nothing is.
std::string_view fault_of_glob(std::string_view glob) noexcept {
  if (glob.empty() || glob == "." || glob == "./")
    return "must name something in the workspace; \"**\" is all of it";
  if (glob.starts_with('/'))
    return "must be relative to the workspace";
  while (!glob.empty()) {
    const auto slash = glob.find('/');
    if (glob.substr(0, slash) == "..")
      return "must not lead out of the workspace";
    glob.remove_prefix(slash == std::string_view::npos ? glob.size() : slash + 1);
  }
  return {};
}

} // namespace

void read_artifacts(reading& in, const json_place& at, const json& value, std::vector<std::string>& member) {
  constexpr std::size_t longest_glob = 1'024;
  if (!value.is_array() || value.size() > in.limits.artifacts) {
    in.errors.add(at, "must be an array of at most " + std::to_string(in.limits.artifacts) + " globs");
    return;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    const json_place here{&at, index};
    auto text = read_text(in.errors, here, value[i], longest_glob);
    if (!text)
      continue;
    if (const auto fault = fault_of_glob(*text); fault.empty())
      member.push_back(std::move(*text));
    else
      in.errors.add(here, std::string{fault});
  }
}

void read_working_dir(reading& in, const json_place& at, const json& value, std::string& member) {
  if (auto text = read_text(in.errors, at, value, 4'095))
    member = std::move(*text);
}

} // namespace kcx
