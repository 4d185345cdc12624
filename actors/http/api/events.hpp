/// The stream of state changes as a response body: server-sent events, one per change.
///
/// The bridge makes one per client, reads the changes from a reader and puts them here; the session pulls. At most one
/// page of changes is held per client: the bridge reads the next only when the client has taken the one before.
/// Knows neither CAF nor Beast.
#pragma once

#include "actors/http/message/message.hpp"
#include "config/error.hpp"
#include "storage/job_reader.hpp"

#include <functional>
#include <mutex>
#include <span>
#include <string>

namespace kcx::http {

/// What is asked of the events: `project`, `queue`, `job`, and where to begin: the Last-Event-ID header or, before it,
/// the parameter `after`; without either, with the next change. Fails with invalid_input.
[[nodiscard]] expected<event_filter> parse_event_query(const request& ask);

/// Each as an event `job` with its number as the id.
[[nodiscard]] std::string encode_events(std::span<const job_event> events);

/// Also serves other bodies that are made piece by piece. All members may be called from any thread.
class event_feed : public body_source {
public:
  /// `wanted` is called when the client has taken everything; `gone` once, when it went away. Neither may throw or call
  /// back.
  event_feed(std::function<void()> wanted, std::function<void()> gone)
    : wanted_{std::move(wanted)}, gone_{std::move(gone)} {}
  ~event_feed() override { event_feed::cancel(); }

  /// What to send next, after what is still there.
  void put(std::string encoded);
  /// Sends a comment if the client waits: keeps proxies and browsers from giving up.
  void ping();
  /// The client has taken everything and waits for more.
  [[nodiscard]] bool hungry() const;
  /// What is still there is sent, then the body ends.
  void finish();
  /// The connection is cut: the client comes back and goes on where it was.
  void fail();

  void next(std::size_t max_bytes, chunk_handler done) override;
  void cancel() noexcept override;

private:
  void deliver(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::function<void()> wanted_;
  std::function<void()> gone_;
  chunk_handler pending_;
  std::size_t most_ = 0;
  std::string out_;
  std::size_t out_at_ = 0;
  bool failed_ = false;
  bool ended_ = false;
};

} // namespace kcx::http
