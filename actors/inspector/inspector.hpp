/// The INSPECTOR actor: answers the inspection port. See inspector_actor in interfaces.hpp.
///
/// Without a token: counts, actors, health. Jobs are for a browser's session, or a token, that may read; sessions hold
/// for the API, too. What it shows of actors comes from the registry's atomic counters and so includes those that are
/// stuck; what an actor says of itself is asked for with a short timeout and left out if it does not come. Losing this
/// actor loses nothing.
#pragma once

#include "actors/actor_base.hpp"
#include "actors/http/api/token_table.hpp"
#include "actors/http/message/exchange.hpp"
#include "actors/inspector/actor_tree.hpp"
#include "actors/interfaces.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kcx {

struct inspector_settings {
  /// Never null.
  std::shared_ptr<http::token_table> tokens = nullptr;
  /// Shown on the page, without `slots`: version, pid, started_at, http, inspect. No data_dir: no token is asked.
  nlohmann::json node = nlohmann::json::object();
  /// How many slots there are now.
  std::function<std::uint32_t()> slots = [] { return 1U; };
  std::function<timestamp()> clock = wall_clock_now;
  /// How long an actor may take to tell of itself.
  std::chrono::milliseconds status_timeout{100};
  std::chrono::milliseconds read_timeout{1'000};
};

/// Runs in the pool; blocks nowhere.
class inspector : public actor_base<inspector_actor> {
public:
  using watched_actors = std::vector<std::pair<std::string, status_actor>>;

  inspector(caf::actor_config& cfg, std::vector<reader_actor> readers, inspector_settings settings);

  behavior_type make_behavior() override;

private:
  /// Lets go of the others: they may know this actor, and a ring of handles would keep their threads for ever.
  void on_stop() noexcept override;

  /// What one answer is made of, gathered from several actors; shared by the requests under way.
  struct gathering {
    std::map<std::uint64_t, nlohmann::json> status_of;
    std::optional<queue_stats> queue;
    std::size_t missing = 0;
    std::function<void(const gathering&)> then;

    void arrived() {
      if (--missing == 0)
        then(*this);
    }
  };

  void handle(const http_exchange_ptr& exchange);
  void carry_out(const http::route& where, const http_exchange_ptr& exchange);
  void health(const http_exchange_ptr& exchange);
  void jobs(const http_exchange_ptr& exchange);
  void ask_for_jobs(const http_exchange_ptr& exchange, std::size_t tries);
  void begin_session(const http_exchange_ptr& exchange);
  void end_session(const http_exchange_ptr& exchange);
  void actors(const http_exchange_ptr& exchange);
  void metrics(const http_exchange_ptr& exchange);
  void ready(const http_exchange_ptr& exchange);
  /// Asks every watched actor and one reader; `then` runs when all have answered or their time is up.
  void gather(std::function<void(const gathering&)> then);
  void gather_from(const watched_actors& asked, std::chrono::milliseconds limit,
                   std::function<void(const gathering&)> then);
  /// Counting takes time in proportion to all jobs, and nobody needs a token to have it done: there is one count at a
  /// time, and it serves for a second, or ten times as long as it took. One that failed serves as long as it took.
  void gather_queue(const std::shared_ptr<gathering>& into);
  void count_jobs(timestamp asked_at, std::size_t tries);
  void counted(timestamp asked_at, std::optional<queue_stats> stats);
  [[nodiscard]] nlohmann::json status_of(const gathering& from, std::string_view name) const;

  std::vector<reader_actor> readers_;
  inspector_settings settings_;
  watched_actors watched_;
  std::size_t next_reader_ = 0;
  bool draining_ = false;
  /// The latest count, nothing if it failed, and until when it serves.
  std::optional<queue_stats> counted_;
  timestamp counted_until_;
  /// Who waits for the count under way.
  std::vector<std::shared_ptr<gathering>> count_waiters_;
};

} // namespace kcx
