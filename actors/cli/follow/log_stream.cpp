#include "actors/cli/follow/log_stream.hpp"

#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/event_reader.hpp"
#include "config/base64.hpp"
#include "config/units.hpp"

#include <utility>

namespace kcx::cli {

namespace {

using nlohmann::json;

std::string target_of(const log_place& place) {
  auto target = "/v1/jobs/" + std::to_string(place.job) + "/log?exact=1&attempt=" + std::to_string(place.attempt);
  if (place.timestamps)
    target += "&timestamps=1";
  if (place.offset > 0)
    target += "&offset=" + std::to_string(place.offset);
  else if (place.tail)
    target += "&tail=" + std::to_string(*place.tail);
  return target;
}

/// The bytes of one event.
std::optional<std::string> bytes_of(const std::string& data) {
  const auto document = json::parse(data, nullptr, false);
  if (!document.is_object())
    return std::nullopt;
  if (const auto text = document.find("text"); text != document.end() && text->is_string())
    return text->get<std::string>();
  const auto coded = document.find("base64");
  return coded != document.end() && coded->is_string() ? from_base64(coded->get_ref<const std::string&>())
                                                       : std::nullopt;
}

} // namespace

log_result read_log(node_client& node, log_place& place, const std::function<bool(std::string_view)>& write,
                    reply& refusal) {
  bool ended = false;
  bool stopped = false;
  event_reader events{[&](const server_event& event) {
    if (event.name == "end") {
      ended = true;
      return false;
    }
    const auto bytes = bytes_of(event.data);
    const auto next = parse_number(event.id, 0, INT64_MAX);
    if (!bytes || !next)
      return false; // broken: it is asked for once more
    stopped = !write(*bytes);
    place.offset = static_cast<std::uint64_t>(*next);
    return !stopped;
  }};
  auto answer = node.stream(
    target_of(place), [&](std::string_view piece) { return events.take(piece); }, longest_silence,
    "text/event-stream, application/problem+json");
  if (stopped)
    return log_result::stopped;
  if (ended)
    return log_result::ended;
  if (!answer || answer->ok())
    return log_result::broken;
  const bool again = another_try(answer, asked_for::state).has_value();
  refusal = *std::move(answer);
  if (again)
    return log_result::broken;
  return refusal.status == 404 ? log_result::missing : log_result::refused;
}

} // namespace kcx::cli
