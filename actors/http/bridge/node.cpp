// The bridge's calls about the node: workers, stats, drain, faults, readiness.
#include "actors/http/api/json_body.hpp"
#include "actors/http/api/readiness.hpp"
#include "actors/http/api/stats_json.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/json_input.hpp"

#include <caf/send.hpp>

namespace kcx {

namespace {

nlohmann::json worker_document(const worker_info& each) {
  nlohmann::json document{{"name", each.name},  {"state", each.state},   {"job", nullptr},
                          {"attempt", nullptr}, {"runner_pid", nullptr}, {"cordoned", each.cordoned}};
  if (each.attempt) {
    document["job"] = each.attempt->job.value;
    document["attempt"] = each.attempt->attempt;
  }
  if (each.runner_pid > 0)
    document["runner_pid"] = each.runner_pid;
  return document;
}

} // namespace

void http_bridge::list_workers(const call& ask) {
  request(peers_.workers, settings_.read_timeout, list_atom_v)
    .then(
      [ask](const std::vector<worker_info>& workers) {
        auto items = nlohmann::json::array();
        for (const auto& each : workers)
          items.push_back(worker_document(each));
        ask.answer_json(200, {{"items", std::move(items)}});
      },
      [ask](const caf::error& cause) {
        ask.answer({ec::timeout, "the worker supervisor did not answer (" + caf::to_string(cause) + ")", {}});
      });
}

void http_bridge::stats(const call& ask) {
  read<queue_stats>(
    [ask](expected<queue_stats> stats) {
      if (stats)
        ask.answer_json(200, http::stats_document(*stats));
      else
        ask.answer(stats.error());
    },
    stats_atom_v);
}

void http_bridge::patch_node(const call& ask) {
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  const auto& document = std::get<nlohmann::json>(body);
  json_errors errors;
  const json_place root{nullptr, ""};
  if (!document.is_object() || !document.contains("slots"))
    errors.add({&root, "slots"}, "is missing");
  else
    static_cast<void>(read_whole(errors, {&root, "slots"}, document["slots"], 1, 1'024));
  if (document.is_object())
    for (const auto& [key, value] : document.items())
      if (key != "slots")
        errors.add({&root, key}, "is not a field of this call");
  if (!errors.empty())
    return ask.answer(std::move(errors).to_error());
  const auto slots = document["slots"].get<std::uint32_t>();
  write<kcx::done>(
    peers_.workers,
    [this, ask](outcome result) {
      if (!result)
        return ask.answer(result.error());
      ask.answer_json(200, node_document());
    },
    slots_atom_v, slots);
}

void http_bridge::cordon(const call& ask, bool on) {
  write<kcx::done>(
    peers_.workers,
    [ask, on](outcome result) {
      if (result)
        ask.answer_json(200, {{"name", ask.name}, {"cordoned", on}});
      else
        ask.answer(result.error());
    },
    cordon_atom_v, ask.name, on);
}

void http_bridge::drain(const call& ask) {
  spdlog::info("http_bridge: told to drain by {}", ask.request().remote_address);
  draining_ = true;
  if (peers_.root)
    caf::anon_send(peers_.root, stop_atom_v, stop_mode::drain);
  ask.answer_json(202, node_document());
}

void http_bridge::fault_in(const call& ask) {
  if (!settings_.fault_injection)
    return ask.answer({ec::forbidden, "fault injection is off; the option fault-injection switches it on", {}});
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  const auto& document = std::get<nlohmann::json>(body);
  error wrong{ec::invalid_input, "give the actor's name and, where several have it, which one", {}};
  if (!document.is_object() || !document.contains("actor") || !document["actor"].is_string())
    wrong.fields.push_back({"/actor", "must be an actor's name as in /actors of the inspection port"});
  std::uint32_t index = 1;
  if (document.is_object() && document.contains("index")) {
    const auto given = whole_number(document["index"]);
    if (given && *given >= 1 && *given <= 1'000'000)
      index = static_cast<std::uint32_t>(*given);
    else
      wrong.fields.push_back({"/index", "must be a number from 1"});
  }
  if (!wrong.fields.empty())
    return ask.answer(wrong);
  write<kcx::done>(
    peers_.root,
    [ask, document](outcome result) {
      if (result)
        ask.answer_json(202, document);
      else
        ask.answer(result.error());
    },
    fault_atom_v, document["actor"].get<std::string>(), index);
}

void http_bridge::ready(const call& ask) {
  if (draining_)
    return ask.answer({ec::draining, "the node is stopping", {}});
  // The database answers only between two commits, a reader only when its file can be read: both prove that they work.
  request(peers_.database, settings_.read_timeout, status_atom_v)
    .then(
      [this, ask](const actor_status& now) {
        if (auto refusal = http::why_not_ready(now))
          return ask.answer(*std::move(refusal));
        // The number of the last change: what there is to count may be any number.
        read<event_page>(
          [ask](expected<event_page> last) {
            if (last)
              ask.answer(http::text_response(200, "ready\n"));
            else
              ask.answer(last.error());
          },
          events_atom_v, event_filter{});
      },
      [ask](const caf::error& cause) {
        ask.answer({ec::timeout, "the database did not answer (" + caf::to_string(cause) + ")", {}});
      });
}

} // namespace kcx
