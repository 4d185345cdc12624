// The bridge's calls about queues: list, pause, resume.
#include "actors/http/api/json_body.hpp"
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"
#include "storage/job_values.hpp"

namespace kcx {

namespace {

nlohmann::json queue_document(const queue_info& queue) {
  nlohmann::json document{{"name", queue.name},       {"queued", queue.queued},
                          {"running", queue.running}, {"paused", queue.paused.has_value()},
                          {"paused_at", nullptr},     {"paused_by", nullptr}};
  if (queue.paused) {
    document["paused_at"] = to_rfc3339(queue.paused->at);
    document["paused_by"] = queue.paused->by;
  }
  return document;
}

} // namespace

void http_bridge::list_queues(const call& ask) {
  read<std::vector<queue_info>>(
    [ask](expected<std::vector<queue_info>> queues) {
      if (!queues)
        return ask.answer(queues.error());
      auto items = nlohmann::json::array();
      for (const auto& each : *queues)
        items.push_back(queue_document(each));
      ask.answer_json(200, {{"items", std::move(items)}});
    },
    queues_atom_v);
}

void http_bridge::pause_queue(const call& ask) {
  if (!is_queue_name(ask.name))
    return ask.answer({ec::invalid_input, "no queue can have this name: " + std::string{queue_name_rule}, {}});
  write<kcx::done>(
    peers_.database, [this, ask](outcome result) { show_queue(ask, result); }, pause_atom_v, ask.name, ask.who().name);
}

void http_bridge::resume_queue(const call& ask) {
  write<kcx::done>(
    peers_.database, [this, ask](outcome result) { show_queue(ask, result); }, resume_atom_v, ask.name);
}

void http_bridge::show_queue(const call& ask, const outcome& result) {
  if (!result)
    return ask.answer(result.error());
  read<queue_info>(
    [ask](expected<queue_info> queue) {
      if (queue)
        ask.answer_json(200, queue_document(*queue));
      else
        ask.answer(unread_write(queue.error()));
    },
    queues_atom_v, ask.name);
}

} // namespace kcx
