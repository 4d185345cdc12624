/// What is wrong with the jobs of a pipeline, told by their places in the file. Pure.
#pragma once

#include "actors/cli/pipeline/pipeline.hpp"

#include <nlohmann/json.hpp>

namespace kcx::cli {

/// Tells of one ring of jobs that wait for each other, by their names.
void find_cycles(const pipeline& what, complaints& wrong);

/// Tells what a node of this version would refuse of the job's fields, but for what was told of the same place already.
void check_fields(const pipeline_job& job, const source_file& file, complaints& wrong);

/// A problem document of the node whose pointers begin with a job's position in the array: names the place in the file
/// and the job instead.
[[nodiscard]] nlohmann::json located(nlohmann::json problem, const pipeline& what, const source_file& file);

} // namespace kcx::cli
