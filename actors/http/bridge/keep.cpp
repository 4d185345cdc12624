// The bridge's calls about jobs that have ended: retry, dead letters, removing.
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_requests.hpp"

namespace kcx {

void http_bridge::retry(const call& ask, retry_what what) {
  if (refuse_if_draining(ask))
    return;
  // Passed over, it would promise that a second call makes no second job.
  if (ask.request().headers.find("Idempotency-Key"))
    return ask.answer(
      http::problem(http::kinds::invalid_parameter,
                    "Idempotency-Key goes with POST /v1/jobs only: before asking once more, list the jobs "
                    "whose retry_of is " +
                      std::to_string(ask.job.value)));
  auto body = http::optional_json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  auto secrets = parse_retry(std::get<nlohmann::json>(body));
  if (!secrets)
    return ask.answer(secrets.error());
  write<job_record>(
    peers_.database,
    [this, ask](expected<job_record> job) {
      if (!job)
        return ask.answer(job.error());
      auto answer = http::json_response(201, http::json_text(shown(*job)));
      answer.headers.add("Location", "/v1/jobs/" + std::to_string(job->id.value));
      ask.answer(std::move(answer));
    },
    retry_atom_v, retry_request{ask.job, std::move(*secrets), what});
}

void http_bridge::discard(const call& ask) {
  write<kcx::done>(
    peers_.database,
    [this, ask](outcome result) {
      if (!result)
        return ask.answer(result.error());
      show_written(ask);
    },
    discard_atom_v, ask.job);
}

void http_bridge::remove(const call& ask) {
  write<removed_job>(
    peers_.database,
    [this, ask](expected<removed_job> removed) {
      if (!removed)
        return ask.answer(removed.error());
      settings_.remove_files(*removed);
      http::response answer;
      answer.status = 204;
      ask.answer(std::move(answer));
    },
    remove_atom_v, ask.job);
}

} // namespace kcx
