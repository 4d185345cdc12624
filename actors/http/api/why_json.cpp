#include "actors/http/api/why_json.hpp"

#include <algorithm>
#include <string>

namespace kcx::http {

namespace {

using nlohmann::json;

json document_of(const job_record& job, json reasons) {
  std::string text;
  for (const auto& each : reasons)
    text += (text.empty() ? "" : " ") + each["detail"].get<std::string>();
  return {{"id", job.id.value},
          {"state", to_string(job.state)},
          {"waits", !is_final(job.state) && !is_held(job.state)},
          {"text", text},
          {"position", nullptr},
          {"ready_jobs", nullptr},
          {"reasons", std::move(reasons)}};
}

json reason(const char* kind, std::string detail, json more = json::object()) {
  more["kind"] = kind;
  more["detail"] = std::move(detail);
  return more;
}

std::string counted(std::int64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string labelled(const std::vector<std::string>& labels) {
  std::string names;
  for (const auto& each : labels)
    names += (names.empty() ? "" : ", ") + each;
  return (labels.size() == 1 ? "the label " : "the labels ") + names;
}

void add_labels(json& reasons, const dispatch_view& seen) {
  if (seen.missing_labels.empty())
    return;
  reasons.push_back(
    reason("labels", "No worker has " + labelled(seen.missing_labels) + ".", {{"missing", seen.missing_labels}}));
}

void add_slots(json& reasons, const job_record& job, const dispatch_view& seen) {
  if (seen.claiming)
    return;
  const auto weight = std::min(seen.weight, seen.capacity);
  const json figures{{"weight", seen.weight}, {"free", seen.free}, {"capacity", seen.capacity}};
  if (seen.workers == 0)
    reasons.push_back(reason("workers", "No worker is ready to take jobs."));
  else if (seen.free == 0 || (seen.idle_workers == 0 && seen.free >= weight))
    reasons.push_back(reason("slots",
                             "All workers for queue " + job.spec.queue +
                               (job.spec.labels.empty() ? "" : " with " + labelled(job.spec.labels)) +
                               " are busy or take no jobs.",
                             figures));
  else if (weight > seen.free)
    reasons.push_back(reason("weight",
                             "It takes " + counted(weight, "slot") + " and " + std::to_string(seen.free) + " of " +
                               std::to_string(seen.capacity) +
                               (seen.reserved_for == job.id ? " are free; they are kept for it." : " are free."),
                             figures));
  if (seen.reserved_for && seen.reserved_for != job.id)
    reasons.push_back(reason("reserved",
                             "Free slots are kept for the heavier job " + std::to_string(seen.reserved_for->value) +
                               ", whose turn it is.",
                             {{"job", seen.reserved_for->value}}));
}

void add_turn(json& reasons, const dispatch_view& seen) {
  if (seen.position && *seen.position > 1)
    reasons.push_back(reason(
      "turn", counted(*seen.position - 1, "job") + (*seen.position == 2 ? " is" : " are") + " handed out before it.",
      {{"ahead", *seen.position - 1}}));
  else if (!seen.position && seen.known && seen.missing_labels.empty())
    reasons.push_back(reason("turn", "Many jobs are handed out before it."));
  else if (!seen.known && !seen.claiming)
    reasons.push_back(reason("turn", "Many jobs are before it: it is not among those read into memory yet."));
}

void add_needs(json& reasons, const job_record& job, const job_blockers& others) {
  auto open = json::array();
  std::string names;
  auto keyed = false;
  for (const auto& need : others.needs) {
    const auto asked = std::ranges::any_of(job.spec.needs, [&](const auto& each) { return each.job == need.job; });
    keyed = keyed || !asked;
    open.push_back({{"id", need.job.value},
                    {"if", asked ? json(to_string(need.condition)) : json(nullptr)},
                    {"state", to_string(need.state)}});
    names +=
      (names.empty() ? "" : ", ") + std::to_string(need.job.value) + " (" + std::string{to_string(need.state)} + ")";
  }
  const auto unnamed = others.open_needs - static_cast<std::int64_t>(others.needs.size());
  if (unnamed > 0)
    names += " and " + counted(unnamed, "other");
  auto text = names.empty()            ? std::string{"Jobs that it needs have ended just now."}
              : others.open_needs == 1 ? "It waits for the end of job " + names + "."
                                       : "It waits for the end of jobs " + names + ".";
  if (keyed)
    text += " One of them had its unique key before, and its processes are still being ended.";
  reasons.push_back(reason("needs", std::move(text), {{"needs", std::move(open)}, {"open", others.open_needs}}));
}

void add_group(json& reasons, const job_record& job, const job_blockers& others) {
  if (others.group_limit == 0)
    return;
  const json figures{{"group", job.spec.group},
                     {"held", others.group_held},
                     {"limit", others.group_limit},
                     {"next", others.group_next.value == 0 ? json(nullptr) : json(others.group_next.value)}};
  const bool behind = others.group_next.value != 0 && others.group_next != job.id;
  const auto fewer = "fewer than " + std::to_string(others.group_limit) + " do";
  if (others.group_held >= others.group_limit)
    reasons.push_back(
      reason("group",
             counted(others.group_held, "job") + " of its group " + job.spec.group +
               (others.group_held == 1 ? " runs; " : " run; ") +
               (behind ? "when " + fewer + ", job " + std::to_string(others.group_next.value) + " starts before it."
                       : "it starts when " + fewer + "."),
             figures));
  else if (behind)
    reasons.push_back(reason("group",
                             "Job " + std::to_string(others.group_next.value) + " of its group " + job.spec.group +
                               " was submitted before it and starts first.",
                             figures));
}

} // namespace

json why_document(const job_record& job, const job_blockers& others) {
  auto reasons = json::array();
  if (is_final(job.state))
    reasons.push_back(reason("ended", "It has ended: " + std::string{to_string(job.state)} + "."));
  else if (job.state == job_state::cancelling)
    reasons.push_back(reason("cancelling", "It is being ended on " + job.worker + "."));
  else if (job.state == job_state::running)
    reasons.push_back(reason("running", "It runs on " + job.worker + "."));
  else if (job.state == job_state::blocked)
    add_needs(reasons, job, others);
  else if (job.state == job_state::scheduled && job.reason == job_reason::retry)
    reasons.push_back(reason("retry",
                             "Its attempt " + std::to_string(job.attempt) + " failed; the next one begins at " +
                               to_rfc3339(job.run_at.value_or(job.created_at)) + ".",
                             {{"run_at", to_rfc3339(job.run_at.value_or(job.created_at))}}));
  else if (job.state == job_state::scheduled)
    reasons.push_back(reason("start_time", "It starts at " + to_rfc3339(job.run_at.value_or(job.created_at)) + ".",
                             {{"run_at", to_rfc3339(job.run_at.value_or(job.created_at))}}));
  return document_of(job, std::move(reasons));
}

json why_queued_document(const job_record& job, const dispatch_view& seen, const job_blockers& others) {
  auto reasons = json::array();
  if (const auto& paused = others.paused) {
    const auto at = to_rfc3339(paused->at);
    reasons.push_back(reason("paused", "Queue " + job.spec.queue + " was paused at " + at + " by " + paused->by + ".",
                             {{"queue", job.spec.queue}, {"paused_at", at}, {"paused_by", paused->by}}));
  }
  if (seen.draining)
    reasons.push_back(reason("draining", "The node is stopping and starts no more jobs."));
  if (!seen.trouble.empty())
    reasons.push_back(reason("storage", "No job can start now: " + seen.trouble + "."));
  add_group(reasons, job, others);
  add_labels(reasons, seen);
  if (reasons.empty()) {
    add_turn(reasons, seen);
    add_slots(reasons, job, seen);
  }
  if (reasons.empty())
    reasons.push_back(reason("starting", "Nothing: a worker is about to take it."));
  auto document = document_of(job, std::move(reasons));
  if (seen.position)
    document["position"] = *seen.position;
  document["ready_jobs"] = seen.ready;
  return document;
}

} // namespace kcx::http
