#include "actors/reader.hpp"

namespace kcx {

namespace {

/// Deliveries per answer: more than are sent at the same time, so that a slow receiver does not hide the others.
constexpr std::size_t due_at_once = 200;
/// More than are on their way to one receiver at a time: those are among them.
constexpr std::size_t due_to_one = 16;

} // namespace

reader::reader(caf::actor_config& cfg, std::unique_ptr<job_reader> source, log_lookup log_of)
  : actor_base{cfg, "reader"}, source_{std::move(source)}, log_of_{std::move(log_of)} {}

reader::behavior_type reader::make_behavior() {
  return {
    [this](get_atom, job_id job) { return get(job); },
    [this](list_atom, const job_filter& filter) { return source_->jobs(filter); },
    [this](log_atom, job_id job, std::int32_t attempt) { return locate_log(job, attempt); },
    [this](events_atom, const event_filter& filter) { return source_->events(filter); },
    [this](token_atom) { return source_->tokens(); },
    [this](webhook_atom) { return source_->webhooks(); },
    [this](deliver_atom, timestamp now) { return source_->due(now, due_at_once, due_to_one); },
    [this](deliver_atom, const delivery_filter& filter) { return source_->deliveries(filter); },
    [this](stats_atom) { return source_->stats(); },
    [this](queues_atom) { return source_->queues(); },
    [this](queues_atom, const std::string& name) { return source_->queue(name); },
    [this](why_atom, job_id job) { return source_->blockers(job); },
    [](status_atom) { return actor_status::object(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

expected<job_record> reader::get(job_id id) {
  auto job = source_->job(id);
  // Its row learns the length of its log at its end only.
  if (job && is_held(job->state) && log_of_) {
    if (const auto log = log_of_({id, job->attempt}))
      job->log = *log;
  }
  return job;
}

expected<log_location> reader::locate_log(job_id job, std::int32_t attempt) {
  auto found = source_->log_of(job, attempt);
  if (!found)
    return std::move(found).error();
  const auto& [key, log] = *found;
  return log_location{key, log, log.bytes >= 0};
}

} // namespace kcx
