/// What every actor test starts from: CAF's deterministic test coordinator with KCX's message types.
#pragma once

#include "actors/interfaces.hpp"

#include <caf/actor_system_config.hpp>

#ifndef FAIL
#define FAIL CAF_FAIL // caf/test/dsl.hpp uses the name in a template of its fixture.
#endif
#include <caf/test/dsl.hpp>

#include <chrono>
#include <optional>

namespace kcx::test {

struct actor_config : caf::actor_system_config {
  actor_config() {
    add_message_types<caf::id_block::kcx_messages>();
    add_message_types<caf::id_block::kcx_handles>();
    config_file_path = "";
  }
};

/// Actors run only when the test says so (run()), and time passes only when it says so (advance_time()).
struct actor_fixture : test_coordinator_fixture<actor_config> {
  /// Sends a request whose answer take() fetches later.
  template <class Handle, class... Args>
  auto ask(const Handle& whom, Args&&... args) {
    return self->request(whom, caf::infinite, std::forward<Args>(args)...);
  }

  /// The answer, if it has been sent already; nothing otherwise.
  template <class Reply, class Pending>
  std::optional<Reply> take(Pending& pending) {
    std::optional<Reply> result;
    if (self->mailbox().empty())
      return result;
    pending.receive(
      [&](Reply& reply) { result = std::move(reply); },
      [](caf::error& problem) { CAF_FAIL("an error instead of an answer: " << caf::to_string(problem)); });
    return result;
  }
};

} // namespace kcx::test
