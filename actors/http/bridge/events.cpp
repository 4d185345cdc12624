// The bridge's call for state changes: a stream that goes on for ever.
#include "actors/http/bridge/bridge.hpp"
#include "actors/http/bridge/requests.hpp"
#include "actors/http/message/problem.hpp"

#include <caf/send.hpp>

namespace kcx {

namespace {

/// Commits come by the thousand a second: followers look this often at the most.
constexpr std::chrono::milliseconds events_pause{20};

} // namespace

void http_bridge::events(const call& ask) {
  auto filter = http::parse_event_query(ask.request());
  if (!filter)
    return ask.answer(http::problem(http::kinds::invalid_parameter, filter.error().message));
  const auto id = next_id_++;
  const http_bridge_actor self{this};
  auto body = std::make_shared<http::event_feed>([self, id] { caf::anon_send(self, grew_atom_v, follower_id{id}); },
                                                 [self, id] { caf::anon_send(self, expire_atom_v, id); });
  // A client that is cut off before its first event must come back to where it began.
  if (filter->after)
    body->put("retry: 1000\n\n");
  feeds_.emplace(id, feed{*std::move(filter), false, false, true, ask.who(), body});
  http::response answer;
  answer.headers.add("Content-Type", "text/event-stream");
  answer.headers.add("Cache-Control", "no-store");
  answer.headers.add("X-Accel-Buffering", "no");
  answer.stream = std::move(body);
  ask.answer(std::move(answer));
  start_ticking();
  read_events(id);
}

void http_bridge::read_events(std::uint64_t id) {
  const auto at = feeds_.find(id);
  if (at == feeds_.end())
    return;
  auto& each = at->second;
  // Without a position only the present one is looked up, which must not wait for the client.
  if (each.reading || !each.behind || (!each.hungry && each.filter.after))
    return;
  each.reading = true;
  each.behind = false;
  read<event_page>([this, id](expected<event_page> page) { got_events(id, page); }, events_atom_v, each.filter);
}

void http_bridge::got_events(std::uint64_t id, const expected<event_page>& page) {
  const auto at = feeds_.find(id);
  if (at == feeds_.end())
    return;
  auto& each = at->second;
  each.reading = false;
  if (!page) {
    // The next tick tries again.
    each.behind = true;
    spdlog::warn("http_bridge: cannot read events: {}", page.error().message);
    return;
  }
  const auto body = each.body.lock();
  if (!body)
    return;
  if (settings_.tokens->ended(each.who))
    return end_open_calls();
  if (!each.filter.after)
    body->put("retry: 1000\nid: " + std::to_string(page->last) + "\n\n");
  each.filter.after = page->last;
  each.behind = each.behind || page->more;
  if (!page->items.empty()) {
    each.hungry = false;
    body->put(http::encode_events(page->items));
  }
  read_events(id);
}

void http_bridge::wake_feeds() {
  for (auto& [id, each] : feeds_)
    each.behind = true;
  if (feeds_.empty() || feeds_waking_)
    return;
  feeds_waking_ = true;
  delayed_send(this, events_pause, expire_atom_v, wake_feeds_id);
}

void http_bridge::feeds_awake() {
  feeds_waking_ = false;
  std::vector<std::uint64_t> ids;
  for (const auto& [id, each] : feeds_)
    ids.push_back(id);
  for (const auto id : ids)
    read_events(id);
}

} // namespace kcx
