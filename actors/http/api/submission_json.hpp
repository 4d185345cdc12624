/// What a request wants stored, and what it is told once it is. Pure: any thread may do it, and for thousands of jobs
/// another than everybody's actor should.
#pragma once

#include "actors/http/message/message.hpp"
#include "storage/job_store.hpp"
#include "storage/time.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <variant>

namespace kcx::http {

struct submission_rules {
  std::size_t jobs_per_request = 10'000;
  /// Of the idempotency key.
  std::string owner;
  /// For the answer that is stored with an idempotency key.
  std::function<timestamp()> clock;
};

/// The jobs of the body, one or an array, or the problem to answer: 413 for too many; those of json_body(); 422 with
/// the pointer of each wrong field, a hundred or so at the most; 400 for a key that cannot be one.
[[nodiscard]] std::variant<submission, response> read_submission(const request& ask, const submission_rules& rules);

/// What a submitter is told.
[[nodiscard]] stored_answer answer_to(const accepted_jobs& accepted, bool several, timestamp now);

} // namespace kcx::http
