#include "actors/actor_registry.hpp"

#include <algorithm>

namespace kcx {

namespace {

std::int64_t steady_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

} // namespace

std::uint64_t actor_figures::mailbox() const noexcept {
  // Two loads are not one moment: a message handled in between must not make the depth wrap around.
  const auto done = handled.load();
  const auto seen = received.load();
  return seen > done ? seen - done : 0;
}

actor_registry& actor_registry::instance() {
  static actor_registry registry;
  return registry;
}

std::shared_ptr<actor_figures> actor_registry::add(std::uint64_t id, std::uint64_t parent, bool own_thread) {
  auto figures = std::make_shared<actor_figures>();
  figures->id = id;
  figures->parent = parent;
  figures->own_thread = own_thread;
  const std::lock_guard lock{mutex_};
  living_.push_back(figures);
  return figures;
}

void actor_registry::remove(std::uint64_t id, bool failed) {
  const std::lock_guard lock{mutex_};
  const auto found = std::ranges::find(living_, id, [](const auto& each) { return each->id; });
  if (found == living_.end())
    return;
  if (failed)
    ++failures_[(*found)->name];
  living_.erase(found);
}

std::vector<std::shared_ptr<const actor_figures>> actor_registry::snapshot() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::shared_ptr<const actor_figures>> result;
  for (const auto& each : living_) {
    // An actor has no name until its constructor is done: it is not there yet.
    if (!each->name.empty())
      result.push_back(each);
  }
  return result;
}

std::uint64_t actor_registry::failures(const std::string& name) const {
  const std::lock_guard lock{mutex_};
  const auto found = failures_.find(name);
  return found == failures_.end() ? 0 : found->second;
}

void actor_registry::set_name(actor_figures& figures, std::string name) {
  const std::lock_guard lock{mutex_};
  figures.name = std::move(name);
}

handler_timer::handler_timer(actor_figures& figures) noexcept : figures_{figures}, began_{steady_ns()} {
  figures_.in_handler_since_ns.store(began_, std::memory_order_relaxed);
}

handler_timer::~handler_timer() {
  const auto took = steady_ns() - began_;
  figures_.busy_ns.fetch_add(took, std::memory_order_relaxed);
  if (took > figures_.longest_ns.load(std::memory_order_relaxed))
    figures_.longest_ns.store(took, std::memory_order_relaxed);
  figures_.in_handler_since_ns.store(0, std::memory_order_relaxed);
  figures_.handled.fetch_add(1, std::memory_order_relaxed);
}

} // namespace kcx
