/// How far a pipeline has come: what its jobs' states mean together, and how they are shown. Pure.
#pragma once

#include "actors/cli/pipeline/pipeline.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/text.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace kcx::cli {

/// The jobs of a pipeline as the node shows them, in the pipeline's order; null where it was not asked yet.
using job_states = std::vector<nlohmann::json>;

/// All needs within the pipeline have ended: before that a job is only waiting.
[[nodiscard]] bool needs_ended(const pipeline& what, const job_states& jobs, std::size_t job);

/// The exit code of the whole: 0 if each job succeeded or was skipped as planned; else the code (exit_code.hpp) of the
/// first job in the file that did not, where those that were skipped for another's failure stand behind all others.
/// As planned is a job skipped that asked for the failure of one that succeeded, or needs one that was itself.
[[nodiscard]] int exit_code_of(const pipeline& what, const job_states& jobs);

/// "test (gcc): failed (exit code 1) after 3.0 s", with the number of the job at its start.
[[nodiscard]] std::string progress_line(const pipeline_job& job, const nlohmann::json& state);

/// For a terminal, at most as many lines as it takes: a line of counts, then the jobs; those that succeeded give way
/// first, then those that wait. Names take half of the width at the most.
[[nodiscard]] std::vector<cell> progress_block(const pipeline& what, const job_states& jobs,
                                               std::chrono::milliseconds since, look how);

/// A table of all jobs: name, number, state, reason, duration.
[[nodiscard]] std::string summary_table(const pipeline& what, const job_states& jobs, look how);

/// "kcx: 11 succeeded, 1 failed, 2 skipped in 3 min 04 s".
[[nodiscard]] std::string summary_line(const pipeline& what, const job_states& jobs, std::chrono::milliseconds took);

} // namespace kcx::cli
