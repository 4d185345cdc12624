/// The kinds of values a submitted job's fields have: how each is read from JSON with all its rules, and shown as JSON
/// again. The table that names the fields is in job_json.cpp, the only user of this file.
#pragma once

#include "storage/job.hpp"
#include "storage/job_json.hpp"
#include "storage/json_input.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kcx {

/// One pass over one document. Readers leave the member as it is when they note an error.
struct reading {
  const job_limits& limits;
  json_errors errors;
};

/// Any text without control characters.
void read_name(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);
/// Like a name, but not empty.
void read_key(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);
/// One plain name, not empty.
void read_ref(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);
/// Each is an id, a ref, or an object with one of them, the condition `if` and `artifacts`.
void read_needs(reading& in, const json_place& at, const nlohmann::json& value, std::vector<job_need>& member);
/// One plain name: it is part of addresses.
inline constexpr std::size_t queue_name_bytes = 64;
inline constexpr std::string_view queue_name_rule =
  "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64 of them";
/// A queue may have this name.
[[nodiscard]] bool is_queue_name(std::string_view text) noexcept;
void read_queue(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);
/// Plain names parted by '/', as repositories have them.
void read_project(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);
void read_labels(reading& in, const json_place& at, const nlohmann::json& value, std::vector<std::string>& member);
void read_metadata(reading& in, const json_place& at, const nlohmann::json& value, nlohmann::json& member);
/// A string for the shell, or an array of words.
void read_command(reading& in, const json_place& at, const nlohmann::json& value, std::optional<command_line>& member);
/// A step without a name is called "step N".
void read_steps(reading& in, const json_place& at, const nlohmann::json& value, std::vector<step_spec>& member);
void read_variables(reading& in, const json_place& at, const nlohmann::json& value,
                    std::map<std::string, std::string>& member);
/// What a job leaves: names of variables, and texts of one line.
void read_outputs(reading& in, const json_place& at, const nlohmann::json& value, job_outputs& member);
/// An account's name; not that it exists.
void read_user(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);
void read_limits(reading& in, const json_place& at, const nlohmann::json& value, resource_limits& member);
/// Paths with globs, relative to the workspace.
void read_artifacts(reading& in, const json_place& at, const nlohmann::json& value, std::vector<std::string>& member);
void read_working_dir(reading& in, const json_place& at, const nlohmann::json& value, std::string& member);

/// An object of url, secret and events.
void read_webhook(reading& in, const json_place& at, const nlohmann::json& value, std::optional<webhook_spec>& member);

/// As read_command takes it.
[[nodiscard]] nlohmann::json show_line(const command_line& line);
[[nodiscard]] nlohmann::json show_command(const std::optional<command_line>& member);
/// Every limit, null where there is none.
[[nodiscard]] nlohmann::json show_limits(const resource_limits& member);
[[nodiscard]] nlohmann::json show_steps(const std::vector<step_spec>& member);

/// Each as an object of `id` (or `ref`, before it is stored) and `if`.
[[nodiscard]] nlohmann::json show_needs(const std::vector<job_need>& member);

/// Without its secret.
[[nodiscard]] nlohmann::json show_webhook(const std::optional<webhook_spec>& member);

/// Puts every field of the spec but secrets into an object.
void add_spec_json(nlohmann::json& target, const job_spec& spec);

} // namespace kcx
