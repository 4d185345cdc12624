/// What the actors around an HTTP bridge in a test know, do and remember; fake_actors.hpp has the actors themselves.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"
#include "storage/job_reader.hpp"
#include "storage/job_store.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kcx::test {

/// What the fake actors know, do and remember. Tests read and write it directly.
struct fake_node {
  // The database.
  std::vector<job_spec> enqueued;
  /// Submissions per message of several.
  std::vector<std::size_t> chunks;
  std::optional<error> enqueue_failure;
  std::optional<accepted_jobs> enqueue_answer;
  std::vector<idempotency_key> keys;
  bool database_silent = false;
  std::vector<token_record> tokens;
  kcx::token_uses token_uses;
  std::map<std::string, webhook_spec> webhooks;
  std::vector<std::int64_t> redelivered;
  std::optional<expected<transition_result>> cancel_answer;
  std::vector<std::string> cancelled_by;
  int change_subscriptions = 0;
  struct retry {
    job_id job;
    std::map<std::string, std::string> secrets;
    bool dead_letter = false;
  };
  std::vector<retry> retries;
  std::optional<expected<job_record>> retry_answer;
  /// What discarding, pausing, resuming and removing say.
  outcome simple_answer{kcx::done{}};
  std::vector<std::pair<job_id, job_patch>> patches;
  std::vector<job_id> discarded;
  std::map<std::string, std::string> paused;
  std::vector<std::pair<int, std::vector<job_id>>> bulks;
  /// Claims that came to nothing.
  std::vector<attempt_key> given_back;
  /// Whose files were to go.
  std::vector<job_id> removed;

  // The readers: number 0 and number 1.
  std::map<std::int64_t, job_record> jobs;
  std::optional<job_id> next_page;
  std::vector<job_filter> filters;
  /// Size of an attempt's log; -1 while it runs.
  std::map<attempt_key, std::int64_t> log_bytes;
  std::vector<job_event> events;
  std::vector<event_filter> event_filters;
  delivery_page deliveries;
  std::vector<delivery_filter> delivery_filters;
  queue_stats stats;
  std::vector<queue_info> queues;
  job_blockers blockers;
  /// What counts all jobs is not answered: there are too many.
  bool counting = false;
  bool reader_silent[2] = {false, false};
  int reads[2] = {0, 0};

  // The dispatcher, which holds claims until they are granted.
  std::vector<std::string> claims;

  // The log hub.
  std::vector<std::pair<attempt_key, std::uint64_t>> followed;
  std::vector<std::pair<attempt_key, std::uint64_t>> unfollowed;

  // The supervisors.
  std::uint32_t slots = 2;
  std::vector<std::pair<std::string, bool>> cordons;
  bool workers_silent = false;
  std::vector<std::pair<std::string, std::uint32_t>> faults;
  std::optional<error> fault_failure;
  int drains = 0;
};

/// A job for the fake readers.
[[nodiscard]] job_record some_job(std::int64_t id, job_state state, std::int32_t attempt = 0);

} // namespace kcx::test
