// The part of the store that takes jobs in.
#include "storage/job_json.hpp"
#include "storage/job_needs.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_store.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace kcx::sqlite {

namespace {

/// Whether the job's end can be stored without a look at its spec: judge() decides the same with a default one.
bool is_plain(const job_spec& spec) {
  return spec.max_attempts == 1 && spec.on_interrupt == interrupt_policy::fail && spec.steps.empty() &&
         spec.secrets.empty();
}

std::optional<std::string> secret_names(const job_spec& spec) {
  if (spec.secrets.empty())
    return std::nullopt;
  auto names = nlohmann::json::array();
  for (const auto& [name, value] : spec.secrets)
    names.push_back(name);
  return names.dump();
}

} // namespace

job_record sqlite_store::insert_one(const job_spec& spec, timestamp now, std::optional<job_id> retry_of, readiness is) {
  const auto later = spec.run_at && *spec.run_at > now;
  job_record job;
  job.spec = spec;
  job.spec.secrets.clear();
  if (job.spec.webhook)
    job.spec.webhook->secret.clear();
  job.state = is == readiness::blocked ? job_state::blocked : later ? job_state::scheduled : job_state::queued;
  job.created_at = now;
  job.run_at = spec.run_at;
  if (job.state == job_state::queued)
    job.queued_at = now;
  job.order_key = order_key(later ? *spec.run_at : now, spec.priority, options_.ageing_step);
  job.retry_of = retry_of;
  std::optional<timestamp> wait_until;
  if (spec.wait_limit)
    wait_until = (later ? *spec.run_at : now) + *spec.wait_limit;
  db_->use(sql::insert_job)
    .bind(to_string(job.state), spec.name, spec.project, spec.queue, labels_text(spec.labels), job.order_key,
          spec.weight, is_plain(spec), now, job.queued_at, job.run_at, retry_of, wait_until,
          spec.unique_key.empty() ? std::nullopt : std::optional{spec.unique_key},
          spec.group.empty() ? std::nullopt : std::optional{spec.group}, spec.group_limit)
    .run();
  job.id = job_id{db_->last_id()};
  db_->use(sql::insert_spec).bind(job.id, to_stored_json(spec).dump(), secret_names(spec)).run();
  if (!spec.secrets.empty())
    db_->use(sql::insert_secrets).bind(job.id, nlohmann::json(spec.secrets).dump()).run();
  if (spec.webhook)
    insert_webhook({}, job.id, *spec.webhook, now);
  job.steps = read_steps(*db_, job);
  return job;
}

job_record sqlite_store::stored_job(job_id id) {
  auto row = db_->use(sql::select_job);
  if (!row.bind(id).step())
    throw bad_value{"a job of an index is missing"};
  auto job = read_job(row);
  job.steps = read_steps(*db_, job);
  return job;
}

// -- unique keys ------------------------------------------------------------------------------------------------------

std::optional<job_id> sqlite_store::holder_of_key(const std::string& key) {
  if (key.empty())
    return std::nullopt;
  auto row = db_->use(sql::select_by_key);
  return row.bind(key).step() ? std::optional{job_id{row.integer(0)}} : std::nullopt;
}

expected<std::optional<job_record>> sqlite_store::meet_key(const job_spec& spec, const std::string& at, timestamp now,
                                                           accepted_jobs& accepted) {
  const auto holder = holder_of_key(spec.unique_key);
  if (!holder)
    return std::optional<job_record>{};
  if (spec.on_conflict == conflict_policy::give_existing)
    return std::optional{stored_job(*holder)};
  if (spec.on_conflict == conflict_policy::reject) {
    // One of the same request is not stored either: its number would be that of another job.
    const auto same = std::find_if(accepted.jobs.begin(), accepted.jobs.end(),
                                   [&](const job_record& job) { return job.id == *holder && accepted.is_new(job.id); });
    const auto name = same == accepted.jobs.end() ? "job " + std::to_string(holder->value)
                                                  : "/" + std::to_string(same - accepted.jobs.begin());
    const auto what = same == accepted.jobs.end() ? name + " has this unique key and has not ended"
                                                  : "two jobs of this request have the same unique key";
    return error{ec::conflict, what, {{at + "/unique_key", "is that of " + name}}};
  }
  replace({*holder}, now, accepted);
  return std::optional<job_record>{};
}

void sqlite_store::replace(const std::vector<job_id>& holders, timestamp now, accepted_jobs& accepted) {
  cancel_several(holders, "replaced by a newer job with its unique key", now, accepted);
  auto list = nlohmann::json::array();
  for (const auto each : holders)
    list.push_back(each.value);
  db_->use(sql::give_keys_away).bind(list.dump()).run();
}

void sqlite_store::replace_holders(const std::vector<job_spec>& specs, timestamp now, accepted_jobs& accepted) {
  std::unordered_set<std::string_view> seen;
  std::vector<job_id> holders;
  for (const auto& spec : specs) {
    // The first one of a key decides about its holder: it may be given back, or refuse all.
    if (spec.unique_key.empty() || !seen.insert(spec.unique_key).second || spec.on_conflict != conflict_policy::replace)
      continue;
    if (const auto holder = holder_of_key(spec.unique_key))
      holders.push_back(*holder);
  }
  if (!holders.empty())
    replace(holders, now, accepted);
}

std::vector<job_need> sqlite_store::predecessors(const job_spec& spec) {
  std::vector<job_need> held;
  if (spec.unique_key.empty())
    return held;
  auto rows = db_->use(sql::select_held_by_key);
  rows.bind(spec.unique_key);
  while (rows.step())
    held.push_back({job_id{rows.integer(0)}, {}, need_condition::always});
  return held;
}

// -- answering again --------------------------------------------------------------------------------------------------

expected<std::optional<accepted_jobs>> sqlite_store::answer_again(const idempotency_key& once, timestamp now) {
  auto row = db_->use(sql::select_answer);
  if (!row.bind(once.owner, once.key).step() || row.time(1) + answers_kept <= now)
    return std::optional<accepted_jobs>{};
  if (row.text(0) != once.digest)
    return error{ec::idempotency_conflict,
                 "this idempotency key was used for another submission; send another body with a new key",
                 {}};
  accepted_jobs accepted;
  accepted.answer = {row.number(2), row.text(3), row.text(4)};
  accepted.repeated = true;
  return std::optional{std::move(accepted)};
}

expected<std::optional<accepted_jobs>> sqlite_store::submitted_before(const idempotency_key& once, timestamp now) {
  if (unusable_)
    return *unusable_;
  try {
    return answer_again(once, now);
  } catch (...) {
    return failed();
  }
}

void sqlite_store::keep_answer(const idempotency_key& once, timestamp now, accepted_jobs& accepted) {
  accepted.answer = once.answer(accepted);
  db_->use(sql::put_answer)
    .bind(once.owner, once.key, once.digest, now, accepted.answer->status, accepted.answer->location,
          accepted.answer->body)
    .run();
}

std::optional<timestamp> sqlite_store::forget_answers(timestamp now) {
  // Few at a time: the answer to 10,000 jobs is megabytes.
  constexpr auto round = std::int64_t{20};
  db_->use(sql::forget_answers).bind(now - answers_kept, round).run();
  auto row = db_->use(sql::select_oldest_answer);
  const auto oldest = row.step() ? row.optional_time(0) : std::nullopt;
  return oldest ? std::optional{*oldest + answers_kept} : std::nullopt;
}

// -- submitting -------------------------------------------------------------------------------------------------------

void sqlite_store::refresh(accepted_jobs& accepted) {
  // Jobs of an array can end at the hands of later ones.
  std::unordered_set<std::int64_t> moved;
  for (const auto& other : accepted.others)
    moved.insert(other.change.id.value);
  for (auto& job : accepted.jobs)
    if (moved.contains(job.id.value))
      job = stored_job(job.id);
}

void sqlite_store::repeat_jobs(accepted_jobs& accepted) {
  // A job of an array that was given for a later one of its unique key stands there twice.
  std::unordered_map<std::int64_t, std::size_t> first;
  for (std::size_t i = 0; i < accepted.jobs.size(); ++i)
    if (const auto [known, fresh] = first.emplace(accepted.jobs[i].id.value, i); !fresh)
      accepted.jobs[i] = accepted.jobs[known->second];
}

expected<accepted_jobs> sqlite_store::submit(const submission& asked, timestamp now) {
  return write(parts::several, [&]() -> expected<accepted_jobs> {
    accepted_jobs accepted;
    if (asked.once) {
      auto again = answer_again(*asked.once, now);
      if (!again)
        return std::move(again).error();
      if (*again)
        return std::move(**again);
    }
    if (auto fit = check_refs(asked.specs, asked.several); !fit)
      return std::move(fit).error();
    std::int64_t highest = 0;
    if (auto row = db_->use(sql::select_highest_id); row.step())
      highest = row.integer(0);
    replace_holders(asked.specs, now, accepted);
    accepted.jobs.reserve(asked.specs.size());
    for (std::size_t i = 0; i < asked.specs.size(); ++i) {
      const auto& spec = asked.specs[i];
      auto existing = meet_key(spec, asked.several ? "/" + std::to_string(i) : "", now, accepted);
      if (!existing)
        return std::move(existing).error();
      if (*existing && (*existing)->id.value <= highest)
        accepted.existing.push_back((*existing)->id);
      const auto blocked = !*existing && (!spec.needs.empty() || !predecessors(spec).empty());
      accepted.jobs.push_back(*existing ? std::move(**existing)
                                        : insert_one(spec, now, {}, blocked ? readiness::blocked : readiness::open));
      if (!existing->has_value())
        supersede(accepted.jobs.back(), now, accepted);
    }
    refresh(accepted);
    if (auto linked = link_needs(asked, accepted, highest, now); !linked)
      return std::move(linked).error();
    repeat_jobs(accepted);
    if (asked.once)
      keep_answer(*asked.once, now, accepted);
    return accepted;
  });
}

} // namespace kcx::sqlite
