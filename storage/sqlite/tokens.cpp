// The part of the store that keeps the API's tokens.
#include "storage/sqlite/sqlite_store.hpp"

#include <nlohmann/json.hpp>

namespace kcx::sqlite {

expected<token_record> sqlite_store::add_token(const new_token& token, timestamp now) {
  return write(parts::one, [&]() -> expected<token_record> {
    {
      auto row = db_->use(sql::count_token_name);
      if (row.bind(token.name).step() && row.integer(0) > 0)
        return error{ec::conflict, "a token named \"" + token.name + "\" exists", {}};
    }
    db_->use(sql::insert_token)
      .bind(token.name, token.digest, nlohmann::json(token.scopes).dump(), now, token.created_by, token.expires_at,
            token.rate_limit)
      .run();
    return token_record{db_->last_id(), token, now, {}};
  });
}

outcome sqlite_store::remove_token(std::int64_t id) {
  return write(parts::one, [&]() -> outcome {
    if (db_->use(sql::remove_token).bind(id).run() == 0)
      return error{ec::not_found, "there is no token " + std::to_string(id), {}};
    return done{};
  });
}

outcome sqlite_store::touch_tokens(const token_uses& uses) {
  return write(parts::several, [&]() -> outcome {
    for (const auto& [id, at] : uses)
      db_->use(sql::touch_token).bind(id, at).run();
    return done{};
  });
}

} // namespace kcx::sqlite
