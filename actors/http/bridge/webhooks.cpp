// The bridge's calls about webhooks: those of projects, and the log of what was delivered.
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/webhook_json.hpp"

#include <caf/send.hpp>

#include <algorithm>

namespace kcx {

void http_bridge::list_webhooks(const call& ask) {
  read<std::vector<project_webhook>>(
    [ask](expected<std::vector<project_webhook>> hooks) {
      if (!hooks)
        return ask.answer(hooks.error());
      auto items = nlohmann::json::array();
      for (const auto& each : *hooks)
        items.push_back(to_json(each));
      ask.answer_json(200, {{"items", std::move(items)}});
    },
    webhook_atom_v);
}

void http_bridge::put_webhook(const call& ask) {
  auto body = http::json_body(ask.request());
  if (auto* refusal = std::get_if<http::response>(&body))
    return ask.answer(std::move(*refusal));
  auto hook = parse_webhook(std::get<nlohmann::json>(body));
  if (!hook)
    return ask.answer(hook.error());
  const auto shown = to_json(project_webhook{ask.name, *hook, !hook->secret.empty(), settings_.clock()});
  write<kcx::done>(
    peers_.database,
    [ask, shown](outcome stored) {
      if (stored)
        ask.answer_json(200, shown);
      else
        ask.answer(stored.error());
    },
    webhook_atom_v, ask.name, std::move(*hook));
}

void http_bridge::remove_webhook(const call& ask) {
  write<kcx::done>(
    peers_.database,
    [ask](outcome gone) {
      if (!gone)
        return ask.answer(gone.error());
      http::response answer;
      answer.status = 204;
      ask.answer(std::move(answer));
    },
    webhook_atom_v, ask.name);
}

void http_bridge::list_deliveries(const call& ask) {
  const auto filter = http::parse_delivery_query(ask.request());
  if (!filter)
    return ask.answer(http::problem(http::kinds::invalid_parameter, filter.error().message));
  read<delivery_page>(
    [ask](expected<delivery_page> page) {
      if (!page)
        return ask.answer(page.error());
      auto items = nlohmann::json::array();
      for (const auto& each : page->items)
        items.push_back(to_json(each));
      const auto cursor = page->next ? nlohmann::json(std::to_string(*page->next)) : nlohmann::json();
      ask.answer_json(200, {{"items", std::move(items)}, {"next_cursor", cursor}});
    },
    deliver_atom_v, *filter);
}

void http_bridge::redeliver(const call& ask) {
  const auto id = ask.job.value;
  write<kcx::done>(
    peers_.database,
    [this, ask, id](outcome stored) {
      if (!stored)
        return ask.answer(stored.error());
      if (peers_.webhooks)
        caf::anon_send(peers_.webhooks, deliver_atom_v);
      ask.answer_json(202, {{"id", id}, {"state", to_string(delivery_state::pending)}});
    },
    deliver_atom_v, id);
}

} // namespace kcx
