/// Webhooks: who is told over HTTP of a job's states, and what was or is to be told to them (the outbox).
///
/// A delivery is written in the transaction that changes the job's state, by a trigger: whatever happens afterwards, it
/// is not lost. It is sent at least once; receivers tell repeats by its number.
#pragma once

#include "config/error.hpp"
#include "storage/job.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// What somebody can be told of: that a job runs, and how it ended.
[[nodiscard]] const std::vector<job_state>& webhook_states();

/// The webhook of all jobs of a project.
struct project_webhook {
  std::string project;
  /// Its secret is empty where it was read from the store; `is_signed` tells whether there is one.
  webhook_spec what;
  bool is_signed = false;
  timestamp created_at{};
};

enum class delivery_state : std::uint8_t {
  pending,   ///< To be sent, for the first time or again.
  delivered, ///< Answered with a 2xx.
  failed,    ///< Given up after the last try.
};
[[nodiscard]] std::string_view to_string(delivery_state state) noexcept;
[[nodiscard]] std::optional<delivery_state> parse_delivery_state(std::string_view text) noexcept;

/// One message to one receiver.
struct delivery {
  /// Never used again.
  std::int64_t id = 0;
  job_id job;
  /// The state that is told.
  job_state event = job_state::succeeded;
  std::string url;
  /// Only of what is to be sent; never shown.
  std::string secret;
  /// JSON, as it is sent.
  std::string body;
  timestamp created_at{};
  delivery_state state = delivery_state::pending;
  /// Tries so far.
  std::int32_t tries = 0;
  /// Of one that is pending.
  std::optional<timestamp> next_at{};
  std::optional<timestamp> last_at{};
  /// What the last try met: a status, or a failure in words where none came.
  std::optional<std::int32_t> status{};
  std::string failure{};
};

/// Whom a delivery goes to: scheme, host and port of its URL.
[[nodiscard]] std::string receiver_of(std::string_view url);

/// How a try went.
struct delivery_try {
  std::int64_t id = 0;
  timestamp at{};
  std::optional<std::int32_t> status{};
  std::string failure{};
  delivery_state state = delivery_state::delivered;
  /// Of one that stays pending.
  std::optional<timestamp> next_at{};
  /// Of the delivery, as they were read before it was sent.
  std::int32_t tries = 0;
};

struct due_deliveries {
  std::vector<delivery> items;
  /// When the first of the others is due.
  std::optional<timestamp> next_at{};
};

struct delivery_filter {
  std::optional<job_id> job{};
  std::optional<delivery_state> state{};
  /// Only those with a lower number: newest first.
  std::optional<std::int64_t> before{};
  /// 1 to 1,000.
  std::size_t limit = 50;
};

struct delivery_page {
  std::vector<delivery> items;
  /// Pass as `before`; nothing at the end.
  std::optional<std::int64_t> next{};
};

} // namespace kcx
