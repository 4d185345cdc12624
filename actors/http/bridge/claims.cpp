// The bridge's calls for workers elsewhere: claim, renew, report, and the logs they send.
#include "actors/http/api/claim_json.hpp"
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "config/units.hpp"

#include <caf/send.hpp>

#include <utility>

namespace kcx {

namespace {

constexpr std::int64_t most_next = 1'000;

/// A query parameter that is a whole number; 0 if it is not there.
expected<std::int64_t> whole_parameter(const http::request& ask, std::string_view name, std::int64_t most) {
  const auto text = ask.parameter(name);
  if (!text)
    return std::int64_t{0};
  const auto number = parse_number(*text, 0, most);
  if (!number)
    return error{ec::invalid_input,
                 std::string{name} + " must be a whole number up to " + std::to_string(most) + ", not \"" +
                   std::string{text->substr(0, 40)} + "\"",
                 {}};
  return *number;
}

expected<std::chrono::milliseconds> wait_parameter(const http::request& ask) {
  const auto text = ask.parameter("wait");
  return text ? http::parse_wait(*text) : expected<std::chrono::milliseconds>{std::chrono::milliseconds{0}};
}

/// What a report asks for beside: so many further jobs, and how long it waits for them.
struct next_jobs {
  std::int64_t most = 0;
  std::chrono::milliseconds wait{0};
};

expected<next_jobs> read_next(const http::request& ask, http::claim_end how) {
  const auto wait = wait_parameter(ask);
  if (!wait)
    return wait.error();
  const auto most = whole_parameter(ask, "next", most_next);
  if (!most)
    return most.error();
  return next_jobs{how == http::claim_end::complete ? *most : 0, *wait};
}

/// What gives these jobs back: nobody has begun them.
work_exchange not_started(const std::vector<expected<job_grant>>& granted) {
  work_exchange back;
  for (const auto& each : granted) {
    if (!each)
      continue;
    auto& result = back.ended.emplace_back();
    result.key = each->key;
    result.nonce = each->nonce;
    result.outcome = attempt_outcome::not_started;
  }
  return back;
}

error no_such_claim(const std::string& token) {
  return {ec::not_found, "\"" + token.substr(0, 100) + "\" is no token that a claim gave", {}};
}

} // namespace

// -- claiming ---------------------------------------------------------------------------------------------------------

void http_bridge::claim_jobs(const call& ask) {
  if (refuse_if_draining(ask, "hands out no more jobs"))
    return;
  auto body = http::optional_json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  const auto wait = wait_parameter(ask.request());
  if (!wait)
    return ask.answer(http::problem(http::kinds::invalid_parameter, wait.error().message));
  auto wanted = http::parse_claim(std::get<nlohmann::json>(body));
  if (!wanted)
    return ask.answer(wanted.error());
  wanted->wait = *wait;
  exchange(ask, *std::move(wanted), false);
}

void http_bridge::exchange(const call& ask, remote_request wanted, bool several) {
  const auto id = next_id_++;
  // Of a report that waits the ends are stored already: it has its answer in any case.
  if (wanted.ended.empty() && wanted.wait.count() > 0) {
    claims_.emplace(id, ask);
    start_ticking();
  }
  write_within<exchange_result>(
    settings_.write_timeout + wanted.wait, peers_.dispatcher,
    [this, id, ask, wanted, several](expected<exchange_result> answer) {
      claims_.erase(id);
      exchanged(ask, wanted, several, answer);
    },
    exchange_atom_v, wanted);
}

void http_bridge::exchanged(const call& ask, const remote_request& wanted, bool several,
                            expected<exchange_result>& answer) {
  if (!answer)
    return ask.answer(answer.error());
  if (const auto why = settings_.tokens->ended(ask.who())) {
    give_back(std::exchange(answer->granted, {}));
    if (wanted.ended.empty())
      return ask.answer(*why);
  }
  auto document = nlohmann::json::object();
  if (several) {
    auto& items = document["items"] = nlohmann::json::array();
    for (std::size_t i = 0; i < answer->ended.size(); ++i) {
      const auto& reported = wanted.ended[i];
      const auto& each = answer->ended[i];
      items.push_back(each ? http::end_document(reported, *each)
                           : http::refusal_document({reported.key, reported.nonce.value_or(0)}, each.error()));
    }
  } else if (!answer->ended.empty()) {
    if (!answer->ended.front())
      return ask.answer(answer->ended.front().error());
    document = http::end_document(wanted.ended.front(), *answer->ended.front());
  }
  document[wanted.ended.empty() ? "items" : "claims"] = http::claims_document(answer->granted, wanted.lease);
  auto told = http::json_response(200, http::json_text(document));
  if (auto back = not_started(answer->granted); !back.ended.empty())
    told.receipt = std::make_shared<http::receipt>(
      [database = caf::actor_cast<caf::weak_actor_ptr>(peers_.database), back = std::move(back)]() mutable {
        if (const auto there = caf::actor_cast<database_actor>(database))
          caf::anon_send(there, exchange_atom_v, std::move(back));
      });
  ask.exchange->respond(std::move(told));
}

void http_bridge::give_back(const std::vector<expected<job_grant>>& granted) {
  // Without a look at the answer: if it fails, the lease runs out.
  if (auto back = not_started(granted); !back.ended.empty() && peers_.database)
    caf::anon_send(peers_.database, exchange_atom_v, std::move(back));
}

// -- renewing ---------------------------------------------------------------------------------------------------------

void http_bridge::renew_claim(const call& ask) {
  const auto token = http::parse_lease_token(ask.name);
  if (!token)
    return ask.answer(no_such_claim(ask.name));
  write<std::vector<renewal>>(
    peers_.database,
    [ask, token = *token](expected<std::vector<renewal>> answer) {
      if (!answer)
        ask.answer(answer.error());
      else if (answer->front().failure)
        ask.answer(*answer->front().failure);
      else
        ask.answer_json(200, http::renewal_document(token, answer->front()));
    },
    renew_atom_v, std::vector<lease_token>{*token});
}

void http_bridge::renew_claims(const call& ask) {
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  const auto tokens = http::parse_tokens(std::get<nlohmann::json>(body));
  if (!tokens)
    return ask.answer(tokens.error());
  write<std::vector<renewal>>(
    peers_.database,
    [ask, tokens = *tokens](expected<std::vector<renewal>> answer) {
      if (!answer)
        return ask.answer(answer.error());
      auto items = nlohmann::json::array();
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto& each = (*answer)[i];
        items.push_back(each.failure ? http::refusal_document(tokens[i], *each.failure)
                                     : http::renewal_document(tokens[i], each));
      }
      ask.answer_json(200, {{"items", std::move(items)}});
    },
    renew_atom_v, *tokens);
}

// -- reporting --------------------------------------------------------------------------------------------------------

void http_bridge::end_claim(const call& ask, http::claim_end how) {
  const auto token = http::parse_lease_token(ask.name);
  if (!token)
    return ask.answer(no_such_claim(ask.name));
  auto body = http::optional_json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  const auto next = read_next(ask.request(), how);
  if (!next)
    return ask.answer(http::problem(http::kinds::invalid_parameter, next.error().message));
  auto reported = http::parse_report(std::get<nlohmann::json>(body), how, *token);
  if (!reported)
    return ask.answer(reported.error());
  reported->next.free = next->most;
  reported->next.claim_if_ended = true;
  report(ask, *std::move(reported), next->wait, false);
}

void http_bridge::end_claims(const call& ask, http::claim_end how) {
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  const auto next = read_next(ask.request(), how);
  if (!next)
    return ask.answer(http::problem(http::kinds::invalid_parameter, next.error().message));
  auto reported = http::parse_reports(std::get<nlohmann::json>(body), how);
  if (!reported)
    return ask.answer(reported.error());
  reported->next.free = next->most;
  report(ask, *std::move(reported), next->wait, true);
}

void http_bridge::report(const call& ask, http::claim_report reported, std::chrono::milliseconds wait, bool several) {
  auto& wanted = reported.next;
  wanted.wait = wait;
  if (draining_)
    wanted.free = 0;
  wanted.capacity = std::max(wanted.capacity, wanted.free);
  wanted.ended = std::move(reported.ended);
  std::vector<std::size_t> with_log;
  for (std::size_t i = 0; i < wanted.ended.size(); ++i)
    if (claim_logs_->knows(wanted.ended[i].key, wanted.ended[i].nonce.value_or(0)))
      with_log.push_back(i);
  if (with_log.empty())
    return exchange(ask, std::move(wanted), several);
  // The sizes of the closed logs are stored with the ends: they bound every later read.
  settings_.files([logs = claim_logs_, self = http_bridge_actor{this}, ask, wanted = std::move(wanted), with_log,
                   several, at = settings_.clock()]() mutable {
    for (const auto i : with_log)
      wanted.ended[i].log = logs->close(wanted.ended[i].key, at).value_or(log_summary{});
    caf::anon_send(self, exchange_atom_v, ask.exchange, std::move(wanted), several);
  });
}

// -- logs -------------------------------------------------------------------------------------------------------------

void http_bridge::put_claim_log(const call& ask) {
  const auto token = http::parse_lease_token(ask.name);
  if (!token)
    return ask.answer(no_such_claim(ask.name));
  const auto offset = whole_parameter(ask.request(), "offset", std::int64_t{1} << 62U);
  if (!offset)
    return ask.answer(http::problem(http::kinds::invalid_parameter, offset.error().message));
  // Also proof that the worker lives.
  write<std::vector<renewal>>(
    peers_.database,
    [this, ask, token = *token, offset = static_cast<std::uint64_t>(*offset)](expected<std::vector<renewal>> answer) {
      if (!answer)
        return ask.answer(answer.error());
      const auto& renewed = answer->front();
      if (renewed.failure)
        return ask.answer(*renewed.failure);
      if (claim_logs_->knows(token.key, token.nonce))
        return add_to_log(ask, token, offset, renewed);
      // The first bytes, for this life of the node: what is to be hidden in them stands in the grant.
      write<job_grant>(
        peers_.database,
        [this, ask, token, offset, renewed](expected<job_grant> grant) {
          if (!grant)
            return ask.answer(grant.error());
          claim_logs_->open(*grant);
          add_to_log(ask, token, offset, renewed);
        },
        get_atom_v, token);
    },
    renew_atom_v, std::vector<lease_token>{*token});
}

void http_bridge::add_to_log(const call& ask, const lease_token& token, std::uint64_t offset, const renewal& renewed) {
  settings_.files([logs = claim_logs_, hub = peers_.log_hub, ask, token, offset, renewed, at = settings_.clock()] {
    const auto taken = logs->put(token.key, offset, ask.request().body, at);
    if (!taken)
      return ask.answer(taken.error());
    if (hub)
      caf::anon_send(hub, grew_atom_v, token.key, static_cast<std::int64_t>(logs->size(token.key)));
    auto document = http::renewal_document(token, renewed);
    document["bytes"] = *taken;
    ask.answer_json(200, document);
  });
}

void http_bridge::close_logs(job_id job) {
  for (const auto key : claim_logs_->of_job(job))
    settings_.files([logs = claim_logs_, key, at = settings_.clock()] { logs->close(key, at); });
}

} // namespace kcx
