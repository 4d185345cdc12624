#include "actors/http/api/token_table.hpp"

#include "actors/http/message/auth.hpp"
#include "actors/http/message/problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kcx::http {

namespace {

/// Sessions, and codes, of one token. More are the work of a program that should use the token itself.
constexpr std::ptrdiff_t most_passes = 1'000;

constexpr std::uint32_t bit(scope which) noexcept {
  return 1U << static_cast<unsigned>(which);
}

/// The value of the cookie of that name in a Cookie header (RFC 6265 §4.2).
std::optional<std::string_view> cookie_value(const request& ask, std::string_view cookie_name) {
  auto rest = ask.headers.find("Cookie").value_or("");
  while (!rest.empty()) {
    const auto pair = trimmed(rest.substr(0, rest.find(';')));
    rest.remove_prefix(
      std::min(rest.size(), rest.find(';') == std::string_view::npos ? rest.size() : rest.find(';') + 1));
    if (pair.substr(0, pair.find('=')) == cookie_name && pair.size() > cookie_name.size() + 1)
      return pair.substr(cookie_name.size() + 1);
  }
  return std::nullopt;
}

std::string set_cookie(std::string_view name, std::string_view value, std::chrono::seconds age, bool secure) {
  return std::string{name} + "=" + std::string{value} +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(age.count()) + (secure ? "; Secure" : "");
}

std::int64_t rounded_up(double value) {
  return static_cast<std::int64_t>(std::ceil(std::max(0.0, value)));
}

} // namespace

const std::vector<scope>& token_scopes() {
  static const std::vector<scope> all{scope::read, scope::submit, scope::work, scope::cancel, scope::admin};
  return all;
}

std::optional<scope> parse_scope(std::string_view text) noexcept {
  for (const auto each : {scope::read, scope::submit, scope::work, scope::cancel, scope::admin})
    if (to_string(each) == text)
      return each;
  return std::nullopt;
}

token_table::token_table(options what)
  : options_{std::move(what)}, cookie_name_{"kcx_session_" + token_digest(options_.admin_digest).substr(0, 8)} {}

// -- what there is ----------------------------------------------------------------------------------------------------

void token_table::add(const token_record& token) {
  entry made;
  made.token = token;
  for (const auto& name : token.what.scopes)
    if (const auto which = parse_scope(name))
      made.scopes |= bit(*which);
  made.left = limit_of(made);
  made.refilled = options_.clock();
  const std::lock_guard lock{mutex_};
  by_digest_[token.what.digest] = token.id;
  tokens_[token.id] = std::move(made);
}

void token_table::remove(std::int64_t id) {
  const std::lock_guard lock{mutex_};
  const auto at = tokens_.find(id);
  if (at == tokens_.end())
    return;
  by_digest_.erase(at->second.token.what.digest);
  tokens_.erase(at);
  for (auto* all : {&sessions_, &codes_})
    std::erase_if(*all, [id](const auto& each) { return each.second.token == id; });
}

std::vector<token_record> token_table::list() const {
  const std::lock_guard lock{mutex_};
  std::vector<token_record> all;
  for (const auto& [id, each] : tokens_)
    all.push_back(each.token);
  return all;
}

token_uses token_table::take_uses() {
  const std::lock_guard lock{mutex_};
  const auto taken = std::exchange(uses_, {});
  return {taken.begin(), taken.end()};
}

// -- checking ---------------------------------------------------------------------------------------------------------

std::optional<caller> token_table::identify_session(const request& ask) const {
  const auto value = cookie_value(ask, cookie_name_);
  if (!value)
    return std::nullopt;
  const auto at = sessions_.find(token_digest(*value));
  if (at == sessions_.end() || at->second.ends <= options_.clock())
    return std::nullopt;
  return caller{at->second.token, {}, at->first, {}};
}

std::optional<caller> token_table::identify_code(const std::string& digest) const {
  const auto at = codes_.find(digest);
  if (at == codes_.end() || at->second.ends <= options_.clock())
    return std::nullopt;
  return caller{at->second.token, {}, {}, digest};
}

std::optional<caller> token_table::identify(const request& ask, bool begins_session, std::string& why) const {
  const auto header = ask.headers.find("Authorization");
  if (!header) {
    auto who = identify_session(ask);
    why = !who && cookie_value(ask, cookie_name_)
            ? "the session of this cookie is over or unknown: begin another one, or send Authorization: Bearer <token>"
            : "this call needs the header Authorization: Bearer <token>";
    return who;
  }
  why = "more than one Authorization header";
  if (ask.headers.count("Authorization") > 1)
    return std::nullopt;
  why = "the Authorization header is not of the form: Bearer <token>";
  const auto token = bearer_token(*header);
  if (!token)
    return std::nullopt;
  why = begins_session ? "the token or one-time code is not valid; a code works once, for a minute: make another one"
                       : "the token is not valid; the admin token is in the data directory's admin.token";
  // By digest: how long a look-up takes tells nothing about a token that has another one.
  const auto digest = token_digest(*token);
  if (!options_.admin_digest.empty() && constant_time_equal(digest, options_.admin_digest))
    return caller{};
  const auto at = by_digest_.find(digest);
  if (at == by_digest_.end() || !constant_time_equal(digest, at->first))
    return begins_session ? identify_code(digest) : std::nullopt;
  return caller{at->second};
}

bool token_table::has_expired(const entry& each) const {
  return each.token.what.expires_at && *each.token.what.expires_at <= options_.clock();
}

std::variant<caller, response> token_table::check(const request& ask, const route* where) const {
  if (where != nullptr && where->needs == scope::none)
    return caller{};
  const std::lock_guard lock{mutex_};
  std::string why;
  auto who = identify(ask, where != nullptr && where->call == api_call::begin_session, why);
  if (!who)
    return problem(ec::unauthorized, why);
  if (!who->session.empty() && where != nullptr &&
      (where->call == api_call::begin_session || where->call == api_call::make_session_code))
    return problem(ec::forbidden,
                   "a session begins no other, nor makes it a code: send the token, so that signing out and "
                   "its 12 hours end all that came of it");
  who->name = "admin";
  if (who->token == 0)
    return *std::move(who);
  const auto& each = tokens_.at(who->token);
  who->name = each.token.what.name;
  if (has_expired(each))
    return problem(ec::unauthorized, "the token \"" + each.token.what.name + "\" has expired");
  const auto allowed = each.scopes | ((each.scopes & bit(scope::admin)) != 0 ? ~0U : 0U);
  if (where != nullptr && (allowed & bit(where->needs)) == 0)
    return problem(ec::forbidden, "the token \"" + each.token.what.name + "\" lacks the scope " +
                                    std::string{to_string(where->needs)});
  uses_[who->token] = options_.clock();
  return *std::move(who);
}

std::optional<error> token_table::ended(const caller& who) const {
  const std::lock_guard lock{mutex_};
  if (!who.session.empty()) {
    const auto at = sessions_.find(who.session);
    if (at == sessions_.end() || at->second.ends <= options_.clock())
      return error{ec::unauthorized, "the session that this call came with has ended", {}};
  }
  if (who.token == 0)
    return std::nullopt;
  const auto at = tokens_.find(who.token);
  if (at != tokens_.end() && !has_expired(at->second))
    return std::nullopt;
  const auto* how = at == tokens_.end() ? "\" was revoked" : "\" has expired";
  return error{ec::unauthorized, "the token \"" + who.name + how + " since this call began", {}};
}

std::int32_t token_table::limit_of(const entry& each) const {
  return each.token.what.rate_limit.value_or(options_.rate_limit);
}

void token_table::refill(entry& each, timestamp now) const {
  const auto limit = static_cast<double>(limit_of(each));
  // A clock that was set back refills nothing, and goes on from there.
  const auto passed = std::max(std::chrono::milliseconds{0}, now - each.refilled);
  each.left = std::min(limit, each.left + limit * static_cast<double>(passed.count()) / 60'000.0);
  each.refilled = now;
}

admission token_table::admit(const request& ask, std::span<const route> routes) {
  const auto where = find_route(ask.method, ask.path, routes);
  auto verdict = check(ask, where.found);
  if (auto* refusal = std::get_if<response>(&verdict))
    return {std::move(*refusal), std::nullopt};
  const auto& who = std::get<caller>(verdict);
  const std::lock_guard lock{mutex_};
  const auto at = tokens_.find(who.token);
  if (at == tokens_.end() || limit_of(at->second) == 0)
    return {};
  auto& each = at->second;
  refill(each, options_.clock());
  if (each.left >= 1) {
    each.left -= 1;
    return {};
  }
  const auto seconds = rounded_up((1 - each.left) * 60 / limit_of(each));
  auto refusal = problem(kinds::rate_limited, "the token \"" + who.name + "\" may send " +
                                                std::to_string(limit_of(each)) + " requests a minute");
  refusal.headers.set("Retry-After", std::to_string(seconds));
  refusal.headers.set("RateLimit-Limit", std::to_string(limit_of(each)));
  refusal.headers.set("RateLimit-Remaining", "0");
  refusal.headers.set("RateLimit-Reset", std::to_string(seconds));
  return {std::move(refusal), std::nullopt};
}

header_fields token_table::rate_fields(std::int64_t token) const {
  header_fields fields;
  const std::lock_guard lock{mutex_};
  const auto at = tokens_.find(token);
  if (at == tokens_.end() || limit_of(at->second) == 0)
    return fields;
  const auto& each = at->second;
  const auto limit = limit_of(each);
  fields.add("RateLimit-Limit", std::to_string(limit));
  fields.add("RateLimit-Remaining", std::to_string(static_cast<std::int64_t>(each.left)));
  fields.add("RateLimit-Reset", std::to_string(rounded_up((limit - each.left) * 60 / limit)));
  return fields;
}

// -- browser sessions -------------------------------------------------------------------------------------------------

void token_table::add_pass(passes& to, const std::string& text, const caller& who, timestamp ends) const {
  std::erase_if(to, [now = options_.clock()](const auto& each) { return each.second.ends <= now; });
  const auto same = [&who](const auto& each) { return each.second.token == who.token; };
  if (std::ranges::count_if(to, same) >= most_passes)
    to.erase(std::min_element(to.begin(), to.end(), [&same](const auto& a, const auto& b) {
      return std::pair{!same(a), a.second.ends} < std::pair{!same(b), b.second.ends};
    }));
  to[token_digest(text)] = {who.token, ends};
}

token_table::one_time_code token_table::make_code(const caller& who) {
  one_time_code made{"kcx_code_" + make_token(), options_.clock() + options_.code_time};
  const std::lock_guard lock{mutex_};
  add_pass(codes_, made.text, who, made.expires_at);
  return made;
}

expected<std::string> token_table::begin_session(const caller& who) {
  const auto value = make_token();
  const std::lock_guard lock{mutex_};
  if (!who.code.empty() && codes_.erase(who.code) == 0)
    return error{ec::unauthorized, "the one-time code was used already; make another one", {}};
  add_pass(sessions_, value, who, options_.clock() + options_.session_time);
  return set_cookie(cookie_name_, value, std::chrono::duration_cast<std::chrono::seconds>(options_.session_time),
                    options_.secure);
}

std::string token_table::end_session(const request& ask) {
  const std::lock_guard lock{mutex_};
  if (const auto value = cookie_value(ask, cookie_name_))
    sessions_.erase(token_digest(*value));
  return set_cookie(cookie_name_, "", std::chrono::seconds{0}, options_.secure);
}

} // namespace kcx::http
