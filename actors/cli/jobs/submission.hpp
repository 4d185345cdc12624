/// What `kcx run` and `kcx submit` send: made of a file, of flags, or of both.
#pragma once

#include "actors/cli/jobs/job_document.hpp"
#include "actors/cli/pipeline/pipeline.hpp"

#include <nlohmann/json.hpp>

#include <istream>
#include <optional>

namespace kcx::cli {

struct submission {
  /// To POST: an object, or an array of several jobs.
  nlohmann::json document;
  /// The file it came from, if any.
  std::optional<source_file> source;
  /// The jobs, their names and needs, where the file holds several.
  std::optional<pipeline> plan;

  /// The same with every value of a secret hidden, for people to look at.
  [[nodiscard]] nlohmann::json shown() const;
  /// A problem document of the node with places in the file instead of places in what was sent.
  [[nodiscard]] nlohmann::json located(const nlohmann::json& problem) const;
};

/// Reads file and flags. The file holds one job as the API takes it, an array of such jobs, or a pipeline
/// (docs/pipelines.md). Flags win over the file, in each of its jobs; those that can be true of one job only are
/// refused with several. Fails with ec::invalid_input, naming the flag, or the file with line and field.
[[nodiscard]] expected<submission> read_submission(const job_flags& flags, std::istream& standard_input);

} // namespace kcx::cli
