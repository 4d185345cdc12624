#include "actors/inspector/inspector.hpp"

#include "actors/http/api/json_body.hpp"
#include "actors/http/api/readiness.hpp"
#include "actors/http/api/stats_json.hpp"
#include "actors/http/message/problem.hpp"
#include "actors/inspector/metrics.hpp"
#include "actors/inspector/routes.hpp"
#include "actors/inspector/web_page.hpp"
#include "storage/job_json.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kcx {

namespace {

constexpr std::size_t jobs_shown = 20;
constexpr std::chrono::milliseconds counts_serve{1'000};
constexpr std::chrono::milliseconds most_counts_serve{60'000};

http::response session_answer(std::string_view cookie) {
  http::response answer;
  answer.status = 204;
  answer.headers.add("Set-Cookie", cookie);
  answer.headers.add("Cache-Control", "no-store");
  return answer;
}

/// Whoever asks here for what the API has took one port for the other.
std::string nothing_at(const std::string& path, const std::string& api) {
  std::string text = "nothing is at " + path;
  if (path.starts_with("/v1/") || path == "/openapi.json")
    text += ": this is the inspection port, the API is at " + (api.empty() ? "another one" : api);
  return text;
}

/// With the audit line that each change leaves.
void answer_session(const http_exchange_ptr& exchange, http::response answer) {
  const auto& ask = exchange->request;
  spdlog::info("audit: {} from {}: {} {} of the inspection port -> {}", exchange->who.name, ask.remote_address,
               ask.method, ask.path, answer.status);
  exchange->respond(std::move(answer));
}

} // namespace

inspector::inspector(caf::actor_config& cfg, std::vector<reader_actor> readers, inspector_settings settings)
  : actor_base{cfg, "inspector"}, readers_{std::move(readers)}, settings_{std::move(settings)} {}

inspector::behavior_type inspector::make_behavior() {
  return {
    [this](http_atom, const http_exchange_ptr& exchange) { handle(exchange); },
    [this](rewire_atom, const watched_actors& watched) { watched_ = watched; },
    [this](drain_atom) { draining_ = true; },
    [this](rewire_atom, const std::vector<reader_actor>& readers) {
      readers_ = readers;
      if (!counted_)
        counted_until_ = {}; // These may do better.
    },
    [this](status_atom) {
      return actor_status{{"watched", watched_.size()}, {"readers", readers_.size()}};
    },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

void inspector::on_stop() noexcept {
  watched_.clear();
  readers_.clear();
  count_waiters_.clear(); // Dropped without an answer, which is one.
}

// -- requests ---------------------------------------------------------------------------------------------------------

void inspector::handle(const http_exchange_ptr& exchange) {
  const auto& ask = exchange->request;
  auto page = http::web_page(ask.path);
  auto where = http::find_route(ask.method, ask.path, inspection_routes());
  if (page && (ask.method == "GET" || ask.method == "HEAD")) {
    exchange->respond(std::move(*page));
  } else if (where.found != nullptr) {
    carry_out(*where.found, exchange);
  } else if (where.allowed.empty() && !page) {
    exchange->respond(http::problem(http::kinds::unknown_path, nothing_at(ask.path, settings_.node.value("http", ""))));
  } else {
    const auto allowed = page ? std::string{"GET, HEAD"} : where.allowed;
    auto answer = http::problem(http::kinds::method_not_allowed, ask.path + " takes " + allowed);
    answer.headers.add("Allow", allowed);
    exchange->respond(std::move(answer));
  }
}

void inspector::carry_out(const http::route& where, const http_exchange_ptr& exchange) {
  using http::api_call;
  // The server has asked this before it read the body; since then the token may have been revoked.
  auto verdict = settings_.tokens->check(exchange->request, &where);
  if (auto* refusal = std::get_if<http::response>(&verdict)) {
    exchange->respond(std::move(*refusal));
    return;
  }
  exchange->who = std::get<http::caller>(std::move(verdict));
  switch (where.call) {
  case api_call::get_node: return actors(exchange);
  case api_call::get_stats: return metrics(exchange);
  case api_call::ready: return ready(exchange);
  case api_call::list_jobs: return jobs(exchange);
  case api_call::begin_session: return begin_session(exchange);
  case api_call::end_session: return end_session(exchange);
  default: return health(exchange);
  }
}

void inspector::health(const http_exchange_ptr& exchange) {
  exchange->respond(http::text_response(200, "ok\n"));
}

void inspector::actors(const http_exchange_ptr& exchange) {
  gather([this, exchange](const gathering& all) {
    auto list = nlohmann::json::array();
    for (const auto& each : sample_actors()) {
      const auto status = all.status_of.find(each.id);
      list.push_back(actor_document(each, status == all.status_of.end() ? nlohmann::json() : status->second));
    }
    nlohmann::json document{{"node", settings_.node}, {"now", to_rfc3339(settings_.clock())}};
    document["node"]["slots"] = settings_.slots();
    document["queue"] = all.queue ? http::stats_document(*all.queue) : nlohmann::json();
    document["actors"] = std::move(list);
    auto answer = http::json_response(200, http::json_text(document));
    answer.headers.add("Cache-Control", "no-store");
    exchange->respond(std::move(answer));
  });
}

void inspector::metrics(const http_exchange_ptr& exchange) {
  gather([this, exchange](const gathering& all) {
    const metrics_input input{sample_actors(), all.queue, status_of(all, "database"),
                              settings_.node.value("version", "unknown"), settings_.clock()};
    http::response answer;
    answer.headers.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    answer.body = metrics_text(input);
    exchange->respond(std::move(answer));
  });
}

void inspector::ready(const http_exchange_ptr& exchange) {
  if (draining_) {
    exchange->respond(http::problem(ec::draining, "the node is stopping"));
    return;
  }
  watched_actors database;
  std::ranges::copy_if(watched_, std::back_inserter(database),
                       [](const auto& each) { return each.first == "database"; });
  // It answers only between two commits, which may take longer than what is merely shown is waited for.
  gather_from(database, settings_.read_timeout, [this, exchange](const gathering& all) {
    // What is wrong with the file first: readers may fail for it, too.
    if (const auto refusal = http::why_not_ready(status_of(all, "database")))
      exchange->respond(http::problem(*refusal));
    else if (!all.queue)
      exchange->respond(http::problem(ec::timeout, "no reader answered"));
    else
      exchange->respond(http::text_response(200, "ready\n"));
  });
}

// -- for who may read -------------------------------------------------------------------------------------------------

void inspector::jobs(const http_exchange_ptr& exchange) {
  ask_for_jobs(exchange, std::min<std::size_t>(2, readers_.size()));
}

void inspector::ask_for_jobs(const http_exchange_ptr& exchange, std::size_t tries) {
  if (tries == 0) {
    exchange->respond(http::problem(ec::timeout, "no reader answered"));
    return;
  }
  job_filter newest;
  newest.limit = jobs_shown;
  request(readers_[next_reader_++ % readers_.size()], settings_.read_timeout, list_atom_v, std::move(newest))
    .then(
      [this, exchange](const expected<job_page>& page) {
        if (!page) {
          exchange->respond(http::problem(page.error()));
          return;
        }
        auto items = nlohmann::json::array();
        for (const auto& each : page->items)
          items.push_back(to_api_json(each, settings_.clock()));
        auto answer =
          http::json_response(200, http::json_text({{"caller", exchange->who.name}, {"items", std::move(items)}}));
        answer.headers.add("Cache-Control", "no-store");
        const auto rate = settings_.tokens->rate_fields(exchange->who.token);
        for (std::size_t i = 0; i < rate.size(); ++i)
          answer.headers.set(rate.at(i).name, rate.at(i).value);
        exchange->respond(std::move(answer));
      },
      // The list may have been replaced meanwhile.
      [this, exchange, tries](const caf::error&) { ask_for_jobs(exchange, readers_.empty() ? 0 : tries - 1); });
}

void inspector::begin_session(const http_exchange_ptr& exchange) {
  const auto cookie = settings_.tokens->begin_session(exchange->who);
  answer_session(exchange, cookie ? session_answer(*cookie) : http::problem(cookie.error()));
}

void inspector::end_session(const http_exchange_ptr& exchange) {
  answer_session(exchange, session_answer(settings_.tokens->end_session(exchange->request)));
}

// -- gathering --------------------------------------------------------------------------------------------------------

void inspector::gather(std::function<void(const gathering&)> then) {
  gather_from(watched_, settings_.status_timeout, std::move(then));
}

void inspector::gather_from(const watched_actors& asked, std::chrono::milliseconds limit,
                            std::function<void(const gathering&)> then) {
  auto all = std::make_shared<gathering>();
  all->missing = asked.size() + 1;
  all->then = std::move(then);
  for (const auto& [name, actor] : asked) {
    request(actor, limit, status_atom_v)
      .then(
        [all, id = actor.id()](const actor_status& status) {
          all->status_of[id] = status;
          all->arrived();
        },
        // Stuck, busy or gone: it is shown without.
        [all](const caf::error&) { all->arrived(); });
  }
  gather_queue(all);
}

void inspector::gather_queue(const std::shared_ptr<gathering>& into) {
  const auto now = settings_.clock();
  if (now < counted_until_) {
    into->queue = counted_;
    return into->arrived();
  }
  count_waiters_.push_back(into);
  if (count_waiters_.size() == 1)
    count_jobs(now, std::min<std::size_t>(2, readers_.size()));
}

void inspector::count_jobs(timestamp asked_at, std::size_t tries) {
  // The list may have been replaced since the last try.
  if (tries == 0 || readers_.empty())
    return counted(asked_at, std::nullopt);
  const auto& reader = readers_[next_reader_++ % readers_.size()];
  request(reader, settings_.read_timeout, stats_atom_v)
    .then([this, asked_at](
            const expected<queue_stats>& stats) { counted(asked_at, stats ? std::optional{*stats} : std::nullopt); },
          [this, asked_at, tries](const caf::error&) { count_jobs(asked_at, tries - 1); });
}

void inspector::counted(timestamp asked_at, std::optional<queue_stats> stats) {
  const auto now = settings_.clock();
  const std::chrono::milliseconds took = now - asked_at;
  counted_until_ =
    now + std::clamp<std::chrono::milliseconds>(stats ? 10 * took : took, counts_serve, most_counts_serve);
  counted_ = std::move(stats);
  for (const auto& each : std::exchange(count_waiters_, {})) {
    each->queue = counted_;
    each->arrived();
  }
}

nlohmann::json inspector::status_of(const gathering& from, std::string_view name) const {
  for (const auto& [each, actor] : watched_) {
    if (each != name)
      continue;
    const auto found = from.status_of.find(actor.id());
    return found == from.status_of.end() ? nlohmann::json() : found->second;
  }
  return {};
}

} // namespace kcx
