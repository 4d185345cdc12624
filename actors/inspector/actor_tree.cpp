#include "actors/inspector/actor_tree.hpp"

#include "actors/actor_registry.hpp"

#include <algorithm>

namespace kcx {

namespace {

double milliseconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double, std::milli>(span).count();
}

} // namespace

std::vector<actor_sample> sample_actors() {
  const auto& registry = actor_registry::instance();
  const auto living = registry.snapshot();
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  std::vector<actor_sample> result;
  for (const auto& each : living) {
    actor_sample sample;
    sample.id = each->id;
    sample.parent = each->parent;
    sample.name = each->name;
    sample.own_thread = each->own_thread;
    sample.mailbox = each->mailbox();
    sample.received = each->received.load(std::memory_order_relaxed);
    sample.handled = each->handled.load(std::memory_order_relaxed);
    sample.busy = std::chrono::nanoseconds{each->busy_ns.load(std::memory_order_relaxed)};
    sample.longest = std::chrono::nanoseconds{each->longest_ns.load(std::memory_order_relaxed)};
    if (const auto since = each->in_handler_since_ns.load(std::memory_order_relaxed); since != 0)
      sample.in_handler = std::max(std::chrono::nanoseconds{0}, now - std::chrono::nanoseconds{since});
    sample.restarts = registry.failures(each->name);
    result.push_back(std::move(sample));
  }
  return result;
}

nlohmann::json actor_document(const actor_sample& actor, const nlohmann::json& status) {
  nlohmann::json document{{"id", actor.id},
                          {"name", actor.name},
                          {"parent", actor.parent},
                          {"mailbox", actor.mailbox},
                          {"received", actor.received},
                          {"handled", actor.handled},
                          {"busy_ms", milliseconds(actor.busy)},
                          {"longest_ms", milliseconds(actor.longest)},
                          {"in_handler_ms", nullptr},
                          {"restarts", actor.restarts},
                          {"thread", actor.own_thread ? "own" : "pool"},
                          {"status", nullptr}};
  if (actor.in_handler.count() >= 0)
    document["in_handler_ms"] = milliseconds(actor.in_handler);
  document["status"] = status;
  return document;
}

} // namespace kcx
