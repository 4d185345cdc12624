// The bridge's calls about many jobs at once: pages of matching jobs are read, and each is acted on as one commit, so
// that no other write waits for all of them. What is requeued is found first, and then requeued oldest first.
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_requests.hpp"

#include <algorithm>

namespace kcx {

namespace {

/// Jobs per commit.
constexpr std::size_t bulk_page = 200;
/// What an answer lists at the most; it counts all.
constexpr std::size_t most_listed = 1'000;

/// What the answer calls a job that went well.
const char* done_word(bulk_action action) {
  switch (action) {
  case bulk_action::cancel: return "cancelled";
  case bulk_action::requeue: return "requeued";
  case bulk_action::discard: return "discarded";
  }
  return "done";
}

} // namespace

/// One such call under way.
struct http_bridge::bulk_run {
  call ask;
  bulk_action action = bulk_action::cancel;
  job_filter filter;
  std::int64_t matched = 0;
  std::int64_t done = 0;
  std::int64_t cancelling = 0;
  std::int64_t refused = 0;
  /// What is to be requeued, newest first; complete once `all_found`.
  std::vector<job_id> found;
  bool all_found = false;
  nlohmann::json created = nlohmann::json::array();
  nlohmann::json refusals = nlohmann::json::array();

  void add(const bulk_result& result) {
    ++matched;
    if (result.failure) {
      ++refused;
      if (refusals.size() < most_listed)
        refusals.push_back({{"id", result.job.value}, {"detail", result.failure->message}});
    } else if (action == bulk_action::cancel && result.state == job_state::cancelling) {
      ++cancelling;
    } else {
      ++done;
      if (result.created && created.size() < most_listed)
        created.push_back({{"id", result.created->value}, {"retry_of", result.job.value}});
    }
  }

  /// The next ones to requeue.
  std::vector<job_id> take_oldest() {
    const auto count = static_cast<std::ptrdiff_t>(std::min(found.size(), bulk_page));
    std::vector<job_id> oldest(found.rbegin(), found.rbegin() + count);
    found.erase(found.end() - count, found.end());
    return oldest;
  }

  [[nodiscard]] nlohmann::json document() const {
    nlohmann::json told{{"matched", matched}, {done_word(action), done}, {"refused", refused}, {"refusals", refusals}};
    if (action == bulk_action::cancel)
      told["cancelling"] = cancelling;
    if (action == bulk_action::requeue)
      told["items"] = created;
    return told;
  }
};

void http_bridge::act_on_many(const call& ask, bulk_action action) {
  // As of one dead letter: what was requeued may be a dead letter again by the second call. The others make no jobs.
  if (action == bulk_action::requeue && ask.request().headers.find("Idempotency-Key"))
    return ask.answer(http::problem(http::kinds::invalid_parameter,
                                    "Idempotency-Key goes with POST /v1/jobs only: before asking once more, list the "
                                    "dead letters; those that were requeued are none any more"));
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  auto filter = parse_filter_document(std::get<nlohmann::json>(body));
  if (!filter)
    return ask.answer(filter.error());
  if (action != bulk_action::cancel) {
    filter->dead_letters = true;
  } else if (filter->states.empty() && !filter->project && !filter->queue && !filter->name && !filter->label &&
             !filter->group) {
    return ask.answer({ec::invalid_input,
                       "say which jobs: give at least one field",
                       {{"", "must name a state, project, queue, name, label or group"}}});
  } else if (std::ranges::any_of(filter->states, is_final)) {
    return ask.answer(
      {ec::invalid_input, "a job that has ended cannot be cancelled", {{"/state", "must be no final state"}}});
  } else if (filter->states.empty()) {
    filter->states = {job_state::scheduled, job_state::blocked, job_state::queued, job_state::running};
  }
  filter->limit = bulk_page;
  auto run = std::make_shared<bulk_run>();
  run->ask = ask;
  run->action = action;
  run->filter = std::move(*filter);
  next_bulk_page(run);
}

void http_bridge::next_bulk_page(const std::shared_ptr<bulk_run>& run) {
  if (draining_ && run->action == bulk_action::requeue)
    return fail_bulk(*run, draining("takes no new jobs"));
  const auto act = [this, run](std::vector<job_id> jobs) {
    if (jobs.empty())
      return end_bulk_page(run);
    write<std::vector<bulk_result>>(
      peers_.database,
      [this, run](expected<std::vector<bulk_result>> results) {
        if (!results)
          return fail_bulk(*run, results.error());
        for (const auto& each : *results)
          run->add(each);
        end_bulk_page(run);
      },
      bulk_atom_v, bulk_request{run->action, std::move(jobs), run->ask.who().name});
  };
  if (run->all_found)
    return act(run->take_oldest());
  read<job_page>(
    [this, run, act](expected<job_page> page) {
      if (!page)
        return fail_bulk(*run, page.error());
      run->filter.before = page->next;
      std::vector<job_id> jobs;
      for (const auto& each : page->items)
        jobs.push_back(each.id);
      if (run->action != bulk_action::requeue)
        return act(std::move(jobs));
      // Pages come newest first, but what is requeued must come in the order in which it was submitted.
      run->found.insert(run->found.end(), jobs.begin(), jobs.end());
      run->all_found = !page->next;
      next_bulk_page(run);
    },
    list_atom_v, run->filter);
}

void http_bridge::end_bulk_page(const std::shared_ptr<bulk_run>& run) {
  if (run->filter.before || !run->found.empty())
    next_bulk_page(run);
  else
    run->ask.answer_json(200, run->document());
}

void http_bridge::fail_bulk(const bulk_run& run, error why) {
  if (run.matched > 0)
    why.message += "; " + std::to_string(run.matched) + " jobs had been dealt with before";
  run.ask.answer(why);
}

} // namespace kcx
