/// The flags of `kcx run` and `kcx submit` as the job document of the API. Pure, but for the files and variables they
/// name.
///
/// Only what cannot be said in JSON is checked here; the node checks the rest and names each wrong field.
#pragma once

#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

/// What was said on the command line; what was not said is left to the file, or to the node's defaults.
struct job_flags {
  /// A file with one job, an array of jobs or a pipeline; "-" is standard input. Read by read_submission().
  std::string file;
  /// The words after "--".
  std::vector<std::string> argv;
  /// A line for /bin/sh -c.
  std::optional<std::string> shell;

  std::optional<std::string> name;
  std::optional<std::string> project;
  std::optional<std::string> queue;
  std::vector<std::string> labels;
  /// "KEY=VALUE", or "KEY" for its value in the environment of kcx.
  std::vector<std::string> env;
  std::vector<std::string> env_files;
  /// Variables of the environment of kcx.
  std::vector<std::string> secrets;
  /// "NAME=FILE".
  std::vector<std::string> secret_files;
  std::optional<std::string> metadata;
  std::optional<std::string> working_dir;
  std::optional<std::string> keep_workspace;
  std::optional<std::string> on_interrupt;
  std::vector<std::string> artifacts;
  std::optional<std::string> webhook;
  std::optional<std::string> user;
  std::optional<std::string> run_at;
  std::optional<std::string> unique_key;
  std::optional<std::string> on_conflict;
  std::optional<std::string> group;
  std::optional<std::string> supersede;
  std::optional<std::int64_t> group_limit;
  /// "ID" or "ID:WHEN".
  std::vector<std::string> needs;
  /// Not part of the document: goes into the header Idempotency-Key.
  std::string idempotency_key;
  std::vector<std::string> retry_on;

  std::optional<std::int64_t> priority;
  std::optional<std::int64_t> weight;
  std::optional<std::int64_t> max_attempts;
  std::optional<std::int64_t> max_interrupts;
  std::optional<std::int64_t> log_limit_bytes;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> cpu_s;
  std::optional<double> cpus;
  std::optional<std::int64_t> open_files;
  std::optional<std::int64_t> processes;
  std::optional<std::int64_t> file_bytes;

  std::optional<std::chrono::milliseconds> time_limit;
  std::optional<std::chrono::milliseconds> no_output_limit;
  std::optional<std::chrono::milliseconds> wait_limit;
  std::optional<std::chrono::milliseconds> cancel_grace;
  std::optional<std::chrono::milliseconds> backoff;
};

/// ec::invalid_input, for what was said on the command line.
[[nodiscard]] error refused(std::string message);

/// Whether flags are given that can be true of one job only: its command, name, unique key or needs.
[[nodiscard]] bool flags_for_one_job(const job_flags& flags);

/// The value of a file's secret, or of standard input ("-"): all of it but the newline at its end, which editors add.
/// Fails with ec::invalid_input: unreadable, empty or no UTF-8.
[[nodiscard]] expected<std::string> read_secret_file(const std::string& file, std::istream& standard_input);

using secret_values = std::map<std::string, std::string>;

/// The values of --secret and --secret-file. `standard_input` is read for "NAME=-". Fails with ec::invalid_input.
[[nodiscard]] expected<secret_values> read_secrets(const job_flags& flags, std::istream& standard_input);

/// Writes the flags into a job's document; they win over what it says. Fails with ec::invalid_input, naming the flag
/// and the cause.
[[nodiscard]] outcome apply_flags(const job_flags& flags, const secret_values& secrets, nlohmann::json& document);

/// Adds the "KEY=VALUE" lines of an environment file to `env`: blank lines and lines that begin with "#" are skipped,
/// "export " is allowed before a key, the value reaches to the end of the line as it is. Fails with ec::invalid_input,
/// naming `file` and the line.
[[nodiscard]] outcome read_env_file(std::istream& in, const std::string& file, nlohmann::json& env);

} // namespace kcx::cli
