/// Jobs as JSON: what a user submits, what the database keeps of it, and what the API shows.
///
/// The three forms share field names, so that they are read and written by one table of fields.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/job_reader.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace kcx {

/// Bounds on what one submitted job may hold; a value beyond them is refused with its field's pointer.
struct job_limits {
  std::size_t name_bytes = 255;
  std::size_t words = 4'096;
  std::size_t words_bytes = 1 << 20;
  std::size_t env_entries = 1'024;
  std::size_t env_bytes = 1 << 20;
  std::size_t steps = 256;
  std::size_t labels = 64;
  std::size_t metadata_bytes = 64 << 10;
  std::size_t needs = 256;
  std::size_t artifacts = 100;
  /// Whether the port and the brackets of a webhook's address are looked at, which earlier versions did not.
  bool whole_addresses = true;
};

/// Reads one submitted job. Fails with invalid_input and every offending field, each pointer prefixed with `at` ("/3"
/// for the fourth of an array). Unknown fields are refused. Strings must be UTF-8 without NUL.
[[nodiscard]] expected<job_spec> parse_job_spec(const nlohmann::json& document, const std::string& at = "",
                                                const job_limits& limits = {});

/// The spec as kept in the database, without secrets.
[[nodiscard]] nlohmann::json to_stored_json(const job_spec& spec);
/// Reads what to_stored_json wrote, in this or an earlier version. Fails with internal: that concerns this job, and
/// says nothing about the file.
[[nodiscard]] expected<job_spec> from_stored_json(std::string_view text);

/// The job object of the API: all keys always present, null where unknown, times in RFC 3339. Secrets never appear.
/// `now` gives the duration of a running job.
[[nodiscard]] nlohmann::json to_api_json(const job_record& job, timestamp now);

/// As RFC 3339, where there is one.
[[nodiscard]] nlohmann::json time_or_null(const std::optional<timestamp>& at);

/// A change of a job's state as the API shows it.
[[nodiscard]] nlohmann::json to_event_json(const job_event& event);

} // namespace kcx
