/// From rows to values, for the store and the readers.
#pragma once

#include "storage/job.hpp"
#include "storage/sqlite/connection.hpp"

#include <map>
#include <string>
#include <vector>

namespace kcx::sqlite {

/// A row of KCX_JOB_COLUMNS. Throws bad_value, as all here, but not for what is stored as JSON: without it the job has
/// name, project and queue, and a message that says so.
[[nodiscard]] job_record read_job(const cursor& row);

/// The first, and the others, of KCX_RESULT_COLUMNS, which begin at column `first`.
[[nodiscard]] job_outputs read_outputs(const cursor& row, int first);
[[nodiscard]] artifact_summary read_artifacts(const cursor& row, int first);

/// A row of KCX_READY_COLUMNS, beginning at column `first`.
[[nodiscard]] ready_job read_ready(const cursor& row, int first = 0);

/// The labels column: a JSON array, sorted, each once, so that equal sets are equal texts.
[[nodiscard]] std::string labels_text(std::vector<std::string> labels);
/// A column that holds a JSON array of texts, or NULL for none.
[[nodiscard]] std::vector<std::string> read_labels(const cursor& row, int column);
/// Where a claim looks again: none if they cannot be read.
[[nodiscard]] std::vector<std::string> labels_or_none(const cursor& row, int column);
/// None for NULL.
[[nodiscard]] std::map<std::string, std::string> read_secrets(const cursor& row, int column);
/// What is said of a job of which something cannot be read.
[[nodiscard]] std::string unreadable_message(const bad_value& what);

[[nodiscard]] job_state read_state(const cursor& row, int column);
[[nodiscard]] need_condition read_condition(const cursor& row, int column);
/// A word that is unknown says nothing: none.
[[nodiscard]] job_reason read_reason(const cursor& row, int column);

/// The steps of the job's latest attempt, one per step of its spec, those not reported yet as what follows from the
/// job's state.
[[nodiscard]] std::vector<step_record> read_steps(connection& db, const job_record& job);

/// The first lane with queued jobs behind this one; false if there is none. A lane is project, queue and labels_text().
struct lane_name {
  std::string project;
  std::string queue;
  std::string labels;
  auto operator<=>(const lane_name&) const = default;
};
[[nodiscard]] bool next_lane(connection& db, lane_name& lane);

/// The error for a job that is not there: gone if there ever was one of this id, else not_found.
[[nodiscard]] error missing_job(connection& db, job_id id);

} // namespace kcx::sqlite
