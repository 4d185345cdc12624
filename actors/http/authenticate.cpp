#include "actors/http/authenticate.hpp"

#include "actors/http/auth.hpp"
#include "actors/http/problem.hpp"
#include "actors/http/routes.hpp"

namespace kcx::http {

std::optional<response> token_check::refuse(const request& ask) const {
  const auto where = find_route(ask.method, ask.path);
  if (where.found != nullptr && where.found->needs == scope::none)
    return std::nullopt;
  const auto header = ask.headers.find("Authorization");
  if (!header)
    return problem(ec::unauthorized, "this call needs the header Authorization: Bearer <token>");
  if (ask.headers.count("Authorization") > 1)
    return problem(ec::unauthorized, "more than one Authorization header");
  const auto token = bearer_token(*header);
  if (!token)
    return problem(ec::unauthorized, "the Authorization header is not of the form: Bearer <token>");
  if (digest_.empty() || !constant_time_equal(token_digest(*token), digest_))
    return problem(ec::unauthorized, "the token is not valid; the admin token is in the data directory's admin.token");
  return std::nullopt;
}

} // namespace kcx::http
