// The bridge's call for a log: as it is, or followed.
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/logs/log_answer.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/log_format.hpp"

#include <caf/send.hpp>

namespace kcx {

namespace {

std::filesystem::path file_of(const bridge_settings& settings, attempt_key key) {
  return log_path(settings.data_dir, static_cast<std::uint64_t>(key.job.value),
                  static_cast<std::uint32_t>(key.attempt));
}

http::response follow_response(std::shared_ptr<http::log_follow> body, bool events) {
  http::response answer;
  answer.headers.add("Content-Type", events ? "text/event-stream" : "text/plain; charset=utf-8");
  answer.headers.add("Cache-Control", "no-store");
  answer.headers.add("X-Content-Type-Options", "nosniff");
  // Proxies that buffer would hold the stream back.
  answer.headers.add("X-Accel-Buffering", "no");
  answer.stream = std::move(body);
  return answer;
}

} // namespace

void http_bridge::log(const call& ask) {
  auto query = http::parse_log_query(ask.request());
  if (!query)
    return ask.answer(http::problem(http::kinds::invalid_parameter, query.error().message));
  read<job_record>(
    [this, ask, query = std::move(*query)](expected<job_record> job) {
      if (!job)
        return ask.answer(job.error());
      if (query.attempt > job->attempt)
        return ask.answer({ec::not_found,
                           "job " + std::to_string(ask.job.value) + " has no attempt " + std::to_string(query.attempt),
                           {}});
      if (query.follow)
        return open_follower(ask, query, *job);
      if (job->attempt == 0)
        return ask.answer(http::empty_log());
      send_log(ask, query, query.attempt == 0 ? job->attempt : query.attempt);
    },
    get_atom_v, ask.job);
}

void http_bridge::send_log(const call& ask, const http::log_query& query, std::int32_t attempt) {
  read<log_location>(
    [this, ask, query](expected<log_location> where) {
      if (!where)
        return ask.answer(where.error());
      http::log_source source{where->key, file_of(settings_, where->key), where->log, where->final};
      settings_.files([files = settings_.files, ask, query, source = std::move(source)] {
        ask.answer(http::log_answer(files, source, query));
      });
    },
    log_atom_v, ask.job, attempt);
}

// -- following --------------------------------------------------------------------------------------------------------

void http_bridge::open_follower(const call& ask, const http::log_query& query, const job_record& job) {
  const auto id = next_id_++;
  auto body = std::make_shared<http::log_follow>(
    settings_.files, http::follow_options{query.offset, query.tail, query.timestamps, query.events, query.exact},
    [self = http_bridge_actor{this}, id] { caf::anon_send(self, expire_atom_v, id); });
  followers_.emplace(id, follower{ask.job, 0, query.events, false, ask.who(), body});
  by_job_.emplace(ask.job.value, id);
  start_ticking();
  ask.answer(follow_response(std::move(body), query.events));
  const auto attempt = query.attempt == 0 ? job.attempt : query.attempt;
  if (attempt > 0)
    begin_follow(id, attempt);
  else
    look_at(id); // It may have started or ended since `job` was read.
}

void http_bridge::begin_follow(follower_id id, std::int32_t attempt) {
  auto& each = followers_.at(id);
  each.attempt = attempt;
  if (const auto body = each.body.lock())
    body->attach(file_of(settings_, {each.job, attempt}));
  follow_at_hub(id);
  look_at(id);
}

void http_bridge::follow_at_hub(follower_id id) {
  const auto& each = followers_.at(id);
  if (each.attempt == 0 || !peers_.log_hub)
    return;
  send(peers_.log_hub, follow_atom_v, attempt_key{each.job, each.attempt}, id,
       follower_host_actor{http_bridge_actor{this}});
  // The hub's answer to anything sent after it proves that the subscription stands: what was written before that is
  // looked for now, what is written after it wakes the follower.
  request(peers_.log_hub, settings_.read_timeout, status_atom_v)
    .then([this, id](const actor_status&) { grew(id); }, [this, id](const caf::error&) { grew(id); });
}

void http_bridge::grew(follower_id id) {
  if (const auto at = feeds_.find(id); at != feeds_.end()) {
    at->second.hungry = true;
    return read_events(id);
  }
  if (uploads_.contains(id))
    return advance(id);
  const auto found = followers_.find(id);
  if (found == followers_.end())
    return;
  if (settings_.tokens->ended(found->second.who))
    return end_open_calls();
  if (const auto body = found->second.body.lock())
    body->wake();
}

void http_bridge::look_at(follower_id id) {
  const auto found = followers_.find(id);
  if (found == followers_.end())
    return;
  found->second.look_again = false;
  if (found->second.attempt == 0)
    look_at_job(id);
  else
    look_at_attempt(id);
}

void http_bridge::look_at_job(follower_id id) {
  read<job_record>(
    [this, id](expected<job_record> job) {
      const auto found = followers_.find(id);
      if (found == followers_.end() || found->second.attempt != 0)
        return;
      if (!job)
        look_failed(id, job.error());
      else if (job->attempt > 0)
        begin_follow(id, job->attempt);
      else if (is_final(job->state))
        finish_follower(id, {});
    },
    get_atom_v, followers_.at(id).job);
}

void http_bridge::look_at_attempt(follower_id id) {
  const auto& each = followers_.at(id);
  read<log_location>(
    [this, id](expected<log_location> where) {
      const auto found = followers_.find(id);
      if (found == followers_.end())
        return;
      if (where && where->final)
        finish_follower(id, where->log);
      else if (where)
        grew(id);
      else
        look_failed(id, where.error());
    },
    log_atom_v, each.job, each.attempt);
}

void http_bridge::look_failed(follower_id id, const error& why) {
  auto& each = followers_.at(id);
  if (why.code != ec::gone && why.code != ec::not_found) {
    each.look_again = true;
    return;
  }
  if (const auto body = each.body.lock())
    body->fail();
  forget_follower(id);
}

void http_bridge::finish_follower(follower_id id, log_summary log) {
  const auto& each = followers_.at(id);
  const auto body = each.body.lock();
  if (!body || !each.events) {
    if (body)
      body->finish(static_cast<std::uint64_t>(log.bytes), {}, log.cut);
    return forget_follower(id);
  }
  read<job_record>(
    [this, id, log](expected<job_record> job) {
      const auto found = followers_.find(id);
      if (found == followers_.end())
        return;
      if (!job)
        return look_failed(id, job.error());
      if (const auto alive = found->second.body.lock())
        alive->finish(static_cast<std::uint64_t>(log.bytes), http::json_text(shown(*job)), log.cut);
      forget_follower(id);
    },
    get_atom_v, each.job);
}

void http_bridge::forget_follower(follower_id id) {
  const auto found = followers_.find(id);
  if (found == followers_.end())
    return;
  const auto each = found->second;
  followers_.erase(found);
  unlist(each.job, id);
  if (each.attempt > 0 && peers_.log_hub)
    send(peers_.log_hub, unfollow_atom_v, attempt_key{each.job, each.attempt}, id);
}

// -- ticks ------------------------------------------------------------------------------------------------------------

void http_bridge::start_ticking() {
  if (!ticking_) {
    ticking_ = true;
    delayed_anon_send(http_bridge_actor{this}, settings_.tick, expire_atom_v, std::uint64_t{0});
  }
}

void http_bridge::tick() {
  ticking_ = false;
  ++ticks_;
  end_open_calls(); // What expires tells nobody.
  std::vector<follower_id> pending;
  for (const auto& [id, each] : followers_) {
    if (const auto body = each.body.lock(); body && ticks_ % 3 == 0)
      body->ping();
    if (each.look_again)
      pending.push_back(id);
  }
  for (const auto id : pending)
    look_at(id);
  for (const auto& [id, each] : feeds_) {
    if (const auto body = each.body.lock(); body && ticks_ % 3 == 0)
      body->ping();
  }
  feeds_awake();
  if (!followers_.empty() || !feeds_.empty() || !waiters_.empty() || !claims_.empty())
    start_ticking();
}

} // namespace kcx
