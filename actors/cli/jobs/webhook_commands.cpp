#include "actors/cli/jobs/webhook_commands.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/jobs/job_document.hpp"
#include "actors/cli/member.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"
#include "actors/http/message/message.hpp"

#include <iostream>
#include <unistd.h>

namespace kcx::cli {

namespace {

using nlohmann::json;

std::string webhook_target(const std::string& project) {
  return "/v1/projects/" + http::percent_encoded(project) + "/webhook";
}

std::string number_text(const json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_number() ? found->dump() : "-";
}

std::string events_text(const json& hook) {
  std::string text;
  for (const auto& each : hook.value("events", json::array()))
    text += (text.empty() ? "" : ",") + visible(each.get<std::string>());
  return text;
}

/// What came of the latest try, in a few words.
std::string result_text(const json& sent) {
  if (const auto failure = text_at(sent, "failure"); !failure.empty())
    return visible(failure);
  const auto status = number_text(sent, "status");
  return status == "-" ? status : "answered " + status;
}

std::string table_text(const table& shown) {
  const auto how = look_of(STDOUT_FILENO);
  auto text = render(shown, how.width, how.colours);
  text.pop_back(); // once() ends the line
  return text;
}

} // namespace

int set_webhook(const invocation& what) {
  json body{{"url", what.webhook.url}};
  if (!what.webhook.secret_file.empty()) {
    auto secret = read_secret_file(what.webhook.secret_file, std::cin);
    if (!secret)
      return tell(what, secret.error());
    body["secret"] = *std::move(secret);
  }
  if (!what.webhook.events.empty())
    body["events"] = what.webhook.events;
  return once(what, "PUT", webhook_target(what.webhook.project), body, [](const json& set) {
    return "jobs of " + visible(text_at(set, "project")) + " are told to " + visible(text_at(set, "url")) + ": " +
           events_text(set);
  });
}

int list_webhooks(const invocation& what) {
  return once(what, "GET", "/v1/webhooks", nullptr, [](const json& hooks) {
    table shown{{"PROJECT", "URL", "EVENTS", "SIGNED"}, {}, {1, 2}};
    for (const auto& each : hooks.value("items", json::array()))
      shown.rows.push_back({{visible(text_at(each, "project"))},
                            {visible(text_at(each, "url"))},
                            {events_text(each)},
                            {each.value("signed", false) ? "yes" : "no"}});
    return table_text(shown);
  });
}

int remove_webhook(const invocation& what) {
  node_client node{what.where};
  int code = exit_codes::success;
  const auto& project = what.webhook.project;
  if (!get_or_tell(what, node, "DELETE", webhook_target(project), code))
    return code;
  if (what.json)
    std::cout << dumped({{"project", project}, {"removed", true}});
  else
    std::cout << "jobs of " << visible(project) << " are told no more\n";
  return flushed(code);
}

int list_deliveries(const invocation& what) {
  auto target = "/v1/deliveries?limit=" + std::to_string(what.list.limit);
  if (!what.ids.empty())
    target += "&job=" + std::to_string(what.ids.front());
  if (what.webhook.state)
    target += "&state=" + *what.webhook.state;
  return once(what, "GET", target, nullptr, [](const json& page) {
    table shown{{"ID", "JOB", "EVENT", "STATE", "TRIES", "CREATED", "RESULT", "URL"}, {}, {7, 6}};
    for (const auto& each : page.value("items", json::array()))
      shown.rows.push_back({{number_text(each, "id")},
                            {number_text(each, "job")},
                            {visible(text_at(each, "event"))},
                            {visible(text_at(each, "state"))},
                            {number_text(each, "tries")},
                            {visible(text_at(each, "created_at"))},
                            {result_text(each)},
                            {visible(text_at(each, "url"))}});
    return table_text(shown);
  });
}

int redeliver(const invocation& what) {
  return for_each_id(
    what, {.method = "POST",
           .target = [](std::int64_t id) { return "/v1/deliveries/" + std::to_string(id) + "/redeliver"; },
           .line = [](std::int64_t id, const json&) { return "delivery " + std::to_string(id) + " is sent again"; }});
}

} // namespace kcx::cli
