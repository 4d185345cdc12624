#include "actors/cli/jobs/queue_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/member.hpp"
#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"
#include "actors/http/message/message.hpp"

#include <iostream>
#include <unistd.h>
#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

std::int64_t count_of(const json& document, const char* key) {
  return document.value(key, std::int64_t{0});
}

/// What the filter options say, as a body.
json filter_document(const list_flags& flags) {
  auto filter = json::object();
  if (!flags.states.empty())
    filter["state"] = flags.states;
  const std::pair<const char*, const std::string*> words[] = {{"project", &flags.project},
                                                              {"queue", &flags.queue},
                                                              {"name", &flags.name},
                                                              {"label", &flags.label},
                                                              {"group", &flags.group}};
  for (const auto& [name, value] : words)
    if (!value->empty())
      filter[name] = *value;
  return filter;
}

std::string created_line(std::int64_t id, const json& job) {
  return "job " + std::to_string(job.value("id", std::int64_t{0})) + " submitted, again for job " + std::to_string(id);
}

std::string queue_line(const json& queue) {
  std::string text = visible(queue.value("name", "")) + ": " + std::to_string(count_of(queue, "queued")) + " queued, " +
                     std::to_string(count_of(queue, "running")) + " running";
  if (queue.value("paused", false))
    text += ", paused";
  return text;
}

} // namespace

int retry_jobs(const invocation& what) {
  const auto secrets = read_secrets(what.job, std::cin);
  if (!secrets)
    return tell(what, secrets.error());
  json body = nullptr;
  if (!secrets->empty())
    body["secrets"] = *secrets;
  return for_each_id(what, {.method = "POST",
                            .target = [](std::int64_t id) { return job_target(id) + "/retry"; },
                            .body = body,
                            .line = created_line,
                            .makes_jobs = true});
}

int remove_jobs(const invocation& what) {
  return for_each_id(what,
                     {.method = "DELETE",
                      .target = job_target,
                      .line = [](std::int64_t id, const json&) { return "job " + std::to_string(id) + " removed"; },
                      .done = "removed"});
}

int explain(const invocation& what) {
  return for_each_id(what, {.method = "GET",
                            .target = [](std::int64_t id) { return job_target(id) + "/why"; },
                            .line =
                              [](std::int64_t id, const json& why) {
                                return "job " + std::to_string(id) + " " + visible(text_at(why, "state")) + ": " +
                                       visible(text_at(why, "text"));
                              }});
}

int change(const invocation& what) {
  auto patch = json::object();
  if (what.job.priority)
    patch["priority"] = *what.job.priority;
  if (what.job.run_at)
    patch["run_at"] = *what.job.run_at == "now" ? json(nullptr) : json(*what.job.run_at);
  if (!what.job.labels.empty())
    patch["labels"] = what.job.labels;
  return for_each_id(
    what, {.method = "PATCH", .target = job_target, .body = patch, .line = [](std::int64_t, const json& job) {
             return job_summary(job);
           }});
}

int cancel_matching(const invocation& what) {
  return once(what, "POST", "/v1/jobs/cancel", filter_document(what.list), [](const json& answer) {
    return counted(count_of(answer, "cancelled"), "job") + " cancelled, " +
           std::to_string(count_of(answer, "cancelling")) + " told to end";
  });
}

int requeue_or_discard(const invocation& what) {
  const bool requeue = what.what == verb::dead_letters_requeue;
  const std::string action = requeue ? "/requeue" : "/discard";
  if (!what.ids.empty())
    return for_each_id(
      what, {.method = "POST",
             .target = [&](std::int64_t id) { return "/v1/dead-letters/" + std::to_string(id) + action; },
             .line =
               [&](std::int64_t id, const json& job) {
                 return requeue ? created_line(id, job) : "job " + std::to_string(id) + " is no dead letter any more";
               },
             .done = "discarded",
             .makes_jobs = requeue});
  int all = exit_codes::success;
  const auto line = [&](const json& answer) {
    for (const auto& each : answer.value("refusals", json::array())) {
      std::cerr << "kcx: job " << count_of(each, "id") << ": " << visible(text_at(each, "detail")) << '\n';
      all = exit_codes::refused;
    }
    return counted(count_of(answer, requeue ? "requeued" : "discarded"), "job") +
           (requeue ? " requeued, " : " discarded, ") + std::to_string(count_of(answer, "refused")) + " refused";
  };
  const int code = once(what, "POST", "/v1/dead-letters" + action, filter_document(what.list), line);
  return code == exit_codes::success ? all : code;
}

int list_queues(const invocation& what) {
  return once(what, "GET", "/v1/queues", nullptr, [](const json& answer) {
    std::string text;
    for (const auto& queue : answer.value("items", json::array()))
      text += (text.empty() ? "" : "\n") + queue_line(queue);
    return text.empty() ? "no queue has unfinished jobs or is paused" : text;
  });
}

int pause_or_resume(const invocation& what) {
  const auto* action = what.what == verb::pause ? "/pause" : "/resume";
  return once(what, "POST", "/v1/queues/" + http::percent_encoded(what.names.front()) + action, nullptr, queue_line);
}

int cordon_or_uncordon(const invocation& what) {
  const bool on = what.what == verb::cordon;
  return once(what, "POST", "/v1/workers/" + http::percent_encoded(what.names.front()) + (on ? "/cordon" : "/uncordon"),
              nullptr, [&](const json&) {
                return visible(what.names.front()) + (on ? " is given no more jobs" : " is given jobs again");
              });
}

int list_workers(const invocation& what) {
  return once(what, "GET", "/v1/workers", nullptr, [](const json& answer) {
    auto text = workers_text(answer.value("items", json::array()), look_of(STDOUT_FILENO));
    text.pop_back(); // once() ends the line
    return text;
  });
}

int change_slots(const invocation& what) {
  return once(what, "PATCH", "/v1/node", {{"slots", what.slots.value_or(1)}},
              [](const json& node) { return "the node has " + counted(count_of(node, "slots"), "slot"); });
}

} // namespace kcx::cli
