/// The documents of the calls for workers elsewhere (/v1/claims), read into values and written. Pure functions; every
/// failure is invalid_input with the pointer of each offending field, and unknown fields are refused.
#pragma once

#include "actors/messages.hpp"
#include "config/error.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::http {

/// "12.1.5f3a9c0e11d2b4a7": job, attempt and nonce.
[[nodiscard]] std::string to_text(const lease_token& token);
[[nodiscard]] std::optional<lease_token> parse_lease_token(std::string_view text);

/// `{"worker", "queues", "labels", "max", "capacity", "lease_s"}`, all optional.
[[nodiscard]] expected<remote_request> parse_claim(const nlohmann::json& document);

/// How the end of a claimed job is reported.
enum class claim_end : std::uint8_t {
  complete, ///< `{"exit_code", "signal", "message", "duration_s", "steps", "outputs"}`: the command ended.
  fail,     ///< `{"reason", "message", "duration_s", "steps", "outputs"}`: it ended, or was ended, in another way.
  release,  ///< Nothing: it is given back.
};

/// What ended, and what is asked for next.
struct claim_report {
  /// Each with key, nonce and result; its log size is not known.
  std::vector<attempt_result> ended;
  /// Who asks for more; without free slots.
  remote_request next;
};

/// The body of a call about the one claim of `token`. With complete, `claim` may hold what parse_claim takes.
[[nodiscard]] expected<claim_report> parse_report(const nlohmann::json& document, claim_end how,
                                                  const lease_token& token);
/// `{"items": [{"token", …}]}`, or `{"tokens": [token]}` of calls that say no more than that; 1 to 1,000.
[[nodiscard]] expected<claim_report> parse_reports(const nlohmann::json& document, claim_end how);
/// `{"tokens": [token]}`.
[[nodiscard]] expected<std::vector<lease_token>> parse_tokens(const nlohmann::json& document);

/// What a worker needs to run a claimed job: secrets included, outputs of needed jobs among its variables.
[[nodiscard]] nlohmann::json claim_document(const job_grant& grant, std::chrono::milliseconds lease);
[[nodiscard]] nlohmann::json claims_document(const std::vector<expected<job_grant>>& granted,
                                             std::chrono::milliseconds lease);
[[nodiscard]] nlohmann::json renewal_document(const lease_token& token, const renewal& answer);
[[nodiscard]] nlohmann::json end_document(const attempt_result& reported, const transition_result& answer);
/// One line of the answer about many: its token, and the problem's code and detail.
[[nodiscard]] nlohmann::json refusal_document(const lease_token& token, const error& failure);

} // namespace kcx::http
