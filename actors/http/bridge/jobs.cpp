// The bridge's calls about jobs: submit, list, get (with long poll), cancel.
#include "actors/http/api/json_body.hpp"
#include "actors/http/api/submission_json.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_json.hpp"

#include <caf/send.hpp>

#include <algorithm>

namespace kcx {

namespace {

/// Larger bodies, and answers about more jobs, take so long that other requests must not wait for them.
constexpr std::size_t read_here = 64 * 1024;
constexpr std::size_t told_here = 50;

/// Weak: what a running job's duration or log size is moves on without a new version.
std::string etag_of(const job_record& job) {
  std::uint64_t steps = 14'695'981'039'346'656'037U;
  for (const auto& step : job.steps)
    steps = (steps ^ static_cast<std::uint64_t>(step.state)) * 1'099'511'628'211U;
  return "W/\"" + std::to_string(job.id.value) + "-" + std::to_string(job.version) + "-" + std::to_string(steps) + "\"";
}

bool names_etag(std::string_view header, std::string_view etag) {
  while (!header.empty()) {
    const auto comma = header.find(',');
    auto one = http::trimmed(header.substr(0, comma));
    header = comma == std::string_view::npos ? std::string_view{} : header.substr(comma + 1);
    // Weak comparison (RFC 9110 §8.8.3.2).
    if (one == "*" || one == etag || (!one.starts_with("W/") && etag.substr(2) == one))
      return true;
  }
  return false;
}

} // namespace

// -- submit -----------------------------------------------------------------------------------------------------------

void http_bridge::submit(const call& ask) {
  if (refuse_if_draining(ask))
    return;
  if (ask.request().incoming)
    return submit_lines(ask);
  http::submission_rules rules{settings_.jobs_per_request, std::to_string(ask.who().token), settings_.clock};
  if (ask.request().body.size() > read_here)
    return settings_.files([self = http_bridge_actor{this}, exchange = ask.exchange, rules = std::move(rules)] {
      auto asked = http::read_submission(exchange->request, rules);
      if (auto* refusal = std::get_if<http::response>(&asked))
        exchange->respond(std::move(*refusal));
      else
        caf::anon_send(self, enqueue_atom_v, exchange, std::get<submission>(std::move(asked)));
    });
  auto asked = http::read_submission(ask.request(), rules);
  if (auto* refusal = std::get_if<http::response>(&asked))
    return ask.answer(std::move(*refusal));
  store(ask, std::get<submission>(std::move(asked)));
}

void http_bridge::store(const call& ask, submission&& asked) {
  if (refuse_if_draining(ask))
    return;
  const bool several = asked.several;
  write<accepted_jobs>(
    peers_.database,
    [this, ask, several](expected<accepted_jobs> accepted) { submitted(ask, several, std::move(accepted)); },
    enqueue_atom_v, std::move(asked));
}

void http_bridge::submitted(const call& ask, bool several, expected<accepted_jobs> accepted) {
  if (!accepted)
    return ask.answer(accepted.error());
  const auto tell = [ask, several, clock = settings_.clock](const accepted_jobs& stored) {
    auto told = stored.answer ? *stored.answer : http::answer_to(stored, several, clock());
    auto answer = http::json_response(static_cast<unsigned>(told.status), std::move(told.body));
    if (!told.location.empty())
      answer.headers.add("Location", told.location);
    if (stored.repeated)
      answer.headers.add("Idempotency-Replayed", "true");
    ask.answer(std::move(answer));
  };
  if (accepted->jobs.size() <= told_here)
    return tell(*accepted);
  settings_.files([tell, stored = std::make_shared<const accepted_jobs>(*std::move(accepted))] { tell(*stored); });
}

// -- list -------------------------------------------------------------------------------------------------------------

void http_bridge::list(const call& ask, bool dead_letters) {
  auto filter = http::parse_filter(ask.request());
  if (!filter)
    return ask.answer(http::problem(http::kinds::invalid_parameter, filter.error().message));
  filter->dead_letters = dead_letters;
  read<job_page>(
    [this, ask](expected<job_page> page) {
      if (!page)
        return ask.answer(page.error());
      auto items = nlohmann::json::array();
      for (const auto& each : page->items)
        items.push_back(shown(each));
      const nlohmann::json cursor = page->next ? nlohmann::json(std::to_string(page->next->value)) : nlohmann::json();
      auto answer = http::json_response(200, http::json_text({{"items", std::move(items)}, {"next_cursor", cursor}}));
      if (page->next)
        answer.headers.add("Link", "<" + http::next_page(ask.request(), *page->next) + ">; rel=\"next\"");
      ask.answer(std::move(answer));
    },
    list_atom_v, *filter);
}

// -- get --------------------------------------------------------------------------------------------------------------

void http_bridge::get(const call& ask) {
  if (const auto text = ask.request().parameter("wait")) {
    const auto limit = http::parse_wait(*text);
    if (!limit)
      return ask.answer(http::problem(http::kinds::invalid_parameter, limit.error().message));
    if (limit->count() > 0)
      return wait_for(ask, *limit);
  }
  read<job_record>(
    [this, ask](expected<job_record> job) {
      if (job)
        answer_job(ask, *job);
      else
        ask.answer(job.error());
    },
    get_atom_v, ask.job);
}

void http_bridge::wait_for(const call& ask, std::chrono::milliseconds limit) {
  if (waiters_.size() >= settings_.waiters)
    return ask.answer(http::problem(http::kinds::overloaded, "too many requests wait for jobs already"));
  const auto id = next_id_++;
  waiters_.emplace(id, waiter{ask, limit});
  by_job_.emplace(ask.job.value, id);
  start_ticking();
  // Only now: whatever changes from here on is heard.
  end_wait_if_final(id);
}

void http_bridge::end_wait_if_final(std::uint64_t id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end())
    return;
  read<job_record>(
    [this, id](expected<job_record> job) {
      const auto still = waiters_.find(id);
      if (still == waiters_.end())
        return;
      if (job && !is_final(job->state)) {
        // A timer cannot be taken back: there is none for a job that had ended.
        if (const auto limit = std::exchange(still->second.limit, std::chrono::milliseconds{0}); limit.count() > 0)
          delayed_anon_send(http_bridge_actor{this}, limit, expire_atom_v, id);
        return;
      }
      const auto ask = take_waiter(still);
      if (job)
        answer_job(ask, *job);
      else
        ask.answer(job.error());
    },
    get_atom_v, found->second.ask.job);
}

void http_bridge::end_wait(std::uint64_t id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end())
    return; // Its job was final first.
  const auto ask = take_waiter(found);
  read<job_record>(
    [this, ask](expected<job_record> job) {
      if (job)
        answer_job(ask, *job);
      else
        ask.answer(job.error());
    },
    get_atom_v, ask.job);
}

void http_bridge::abandoned(std::uint64_t request) {
  const auto found =
    std::ranges::find_if(waiters_, [&](const auto& each) { return each.second.ask.request().id == request; });
  // A client that still reads asks again.
  if (found != waiters_.end())
    end_wait(found->first);
}

http_bridge::call http_bridge::take_waiter(std::map<std::uint64_t, waiter>::iterator at) {
  auto ask = std::move(at->second.ask);
  unlist(ask.job, at->first);
  waiters_.erase(at);
  return ask;
}

void http_bridge::unlist(job_id job, std::uint64_t id) {
  const auto [first, last] = by_job_.equal_range(job.value);
  for (auto each = first; each != last; ++each) {
    if (each->second == id) {
      by_job_.erase(each);
      return;
    }
  }
}

void http_bridge::answer_job(const call& ask, const job_record& job) const {
  if (const auto why = settings_.tokens->ended(ask.who()))
    return ask.answer(*why); // It has waited.
  const auto etag = etag_of(job);
  const auto known = ask.request().headers.find("If-None-Match");
  http::response answer;
  if (known && names_etag(*known, etag))
    answer.status = 304;
  else
    answer = http::json_response(200, http::json_text(shown(job)));
  answer.headers.add("ETag", etag);
  answer.headers.add("Cache-Control", "no-cache");
  ask.answer(std::move(answer));
}

// -- cancel -----------------------------------------------------------------------------------------------------------

void http_bridge::cancel(const call& ask) {
  write<transition_result>(
    peers_.database, [this, ask](expected<transition_result> result) { cancelled(ask, result); }, cancel_atom_v,
    ask.job, ask.who().name);
}

void http_bridge::cancelled(const call& ask, const expected<transition_result>& result) {
  if (!result)
    return ask.answer(result.error());
  show_written(ask, result->change.state == job_state::cancelling ? 202 : 200);
}

} // namespace kcx
