#include "actors/http/api/submission_json.hpp"

#include "actors/http/api/json_body.hpp"
#include "actors/http/message/auth.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_json.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace kcx::http {

namespace {

/// Enough to see what is wrong, and bounded when all of 10,000 jobs are.
constexpr std::size_t most_field_errors = 100;
constexpr std::size_t longest_key = 255;

expected<std::vector<job_spec>> read_specs(const nlohmann::json& document) {
  std::vector<job_spec> specs;
  if (!document.is_array()) {
    auto spec = parse_job_spec(document);
    if (!spec)
      return std::move(spec).error();
    specs.push_back(std::move(*spec));
    return specs;
  }
  error all{ec::invalid_input, "", {}};
  for (std::size_t i = 0; i < document.size() && all.fields.size() < most_field_errors; ++i) {
    auto spec = parse_job_spec(document[i], "/" + std::to_string(i));
    if (spec)
      specs.push_back(std::move(*spec));
    else if (all.message.empty())
      all = std::move(spec).error();
    else
      all.fields.insert(all.fields.end(), spec.error().fields.begin(), spec.error().fields.end());
  }
  if (!all.message.empty() || !all.fields.empty())
    return all;
  return specs;
}

expected<std::optional<idempotency_key>> read_idempotency_key(const request& ask, const nlohmann::json& document,
                                                              const submission_rules& rules) {
  const auto given = ask.headers.find("Idempotency-Key");
  if (!given)
    return std::optional<idempotency_key>{};
  const auto visible = [](char c) { return c > ' ' && c < 0x7F; };
  if (ask.headers.count("Idempotency-Key") > 1 || given->empty() || given->size() > longest_key ||
      !std::ranges::all_of(*given, visible))
    return error{
      ec::invalid_input, "Idempotency-Key must be one header of 1 to 255 visible ASCII characters without spaces", {}};
  // Of the document, not of its text: whoever sends it again may write it differently.
  return std::optional{
    idempotency_key{rules.owner, std::string{*given}, token_digest(json_text(document)),
                    [several = document.is_array(), clock = rules.clock](const accepted_jobs& accepted) {
                      return answer_to(accepted, several, clock());
                    }}};
}

} // namespace

std::variant<submission, response> read_submission(const request& ask, const submission_rules& rules) {
  // As long as the server lets it be.
  auto body = json_body(ask, std::numeric_limits<std::size_t>::max());
  if (auto* refusal = std::get_if<response>(&body))
    return std::move(*refusal);
  const auto& document = std::get<nlohmann::json>(body);
  const bool several = document.is_array();
  if (several && document.size() > rules.jobs_per_request)
    return problem(kinds::body_too_large, "at most " + std::to_string(rules.jobs_per_request) +
                                            " jobs per array; application/x-ndjson takes any number, a line each");
  if (several && document.empty())
    return problem(error{ec::invalid_input, "the array holds no job", {{"", "must hold at least one job"}}});
  auto specs = read_specs(document);
  if (!specs)
    return problem(specs.error());
  auto once = read_idempotency_key(ask, document, rules);
  if (!once) // of the header, so no field of the document is wrong
    return problem(kinds::invalid_parameter, once.error().message);
  return submission{std::move(*specs), several, std::move(*once)};
}

stored_answer answer_to(const accepted_jobs& accepted, bool several, timestamp now) {
  if (!several) {
    const auto& job = accepted.jobs.front();
    return {accepted.is_new(job.id) ? 201 : 200, "/v1/jobs/" + std::to_string(job.id.value),
            json_text(to_api_json(job, now))};
  }
  // Job by job: the documents of 10,000 at once would take ten times the memory of their text.
  std::string text = R"({"items":[)";
  for (const auto& each : accepted.jobs)
    text += (text.back() == '[' ? "" : ",") + json_text(to_api_json(each, now));
  return {201, "", text + "]}"};
}

} // namespace kcx::http
