/// The smaller JSON documents that the API takes about jobs, read into values. Pure; every failure is invalid_input
/// with the pointer of each offending field, and unknown fields are refused. A submitted job itself is in job_json.hpp.
#pragma once

#include "config/error.hpp"
#include "storage/job_reader.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace kcx {

/// `{"secrets": {name: value}}`, both optional: what a retry brings along.
[[nodiscard]] expected<std::map<std::string, std::string>> parse_retry(const nlohmann::json& document);

/// `{"priority", "run_at", "labels"}`, at least one: what to change of a waiting job. `run_at` null is now.
[[nodiscard]] expected<job_patch> parse_patch(const nlohmann::json& document);

/// `{"state", "project", "queue", "name", "label"}`, all optional: the jobs that a call about many of them means.
/// `state` is one state or an array of them.
[[nodiscard]] expected<job_filter> parse_filter_document(const nlohmann::json& document);

} // namespace kcx
