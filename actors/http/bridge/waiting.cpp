// The bridge's calls about jobs that wait: changing them, and telling what they wait for.
#include "actors/http/api/json_body.hpp"
#include "actors/http/api/why_json.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_requests.hpp"

namespace kcx {

void http_bridge::patch_job(const call& ask) {
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  auto patch = parse_patch(std::get<nlohmann::json>(body));
  if (!patch)
    return ask.answer(patch.error());
  write<transition_result>(
    peers_.database,
    [this, ask](expected<transition_result> changed) {
      if (!changed)
        return ask.answer(changed.error());
      show_written(ask);
    },
    update_atom_v, ask.job, std::move(*patch));
}

void http_bridge::why(const call& ask) {
  read<job_record>(
    [this, ask](expected<job_record> job) {
      if (!job)
        return ask.answer(job.error());
      if (job->state != job_state::queued && job->state != job_state::blocked)
        return ask.answer_json(200, http::why_document(*job, {}));
      read<job_blockers>(
        [this, ask, job = *job](expected<job_blockers> others) {
          if (!others)
            ask.answer(others.error());
          else if (job.state == job_state::queued)
            why_queued(ask, job, *others);
          else
            ask.answer_json(200, http::why_document(job, *others));
        },
        why_atom_v, ask.job);
    },
    get_atom_v, ask.job);
}

void http_bridge::why_queued(const call& ask, const job_record& job, const job_blockers& others) {
  request(peers_.dispatcher, settings_.read_timeout, why_atom_v, job.id)
    .then([ask, job,
           others](const dispatch_view& seen) { ask.answer_json(200, http::why_queued_document(job, seen, others)); },
          [ask](const caf::error& cause) {
            ask.answer({ec::timeout, "the dispatcher did not answer (" + caf::to_string(cause) + ")", {}});
          });
}

} // namespace kcx
