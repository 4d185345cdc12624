#include "actors/cli/follow/event_reader.hpp"

#include <algorithm>

namespace kcx::cli {

namespace {

server_event parsed(std::string_view block) {
  server_event event;
  while (!block.empty()) {
    const auto line = block.substr(0, block.find('\n'));
    block.remove_prefix(std::min(line.size() + 1, block.size()));
    for (auto [field, to] : {std::pair{"id: ", &event.id}, {"event: ", &event.name}, {"data: ", &event.data}})
      if (line.starts_with(field))
        *to = line.substr(std::string_view{field}.size());
  }
  return event;
}

} // namespace

bool event_reader::take(std::string_view piece) {
  // Only what is new can end an event, but its end may have begun before.
  auto from = rest_.empty() ? 0 : rest_.size() - 1;
  rest_ += piece;
  std::size_t begin = 0;
  for (auto end = rest_.find("\n\n", from); end != std::string::npos; end = rest_.find("\n\n", from)) {
    const auto event = parsed(std::string_view{rest_}.substr(begin, end - begin));
    begin = from = end + 2;
    if (!event.id.empty())
      last_id_ = event.id;
    if (!event.data.empty() && !each_(event))
      return false;
  }
  rest_.erase(0, begin);
  return true;
}

} // namespace kcx::cli
