#include "actors/inspector/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>

namespace kcx {

namespace {

// The registry lives for one scrape: everything is read anew, and an actor that is gone leaves no line behind.

void gauge(prometheus::Registry& registry, const char* name, const char* help, double value,
           const prometheus::Labels& labels = {}) {
  prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels).Set(value);
}

void counter(prometheus::Registry& registry, const char* name, const char* help, double value,
             const prometheus::Labels& labels = {}) {
  prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels).Increment(value);
}

double seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

/// Actors of one name together: ids change with every restart and would make endless series.
struct group_figures {
  double living = 0;
  double mailbox = 0;
  double handled = 0;
  double restarts = 0;
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds longest{0};
  std::chrono::nanoseconds in_handler{0};
};

std::map<std::string, group_figures> grouped(const std::vector<actor_sample>& actors) {
  std::map<std::string, group_figures> groups;
  for (const auto& each : actors) {
    auto& group = groups[each.name];
    group.living += 1;
    group.mailbox += static_cast<double>(each.mailbox);
    group.handled += static_cast<double>(each.handled);
    group.restarts = static_cast<double>(each.restarts);
    group.busy += each.busy;
    group.longest = std::max(group.longest, each.longest);
    group.in_handler = std::max(group.in_handler, each.in_handler);
  }
  return groups;
}

void add_actors(prometheus::Registry& registry, const std::vector<actor_sample>& actors) {
  for (const auto& [name, group] : grouped(actors)) {
    const prometheus::Labels labels{{"actor", name}};
    gauge(registry, "kcx_actors", "Living actors.", group.living, labels);
    gauge(registry, "kcx_actor_mailbox_depth", "Messages received and not yet handled.", group.mailbox, labels);
    counter(registry, "kcx_actor_messages_total", "Messages handled by the actors that live.", group.handled, labels);
    counter(registry, "kcx_actor_busy_seconds_total", "Time spent in handlers by the actors that live.",
            seconds(group.busy), labels);
    gauge(registry, "kcx_actor_longest_handler_seconds", "The longest single handler call.", seconds(group.longest),
          labels);
    gauge(registry, "kcx_actor_in_handler_seconds", "How long the handler at work has been running; 0 while idle.",
          seconds(group.in_handler), labels);
    counter(registry, "kcx_actor_restarts_total", "Actors that died and were replaced.", group.restarts, labels);
  }
}

void add_queue(prometheus::Registry& registry, const queue_stats& queue, timestamp now) {
  for (auto number = 0; number <= static_cast<int>(job_state::skipped); ++number) {
    const auto state = static_cast<job_state>(number);
    const auto found = queue.jobs_by_state.find(state);
    gauge(registry, "kcx_jobs", "Jobs by state.",
          found == queue.jobs_by_state.end() ? 0.0 : static_cast<double>(found->second),
          {{"state", std::string{to_string(state)}}});
  }
  std::chrono::milliseconds age{0};
  if (queue.oldest_queued_at)
    age = std::max(age, now - *queue.oldest_queued_at);
  gauge(registry, "kcx_oldest_queued_age_seconds", "How long the oldest queued job has been ready; 0 if none is.",
        seconds(age));
  gauge(registry, "kcx_database_bytes", "Size of the database file.", static_cast<double>(queue.database_bytes));
  gauge(registry, "kcx_wal_bytes", "Size of the write-ahead log.", static_cast<double>(queue.wal_bytes));
}

double number(const nlohmann::json& status, const char* key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_number() ? found->get<double>() : 0.0;
}

void add_database(prometheus::Registry& registry, const nlohmann::json& status) {
  counter(registry, "kcx_commits_total", "Transactions made durable.", number(status, "commits"));
  counter(registry, "kcx_failed_commits_total", "Transactions that were lost.", number(status, "failed_commits"));
  counter(registry, "kcx_committed_operations_total", "Writes made durable; divided by commits, the batch size.",
          number(status, "operations"));
  gauge(registry, "kcx_commit_batch_largest", "The most writes one transaction held.", number(status, "largest_batch"));
  counter(registry, "kcx_commit_seconds_total", "Time spent in commits.", number(status, "commit_ms_total") / 1'000);
  gauge(registry, "kcx_commit_longest_seconds", "The longest commit.", number(status, "commit_ms_longest") / 1'000);
}

} // namespace

std::string metrics_text(const metrics_input& input) {
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  gauge(registry, "kcx_build_info", "Always 1; the version is a label.", 1, {{"version", input.version}});
  add_actors(registry, input.actors);
  gauge(registry, "kcx_queue_readable", "1 if a reader answered this scrape.", input.queue ? 1 : 0);
  if (input.queue)
    add_queue(registry, *input.queue, input.now);
  gauge(registry, "kcx_database_answering", "1 if the database actor answered this scrape in time.",
        input.database.is_object() ? 1 : 0);
  if (input.database.is_object())
    add_database(registry, input.database);
  return prometheus::TextSerializer{}.Serialize(registry.Collect());
}

} // namespace kcx
