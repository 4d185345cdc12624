#include "actors/cli/follow/events.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/exit_code.hpp"
#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/event_reader.hpp"
#include "actors/cli/member.hpp"
#include "actors/cli/view/screen.hpp"
#include "actors/cli/view/text.hpp"
#include "actors/http/message/message.hpp"

#include <algorithm>
#include <thread>

namespace kcx::cli {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

std::string target_of(const invocation& what, const std::string& last_id) {
  std::string target = "/v1/events?";
  if (!what.ids.empty())
    target += "job=" + std::to_string(what.ids.front()) + '&';
  for (const auto& [name, value] : {std::pair{"project", &what.list.project}, {"queue", &what.list.queue}})
    if (!value->empty())
      target += std::string{name} + '=' + http::percent_encoded(*value) + '&';
  if (!last_id.empty())
    target += "after=" + last_id + '&';
  target.pop_back();
  return target;
}

std::string line_of(const json& event) {
  const auto text = [&](const char* name) { return text_at(event, name); };
  auto line = text("at") + "  job " + std::to_string(event.value("job", std::int64_t{0})) + " " + text("name") + "  " +
              text("state");
  if (const auto reason = text("reason"); !reason.empty())
    line += " (" + reason + ")";
  if (const auto attempt = event.value("attempt", 0); attempt > 1)
    line += "  attempt " + std::to_string(attempt);
  if (const auto worker = text("worker"); !worker.empty())
    line += "  " + worker;
  return line;
}

} // namespace

int follow_events(const invocation& what) {
  node_client node{what.where};
  screen out{what.quiet};
  bool open = true;
  std::string last_id;
  const auto show = [&](const server_event& each) {
    const auto event = json::parse(each.data, nullptr, false);
    if (event.is_object())
      open = out.write(what.json ? each.data + '\n' : visible(line_of(event)) + '\n');
    return open;
  };
  auto last_heard = std::chrono::steady_clock::now();
  bool told = false;
  for (;;) {
    // The rest of an event whose connection broke does not come: each connection has a reader of its own.
    event_reader events{show};
    auto answer = node.stream(
      target_of(what, last_id),
      [&](std::string_view piece) {
        last_heard = std::chrono::steady_clock::now();
        told = false;
        const bool go_on = events.take(piece);
        if (!events.last_id().empty())
          last_id = events.last_id();
        return go_on;
      },
      longest_silence);
    if (!open)
      return exit_codes::failed;
    const auto wait = answer && answer->ok() ? 0ms : another_try(answer, asked_for::state);
    if (!wait)
      return tell(what, *answer);
    const auto left = what.patience - (std::chrono::steady_clock::now() - last_heard);
    if (left <= 0ms && answer && !answer->ok())
      return tell(what, *answer);
    if (left <= 0ms)
      return tell(what, answer ? error{ec::system_failed, "the node ended the stream", {}} : answer.error());
    if (!std::exchange(told, true))
      out.note("the connection was lost; trying again");
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(std::max(500ms, *wait), left));
  }
}

} // namespace kcx::cli
