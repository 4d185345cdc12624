/// A node: everything that lives as long as the process does, built in order and taken down in reverse.
///
/// Start: data directory (lock) → database file → what an earlier node left behind is ended and marked → process thread
/// → listeners, which answer 503 → actors → node.json. Stop: workers (drain or now) → listeners → the other actors →
/// database → process thread. kcx_node.cpp owns the one instance and turns signals into stop().
#pragma once

#include "config/error.hpp"
#include "config/settings.hpp"
#include "storage/time.hpp"

#include <functional>
#include <memory>
#include <string>

namespace kcx {

class node {
public:
  /// Starts a node and returns when it serves. `on_end` is called once, on some thread of the node, when its last actor
  /// has ended: after a stop, or because a part of it could not be kept alive. Fails with the cause; then nothing runs
  /// and nothing was changed, except that jobs of a node that died are marked.
  /// `on_drain` is called when a drain begins, by stop() or over HTTP: who runs the node gives it its deadline.
  static expected<std::unique_ptr<node>> start(settings options, std::function<void()> on_end,
                                               std::function<void()> on_drain = {});

  /// Takes the rest down; waits for it. Call it after `on_end`.
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  /// Begins to stop; may be called again to turn a drain into a stop now. Returns at once. Any thread.
  void stop(bool drain);

  /// Takes over what `fresh` changes and a running node can change, and logs what that is. Settings that need a restart
  /// stay as they are. Any thread.
  void reload(const settings& fresh);

  /// After `on_end`: why the node ended by itself, or nothing if it was told to stop.
  [[nodiscard]] std::string failure() const;

  [[nodiscard]] const std::string& http_url() const noexcept;
  [[nodiscard]] const std::string& inspect_url() const noexcept;

private:
  class impl;
  explicit node(std::unique_ptr<impl> parts);

  std::unique_ptr<impl> impl_;
};

} // namespace kcx
