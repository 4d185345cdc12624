#include "actors/inspector/inspector.hpp"

#include "actors/http/api/json_body.hpp"
#include "actors/http/api/readiness.hpp"
#include "actors/http/api/stats_json.hpp"
#include "actors/http/message/problem.hpp"
#include "actors/inspector/metrics.hpp"
#include "actors/inspector/web_page.hpp"

#include <algorithm>

namespace kcx {

inspector::inspector(caf::actor_config& cfg, std::vector<reader_actor> readers, inspector_settings settings)
  : actor_base{cfg, "inspector"}, readers_{std::move(readers)}, settings_{std::move(settings)} {}

inspector::behavior_type inspector::make_behavior() {
  return {
    [this](http_atom, const http_exchange_ptr& exchange) { handle(exchange); },
    [this](rewire_atom, const watched_actors& watched) { watched_ = watched; },
    [this](rewire_atom, const std::vector<reader_actor>& readers) { readers_ = readers; },
    [this](status_atom) {
      return actor_status{{"watched", watched_.size()}, {"readers", readers_.size()}};
    },
    [this](fault_atom, const std::string& text) { fault(text); },
  };
}

void inspector::on_stop() noexcept {
  watched_.clear();
  readers_.clear();
}

// -- requests ---------------------------------------------------------------------------------------------------------

void inspector::handle(const http_exchange_ptr& exchange) {
  const auto& ask = exchange->request;
  auto page = http::web_page(ask.path);
  const bool known =
    page || ask.path == "/actors" || ask.path == "/metrics" || ask.path == "/healthz" || ask.path == "/readyz";
  if (!known) {
    exchange->respond(http::problem(http::kinds::unknown_path, "nothing is at " + ask.path));
  } else if (ask.method != "GET" && ask.method != "HEAD") {
    auto answer = http::problem(http::kinds::method_not_allowed, ask.path + " takes GET, HEAD");
    answer.headers.add("Allow", "GET, HEAD");
    exchange->respond(std::move(answer));
  } else if (page) {
    exchange->respond(std::move(*page));
  } else if (ask.path == "/actors") {
    actors(exchange);
  } else if (ask.path == "/metrics") {
    metrics(exchange);
  } else if (ask.path == "/readyz") {
    ready(exchange);
  } else {
    exchange->respond(http::text_response(200, "ok\n"));
  }
}

void inspector::actors(const http_exchange_ptr& exchange) {
  gather([this, exchange](const gathering& all) {
    auto list = nlohmann::json::array();
    for (const auto& each : sample_actors()) {
      const auto status = all.status_of.find(each.id);
      list.push_back(actor_document(each, status == all.status_of.end() ? nlohmann::json() : status->second));
    }
    nlohmann::json document{{"node", settings_.node}, {"now", to_rfc3339(settings_.clock())}};
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
  gather([this, exchange](const gathering& all) {
    if (!all.queue)
      exchange->respond(http::problem(ec::timeout, "no reader answered"));
    else if (const auto refusal = http::why_not_ready(status_of(all, "database")))
      exchange->respond(http::problem(*refusal));
    else
      exchange->respond(http::text_response(200, "ready\n"));
  });
}

// -- gathering --------------------------------------------------------------------------------------------------------

void inspector::gather(std::function<void(const gathering&)> then) {
  auto all = std::make_shared<gathering>();
  all->missing = watched_.size() + 1;
  all->then = std::move(then);
  for (const auto& [name, actor] : watched_) {
    request(actor, settings_.status_timeout, status_atom_v)
      .then(
        [all, id = actor.id()](const actor_status& status) {
          all->status_of[id] = status;
          all->arrived();
        },
        // Stuck, busy or gone: it is shown without.
        [all](const caf::error&) { all->arrived(); });
  }
  gather_queue(all, std::min<std::size_t>(2, readers_.size()));
}

void inspector::gather_queue(const std::shared_ptr<gathering>& into, std::size_t tries) {
  if (tries == 0)
    return into->arrived();
  const auto& reader = readers_[next_reader_++ % readers_.size()];
  request(reader, settings_.read_timeout, stats_atom_v)
    .then(
      [into](const expected<queue_stats>& stats) {
        if (stats)
          into->queue = *stats;
        into->arrived();
      },
      // The list may have been replaced meanwhile.
      [this, into, tries](const caf::error&) { gather_queue(into, readers_.empty() ? 0 : tries - 1); });
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
