// The bridge's calls about who may call: tokens and browser sessions; and the audit line of every change.
#include "actors/http/api/gzip.hpp"
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/auth.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_json.hpp"
#include "storage/json_input.hpp"

#include <caf/send.hpp>

namespace kcx {

namespace {

using nlohmann::json;

/// When tokens were used is written this often at the most.
constexpr std::chrono::milliseconds uses_pause{60'000};

constexpr std::size_t longest_name = 100;
constexpr std::int64_t highest_rate = 1'000'000;

json token_document(const token_record& token) {
  return {{"id", token.id},
          {"name", token.what.name},
          {"scopes", token.what.scopes},
          {"created_at", to_rfc3339(token.created_at)},
          {"created_by", token.what.created_by},
          {"expires_at", time_or_null(token.what.expires_at)},
          {"last_used_at", time_or_null(token.last_used_at)},
          {"rate_limit", token.what.rate_limit ? json(*token.what.rate_limit) : json(nullptr)}};
}

std::vector<std::string> read_scopes(json_errors& errors, const json_place& at, const json& value) {
  std::vector<std::string> scopes;
  if (!value.is_array() || value.empty() || value.size() > http::token_scopes().size()) {
    errors.add(at, "must be an array of read, submit, work, cancel, admin");
    return scopes;
  }
  std::vector<std::string_view> names;
  for (const auto each : http::token_scopes())
    names.push_back(http::to_string(each));
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto key = std::to_string(i);
    if (const auto which = read_choice(errors, {&at, key}, value[i], names))
      scopes.emplace_back(names[*which]);
  }
  return scopes;
}

void read_token_field(json_errors& errors, new_token& token, const std::string& key, const json& value, timestamp now) {
  const json_place root;
  const json_place at{&root, key};
  if (key == "name") {
    if (auto name = read_text(errors, at, value, longest_name); name && *name == "admin")
      errors.add(at, "must be another name than that of the admin token");
    else if (name && is_plain_name(*name, "._-/@: "))
      token.name = *std::move(name);
    else if (name)
      errors.add(at, "must be letters, digits or . _ - / @ : and begin with a letter or digit");
  } else if (key == "scopes") {
    token.scopes = read_scopes(errors, at, value);
  } else if (key == "expires_at") {
    if (value.is_null())
      return;
    const auto text = read_text(errors, at, value, longest_name);
    token.expires_at = text ? parse_rfc3339(*text) : std::nullopt;
    if (text && (!token.expires_at || *token.expires_at <= now))
      errors.add(at, "must be a time ahead, as 2026-01-31T12:00:00Z");
  } else if (key == "rate_limit") {
    if (value.is_null())
      return;
    if (const auto limit = read_whole(errors, at, value, 1, highest_rate))
      token.rate_limit = static_cast<std::int32_t>(*limit);
  } else {
    errors.add(at, "is not a field of a token");
  }
}

expected<new_token> read_token(const json& document, timestamp now) {
  json_errors errors;
  const json_place root;
  new_token token;
  if (!document.is_object()) {
    errors.add(root, "must be an object");
    return std::move(errors).to_error();
  }
  for (const auto& [key, value] : document.items())
    read_token_field(errors, token, key, value, now);
  for (const auto* needed : {"name", "scopes"})
    if (!document.contains(needed))
      errors.add({&root, needed}, "is missing");
  if (!errors.empty())
    return std::move(errors).to_error();
  return token;
}

/// Writes one line about one request, whether or not it was answered.
class audit_note {
public:
  audit_note(const http::request& ask, const std::string& target, std::string who)
    : line_{std::move(who) + " from " + ask.remote_address + ": " + ask.method + " " + target} {}
  ~audit_note() {
    if (!written_)
      write("not answered");
  }
  audit_note(const audit_note&) = delete;
  audit_note& operator=(const audit_note&) = delete;

  void write(std::string_view outcome) {
    written_ = true;
    spdlog::info("audit: {} -> {}", line_, outcome);
  }

private:
  std::string line_;
  bool written_ = false;
};

/// Workers elsewhere send these every few seconds, and they change nothing that anybody would ask about later.
bool is_sign_of_life(http::api_call call) noexcept {
  using http::api_call;
  return call == api_call::renew_claim || call == api_call::renew_claims || call == api_call::put_claim_log;
}

/// The target as it came, but of a claim's token only the job and the attempt: who has the rest can end the job.
std::string audited_target(const http::request& ask, const http::route& where, const std::string& name) {
  if (where.path.find("{token}") == std::string_view::npos)
    return ask.target;
  const auto at = ask.target.find(name);
  const auto dot = name.rfind('.');
  if (at == std::string::npos || dot == std::string::npos)
    return std::string{where.path};
  return ask.target.substr(0, at + dot + 1) + "*" + ask.target.substr(at + name.size());
}

} // namespace

// -- every request ----------------------------------------------------------------------------------------------------

void http_bridge::note_answer(const call& ask, const http::route& where) {
  // Commits come after the answer was made here, so the answer is what is told.
  auto fields = settings_.tokens->rate_fields(ask.who().token);
  const bool audited = where.method != "GET" && !is_sign_of_life(where.call);
  const bool packed = http::accepts_gzip(ask.request().headers.find("Accept-Encoding").value_or(""));
  if (!audited && !packed && fields.size() == 0)
    return;
  std::shared_ptr<audit_note> note;
  if (audited)
    note = std::make_shared<audit_note>(ask.request(), audited_target(ask.request(), where, ask.name), ask.who().name);
  ask.exchange->respond = [inner = std::move(ask.exchange->respond), note, packed,
                           fields = std::move(fields)](http::response answer) {
    if (packed)
      http::compress(answer);
    for (std::size_t i = 0; i < fields.size(); ++i)
      answer.headers.set(fields.at(i).name, fields.at(i).value);
    const auto status = answer.status;
    const auto first = inner(std::move(answer));
    if (note && first)
      note->write(std::to_string(status));
    return first;
  };
}

void http_bridge::note_use(const call& ask) {
  if (ask.who().token == 0 || uses_pending_)
    return;
  uses_pending_ = true;
  delayed_anon_send(http_bridge_actor{this}, uses_pause, expire_atom_v, write_uses_id);
}

void http_bridge::write_uses() {
  uses_pending_ = false;
  // Lost if it fails: it is coarse anyway.
  if (auto uses = settings_.tokens->take_uses(); !uses.empty() && peers_.database)
    request(peers_.database, settings_.write_timeout, token_atom_v, std::move(uses))
      .then([](const outcome&) {}, [](const caf::error&) {});
}

// -- tokens -----------------------------------------------------------------------------------------------------------

void http_bridge::create_token(const call& ask) {
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  auto token = read_token(std::get<json>(body), settings_.clock());
  if (!token)
    return ask.answer(token.error());
  const auto secret = "kcx_" + http::make_token();
  token->digest = http::token_digest(secret);
  token->created_by = ask.who().name;
  write<token_record>(
    peers_.database,
    [this, ask, secret](expected<token_record> made) {
      if (!made)
        return ask.answer(made.error());
      settings_.tokens->add(*made);
      auto document = token_document(*made);
      document["token"] = secret;
      auto answer = http::json_response(201, http::json_text(document));
      answer.headers.add("Location", "/v1/tokens/" + std::to_string(made->id));
      answer.headers.add("Cache-Control", "no-store");
      ask.answer(std::move(answer));
    },
    token_atom_v, *token);
}

void http_bridge::list_tokens(const call& ask) {
  write_uses();
  read<std::vector<token_record>>(
    [ask](expected<std::vector<token_record>> tokens) {
      if (!tokens)
        return ask.answer(tokens.error());
      auto items = json::array();
      for (const auto& each : *tokens)
        items.push_back(token_document(each));
      ask.answer_json(200, {{"items", std::move(items)}});
    },
    token_atom_v);
}

void http_bridge::revoke_token(const call& ask) {
  const auto id = ask.job.value;
  write<kcx::done>(
    peers_.database,
    [this, ask, id](outcome gone) {
      // Where nobody knows whether it is stored, and where it is gone since, the token is refused all the same.
      if (gone || gone.error().code == ec::not_found || gone.error().code == ec::outcome_unknown) {
        settings_.tokens->remove(id);
        end_open_calls();
      }
      if (!gone)
        return ask.answer(gone.error());
      http::response answer;
      answer.status = 204;
      ask.answer(std::move(answer));
    },
    revoke_atom_v, id);
}

void http_bridge::end_open_calls() {
  const auto& tokens = *settings_.tokens;
  std::erase_if(feeds_, [&](const auto& open) {
    const bool over = tokens.ended(open.second.who).has_value();
    if (const auto body = open.second.body.lock(); body && over)
      body->fail();
    return over;
  });
  std::vector<follower_id> over;
  for (const auto& [id, each] : followers_)
    if (tokens.ended(each.who))
      over.push_back(id);
  for (const auto id : over) {
    if (const auto body = followers_.at(id).body.lock())
      body->fail();
    forget_follower(id);
  }
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const auto here = at++;
    if (const auto why = tokens.ended(here->second.ask.who()))
      take_waiter(here).answer(*why);
  }
  // The dispatcher still knows them: what it grants them goes back, as with a client that is gone.
  std::erase_if(claims_, [&](const auto& open) {
    const auto why = tokens.ended(open.second.who());
    if (why)
      open.second.answer(*why);
    return why.has_value();
  });
}

// -- browser sessions -------------------------------------------------------------------------------------------------

void http_bridge::begin_session(const call& ask) {
  const auto cookie = settings_.tokens->begin_session(ask.who());
  if (!cookie)
    return ask.answer(cookie.error());
  http::response answer;
  answer.status = 204;
  answer.headers.add("Set-Cookie", *cookie);
  answer.headers.add("Cache-Control", "no-store");
  ask.answer(std::move(answer));
}

void http_bridge::end_session(const call& ask) {
  http::response answer;
  answer.status = 204;
  answer.headers.add("Set-Cookie", settings_.tokens->end_session(ask.request()));
  ask.answer(std::move(answer));
  end_open_calls();
}

void http_bridge::make_session_code(const call& ask) {
  const auto made = settings_.tokens->make_code(ask.who());
  const nlohmann::json document{{"code", made.text}, {"expires_at", to_rfc3339(made.expires_at)}};
  auto answer = http::json_response(201, http::json_text(document));
  answer.headers.add("Cache-Control", "no-store");
  ask.answer(std::move(answer));
}

} // namespace kcx
