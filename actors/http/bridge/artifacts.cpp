// The bridge's calls for what a job kept of its workspace.
#include "actors/http/artifacts/artifact_answer.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/artifact_path.hpp"

namespace kcx {

void http_bridge::artifacts(const call& ask) {
  auto query = http::parse_artifact_query(ask.request(), ask.name);
  if (!query)
    return ask.answer(http::problem(http::kinds::invalid_parameter, query.error().message));
  read<log_location>(
    [this, ask, query = *query](expected<log_location> where) {
      if (!where)
        return ask.answer(where.error());
      const auto [job, attempt] = where->key;
      http::artifact_source source{where->key, artifacts_path(settings_.data_dir, job.value, attempt)};
      settings_.files([files = settings_.files, ask, query, source = std::move(source)] {
        ask.answer(http::artifact_answer(files, source, query));
      });
    },
    log_atom_v, ask.job, query->attempt);
}

} // namespace kcx
