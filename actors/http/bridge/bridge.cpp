#include "actors/http/bridge/bridge.hpp"

#include "actors/http/api/json_body.hpp"
#include "actors/http/api/openapi.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "config/units.hpp"
#include "storage/job_json.hpp"

#include <caf/send.hpp>

#include <cstdint>

namespace kcx {

namespace {

std::optional<job_id> parse_id(std::string_view text) noexcept {
  const auto number = parse_number(text, 1, INT64_MAX);
  return number ? std::optional{job_id{*number}} : std::nullopt;
}

http::response no_route(const http::request& ask, const http::routing& where) {
  if (where.allowed.empty())
    return http::problem(http::kinds::unknown_path, "nothing is at " + ask.path);
  auto answer = http::problem(http::kinds::method_not_allowed, ask.path + " takes " + where.allowed);
  answer.headers.add("Allow", where.allowed);
  return answer;
}

} // namespace

http_bridge::http_bridge(caf::actor_config& cfg, bridge_peers peers, bridge_settings settings)
  : actor_base{cfg, "http_bridge"}, peers_{std::move(peers)}, settings_{std::move(settings)},
    claim_logs_{std::make_shared<http::claim_logs>(
      http::claim_log_options{settings_.data_dir, settings_.claim_log_bounds, settings_.make_mask})} {}

http_bridge::behavior_type http_bridge::make_behavior() {
  subscribe();
  return {
    [this](http_atom, const http_exchange_ptr& exchange) { handle(exchange); },
    [this](enqueue_atom, const http_exchange_ptr& exchange, submission& asked) { store({exchange}, std::move(asked)); },
    [this](expire_atom, std::uint64_t id) { expire(id); },
    [this](unfollow_atom, std::uint64_t request) { abandoned(request); },
    [this](exchange_atom, const http_exchange_ptr& ask, const remote_request& wanted, bool several) {
      exchange({ask, {}}, wanted, several);
    },
    [this](drain_atom) { draining_ = true; },
    [this](rewire_atom, const database_actor& database) { rewire(database); },
    [this](rewire_atom, const std::vector<reader_actor>& readers) { peers_.readers = readers; },
    [this](rewire_atom, const log_hub_actor& hub) {
      peers_.log_hub = hub;
      for (const auto& [id, each] : followers_)
        follow_at_hub(id);
    },
    [this](rewire_atom, const dispatcher_actor& dispatcher) { peers_.dispatcher = dispatcher; },
    [this](rewire_atom, const worker_supervisor_actor& workers) { peers_.workers = workers; },
    [this](rewire_atom, const webhook_sender_actor& webhooks) { peers_.webhooks = webhooks; },
    [this](changed_atom, const job_changes& changes) { changed(changes); },
    [this](grew_atom, follower_id id) { grew(id); },
    [this](status_atom) { return status(); },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

void http_bridge::on_stop() noexcept {
  try {
    for (const auto& [id, each] : followers_) {
      if (const auto body = each.body.lock())
        body->fail();
    }
  } catch (const std::exception& failure) {
    spdlog::error("http_bridge: followers of logs may hang: {}", failure.what());
  }
  for (const auto& [id, each] : feeds_) {
    if (const auto body = each.body.lock())
      body->fail();
  }
  fail_uploads();
  feeds_.clear();
  followers_.clear();
  waiters_.clear(); // Dropped without an answer, which is one.
  claims_.clear();
  by_job_.clear();
  // The root knows this actor as this one knows the root: a ring of handles would keep their threads for ever.
  peers_ = {};
}

// -- requests ---------------------------------------------------------------------------------------------------------

void http_bridge::handle(const http_exchange_ptr& exchange) {
  ++requests_;
  call ask{exchange};
  const auto where = http::find_route(ask.request().method, ask.request().path);
  // The server has asked this before it read the body; since then the token may have been revoked.
  auto verdict = settings_.tokens->check(ask.request(), where.found);
  if (auto* refusal = std::get_if<http::response>(&verdict))
    return ask.answer(std::move(*refusal));
  exchange->who = std::get<http::caller>(std::move(verdict));
  if (where.found == nullptr)
    return ask.answer(no_route(ask.request(), where));
  if (const auto once = http::refuse_repeated(ask.request()); !once)
    return ask.answer(http::problem(http::kinds::invalid_parameter, once.error().message));
  if (!where.id.empty()) {
    const auto id = parse_id(where.id);
    if (!id)
      return ask.answer({ec::not_found, "nothing has the id " + where.id.substr(0, 100), {}});
    ask.job = *id;
  }
  ask.name = where.name;
  note_use(ask);
  note_answer(ask, *where.found);
  try {
    dispatch(*where.found, ask);
  } catch (const std::exception& failure) {
    // One request's bug must not end everybody's long polls.
    spdlog::error("http_bridge: {} {} failed: {}", ask.request().method, ask.request().path, failure.what());
    ask.answer({ec::internal, "answering this request failed; the node's log tells more", {}});
  }
}

void http_bridge::dispatch(const http::route& where, const call& ask) {
  using http::api_call;
  switch (where.call) {
  case api_call::submit_jobs: return submit(ask);
  case api_call::list_jobs: return list(ask);
  case api_call::get_job: return get(ask);
  case api_call::get_log: return log(ask);
  case api_call::get_artifacts: return artifacts(ask);
  case api_call::cancel_job: return cancel(ask);
  case api_call::patch_job: return patch_job(ask);
  case api_call::why_job: return why(ask);
  case api_call::patch_node: return patch_node(ask);
  case api_call::cordon_worker: return cordon(ask, true);
  case api_call::uncordon_worker: return cordon(ask, false);
  case api_call::cancel_jobs: return act_on_many(ask, bulk_action::cancel);
  case api_call::retry_job: return retry(ask, retry_what::any_final);
  case api_call::remove_job: return remove(ask);
  case api_call::list_dead_letters: return list(ask, true);
  case api_call::requeue_dead_letter: return retry(ask, retry_what::dead_letter);
  case api_call::requeue_dead_letters: return act_on_many(ask, bulk_action::requeue);
  case api_call::discard_dead_letter: return discard(ask);
  case api_call::discard_dead_letters: return act_on_many(ask, bulk_action::discard);
  case api_call::list_queues: return list_queues(ask);
  case api_call::pause_queue: return pause_queue(ask);
  case api_call::resume_queue: return resume_queue(ask);
  case api_call::follow_events: return events(ask);
  case api_call::list_workers: return list_workers(ask);
  case api_call::get_stats: return stats(ask);
  case api_call::get_node: return ask.answer_json(200, node_document());
  case api_call::create_token: return create_token(ask);
  case api_call::list_tokens: return list_tokens(ask);
  case api_call::revoke_token: return revoke_token(ask);
  case api_call::begin_session: return begin_session(ask);
  case api_call::end_session: return end_session(ask);
  case api_call::make_session_code: return make_session_code(ask);
  case api_call::list_webhooks: return list_webhooks(ask);
  case api_call::put_webhook: return put_webhook(ask);
  case api_call::remove_webhook: return remove_webhook(ask);
  case api_call::list_deliveries: return list_deliveries(ask);
  case api_call::redeliver: return redeliver(ask);
  case api_call::drain_node: return drain(ask);
  case api_call::inject_fault: return fault_in(ask);
  case api_call::claim_jobs: return claim_jobs(ask);
  case api_call::renew_claim: return renew_claim(ask);
  case api_call::renew_claims: return renew_claims(ask);
  case api_call::complete_claim: return end_claim(ask, http::claim_end::complete);
  case api_call::complete_claims: return end_claims(ask, http::claim_end::complete);
  case api_call::fail_claim: return end_claim(ask, http::claim_end::fail);
  case api_call::fail_claims: return end_claims(ask, http::claim_end::fail);
  case api_call::release_claim: return end_claim(ask, http::claim_end::release);
  case api_call::release_claims: return end_claims(ask, http::claim_end::release);
  case api_call::put_claim_log: return put_claim_log(ask);
  case api_call::get_openapi: return ask.answer(http::json_response(200, std::string{http::openapi_document()}));
  case api_call::health: return ask.answer(http::text_response(200, "ok\n"));
  case api_call::ready: return ready(ask);
  }
}

void http_bridge::call::answer(const error& failure) const {
  answer(http::problem(failure));
}

void http_bridge::call::answer_json(unsigned status, const nlohmann::json& document) const {
  answer(http::json_response(status, http::json_text(document)));
}

// -- what happens around ----------------------------------------------------------------------------------------------

void http_bridge::subscribe() {
  if (peers_.database)
    send(peers_.database, subscribe_atom_v, change_listener_actor{http_bridge_actor{this}});
}

void http_bridge::rewire(database_actor database) {
  peers_.database = std::move(database);
  subscribe();
  wake_feeds();
  // Changes may have gone by unheard between the two databases.
  std::vector<std::uint64_t> open;
  for (const auto& [job, id] : by_job_)
    open.push_back(id);
  for (const auto id : open) {
    end_wait_if_final(id);
    look_at(id);
  }
}

void http_bridge::changed(const job_changes& changes) {
  wake_feeds();
  for (const auto& change : *changes) {
    if (!is_held(change.state))
      close_logs(change.id);
    const auto [first, last] = by_job_.equal_range(change.id.value);
    std::vector<std::uint64_t> concerned;
    for (auto each = first; each != last; ++each)
      concerned.push_back(each->second);
    for (const auto id : concerned) {
      if (followers_.contains(id))
        look_at(id);
      else if (is_final(change.state))
        end_wait(id);
    }
  }
}

void http_bridge::expire(std::uint64_t id) {
  if (id == 0)
    tick();
  else if (id == wake_feeds_id)
    feeds_awake();
  else if (id == write_uses_id)
    write_uses();
  else if (feeds_.erase(id) != 0 || uploads_.erase(id) != 0)
    return;
  else if (followers_.contains(id))
    forget_follower(id);
  else
    end_wait(id);
}

actor_status http_bridge::status() const {
  return {{"requests", requests_},  {"waiting", waiters_.size()}, {"followers", followers_.size()},
          {"feeds", feeds_.size()}, {"uploads", uploads_.size()}, {"draining", draining_}};
}

void http_bridge::show_written(const call& ask, unsigned status) {
  read<job_record>(
    [this, ask, status](expected<job_record> job) {
      if (job)
        ask.answer_json(status, shown(*job));
      else
        ask.answer(unread_write(job.error()));
    },
    get_atom_v, ask.job);
}

nlohmann::json http_bridge::shown(const job_record& job) const {
  return to_api_json(job, settings_.clock());
}

nlohmann::json http_bridge::node_document() const {
  auto document = settings_.node;
  document["slots"] = settings_.slots();
  document["state"] = draining_ ? "draining" : "running";
  return document;
}

bool http_bridge::refuse_if_draining(const call& ask, const char* refused) const {
  if (draining_)
    ask.answer(draining(refused));
  return draining_;
}

error draining(const char* refused) {
  return {ec::draining, std::string{"the node is stopping and "} + refused, {}};
}

error unanswered_write(const caf::error& cause) {
  std::string text = "the database did not confirm it: it may or may not have happened";
  if (cause)
    text += " (" + caf::to_string(cause) + ")";
  return {ec::outcome_unknown, std::move(text), {}};
}

error unread_write(const error& cause) {
  return {ec::outcome_unknown, "it was done, but what became of it could not be read: " + cause.message, {}};
}

error unanswered_read(const caf::error& cause) {
  return {ec::timeout, "no reader answered in time (" + caf::to_string(cause) + ")", {}};
}

} // namespace kcx
