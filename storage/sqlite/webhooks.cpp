// The part of the store that keeps webhooks and their outbox. Deliveries are written by a trigger (migrations.cpp).
#include "storage/sqlite/sqlite_store.hpp"

namespace kcx::sqlite {

namespace {

std::string list_of(const std::vector<job_state>& states) {
  std::string text = ",";
  for (const auto state : states)
    text += std::string{to_string(state)} + ",";
  return text;
}

} // namespace

void sqlite_store::insert_webhook(const std::optional<std::string>& project, std::optional<job_id> job,
                                  const webhook_spec& hook, timestamp now) {
  db_->use(sql::put_webhook)
    .bind(project, job, hook.url, hook.secret.empty() ? std::nullopt : std::optional{hook.secret}, list_of(hook.events),
          now)
    .run();
}

outcome sqlite_store::put_webhook(const std::string& project, const webhook_spec& hook, timestamp now) {
  return write(parts::one, [&]() -> outcome {
    insert_webhook(project, {}, hook, now);
    return done{};
  });
}

outcome sqlite_store::remove_webhook(const std::string& project) {
  return write(parts::one, [&]() -> outcome {
    if (db_->use(sql::remove_webhook).bind(project).run() == 0)
      return error{ec::not_found, "project " + project + " has no webhook", {}};
    return done{};
  });
}

outcome sqlite_store::note_delivery(const delivery_try& tried) {
  return write(parts::several, [&]() -> outcome {
    db_->use(sql::note_delivery)
      .bind(tried.id, to_string(tried.state), tried.at, tried.status, tried.failure, tried.next_at, tried.tries)
      .run();
    db_->use(sql::forget_delivery).bind(tried.id).run();
    return done{};
  });
}

outcome sqlite_store::redeliver(std::int64_t id, timestamp now) {
  return write(parts::one, [&]() -> outcome {
    if (db_->use(sql::redeliver).bind(id, now).run() == 0)
      return error{ec::not_found, "there is no delivery " + std::to_string(id), {}};
    return done{};
  });
}

} // namespace kcx::sqlite
