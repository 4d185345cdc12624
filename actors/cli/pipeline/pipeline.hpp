/// A pipeline: several jobs by name and what each needs, from a file to the array that is submitted. docs/pipelines.md
/// is its description for users. Pure, but for the secrets it is given a way to ask for.
#pragma once

#include "actors/cli/pipeline/source_file.hpp"
#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kcx::cli {

/// Another job of the pipeline that must have ended first.
struct pipeline_need {
  std::size_t job = 0;
  /// "success", "failure" or "always".
  std::string when = "success";
  /// Its artifacts are put into the workspace.
  bool artifacts = false;

  bool operator==(const pipeline_need&) const = default;
};

struct pipeline_job {
  /// "test (gcc, debug)": its key in the file, and its values of the matrix.
  std::string name;
  /// Where it stands in the file.
  std::string pointer;
  /// As it is submitted.
  nlohmann::json document;
  std::vector<pipeline_need> needs;
};

struct pipeline {
  std::string name;
  std::vector<pipeline_job> jobs;

  /// What is submitted: all of it, or nothing.
  [[nodiscard]] nlohmann::json array() const;
};

/// The value of a secret that a file names, or nothing.
using secret_source = std::function<std::optional<std::string>(const std::string&)>;

/// Whether the file is a pipeline: an object that has `jobs`.
[[nodiscard]] bool is_pipeline(const source_value& value);

/// Fails with ec::invalid_input: every field that is wrong, with file and line.
[[nodiscard]] expected<pipeline> read_pipeline(const source_file& file, const secret_source& secrets);

/// An array of jobs as the API takes it, seen as a pipeline: a job's name is its `name`, its `ref` or its number.
[[nodiscard]] expected<pipeline> read_job_array(const source_file& file);

} // namespace kcx::cli
