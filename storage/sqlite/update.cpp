// The part of the store that changes jobs while they wait.
#include "storage/job_json.hpp"
#include "storage/sqlite/rows.hpp"
#include "storage/sqlite/sqlite_store.hpp"

namespace kcx::sqlite {

namespace {

/// Its place after a change: the old one moved by the priority, or a new one where its time changed.
std::int64_t new_key(const hot_row& row, const job_spec& before, const job_spec& after,
                     const std::optional<timestamp>& ready_at, std::chrono::milliseconds ageing_step) {
  if (ready_at)
    return order_key(*ready_at, after.priority, ageing_step);
  const auto ready = timestamp{std::chrono::milliseconds{row.ready.order_key} + before.priority * ageing_step};
  return order_key(ready, after.priority, ageing_step);
}

} // namespace

expected<job_spec> sqlite_store::load_spec(job_id id) {
  auto stored = db_->use(sql::select_spec);
  auto spec = from_stored_json(stored.bind(id).step() ? stored.text(0) : std::string{});
  if (!spec)
    return error{ec::conflict,
                 "job " + std::to_string(id.value) + " cannot be used any more: " + spec.error().message +
                   "; submit it anew",
                 {}};
  return spec;
}

job_state sqlite_store::reschedule(const hot_row& row, bool later, timestamp now) {
  if (row.state == job_state::queued && later) {
    db_->use(sql::postpone_if_queued).bind(row.id, now).run();
    return job_state::scheduled;
  }
  if (row.state == job_state::scheduled && !later) {
    db_->use(sql::queue_if_scheduled).bind(row.id, now).run();
    return job_state::queued;
  }
  return row.state;
}

expected<transition_result> sqlite_store::update(job_id id, const job_patch& patch, timestamp now) {
  return write(parts::several, [&]() -> expected<transition_result> {
    const auto row = load(id);
    if (!row)
      return row.error();
    if (is_held(row->state) || is_final(row->state))
      return error{ec::conflict,
                   "job " + std::to_string(id.value) + " no longer waits: it is " + std::string{to_string(row->state)},
                   {}};
    const auto stored = load_spec(id);
    if (!stored)
      return stored.error();
    const auto& before = *stored;
    auto spec = before;
    spec.priority = patch.priority.value_or(before.priority);
    spec.labels = patch.labels.value_or(before.labels);
    std::optional<timestamp> ready_at;
    if (patch.run_at) {
      spec.run_at = *patch.run_at;
      ready_at = spec.run_at && *spec.run_at > now ? *spec.run_at : now;
    }
    const bool later = ready_at && *ready_at > now;
    const auto run_at = later || row->state != job_state::scheduled ? spec.run_at : std::optional{now};
    const auto key = new_key(*row, before, spec, ready_at, options_.ageing_step);
    std::optional<timestamp> wait_until;
    if (ready_at && spec.wait_limit) // of no effect once it has started
      wait_until = *ready_at + *spec.wait_limit;
    db_->use(sql::update_if_waiting)
      .bind(id, key, labels_text(spec.labels), run_at, wait_until, patch.run_at.has_value(), later)
      .run();
    db_->use(sql::update_spec).bind(id, to_stored_json(spec).dump()).run();
    const auto state = ready_at ? reschedule(*row, later, now) : row->state;
    transition_result answer;
    answer.change = {id, state, row->reason, row->attempt, row->worker, now, true};
    if (state == job_state::queued && !row->grouped) {
      answer.ready = row->ready;
      answer.ready->order_key = key;
      answer.ready->labels = spec.labels;
    }
    return answer;
  });
}

} // namespace kcx::sqlite
