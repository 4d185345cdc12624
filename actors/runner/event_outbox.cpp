#include "actors/runner/event_outbox.hpp"

#include <utility>

namespace kcx {

namespace {

bool can_wait(const runner_event& event) noexcept {
  return std::holds_alternative<started_event>(event) || std::holds_alternative<step_event>(event);
}

} // namespace

void event_outbox::add(const runner_event& event, time_point now) {
  const auto frame = encode(event);
  if (!frame)
    return;
  if (can_wait(event)) {
    waiting_ += *frame;
    if (!due_)
      due_ = now + patience;
    return;
  }
  if (std::holds_alternative<finished_event>(event))
    waiting_.clear();
  release();
  unsent_ += *frame;
}

std::string& event_outbox::unsent(time_point now) {
  if (due_ && now >= *due_)
    release();
  return unsent_;
}

void event_outbox::release() {
  due_.reset();
  unsent_ += std::exchange(waiting_, {});
}

} // namespace kcx
