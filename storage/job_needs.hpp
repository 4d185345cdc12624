/// Needs between the jobs of one submission: pure checks, before anything is stored.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kcx {

/// Whether every `ref` in the needs names another job of the same submission, no ref is given twice, no job needs
/// another one twice, and none itself, be it by way of others; and whether there are at most 50,000 needs. Fails with
/// invalid_input; pointers begin with the index of the job if `several`. Takes time in proportion to the number of jobs
/// and needs.
[[nodiscard]] outcome check_refs(std::span<const job_spec> specs, bool several);

/// A job of a submission that waits, when its needs stand for ids.
struct linked_job {
  job_id id;
  /// In the submission.
  std::size_t index = 0;
  std::span<const job_need> needs;
};

/// The needs by which these jobs would wait for each other for ever, at most 100 of them. The refs of a submission have
/// no cycle, but one may stand for an earlier job, which was given back for the sake of its unique key. Takes time in
/// proportion to the number of jobs and needs.
[[nodiscard]] std::vector<field_error> find_endless(std::span<const linked_job> jobs, bool several);

/// Where a need stands in the request: "/3/needs/0", or "/needs/0" of a single job.
[[nodiscard]] std::string need_pointer(std::size_t job, std::size_t need, bool several);

} // namespace kcx
