/// The settings of a running node: what of them can change without a restart, and what they are now.
#pragma once

#include "config/settings.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kcx {

/// What became of a reload, by the names of the settings, in the order of the table.
struct reload_report {
  /// These differ and are in force now.
  std::vector<std::string> changed;
  /// These differ too, but stay as they are until the node is started again.
  std::vector<std::string> kept;
};

/// Any thread may read, any thread may reload.
class live_settings {
public:
  explicit live_settings(settings now) : now_{std::make_shared<const settings>(std::move(now))} {}

  /// The settings as they are at this moment. Do not keep them: ask again.
  [[nodiscard]] std::shared_ptr<const settings> now() const {
    const std::lock_guard lock{mutex_};
    return now_;
  }

  /// Takes over those of `fresh` that can change while a node runs.
  reload_report reload(const settings& fresh);

private:
  mutable std::mutex mutex_;
  std::shared_ptr<const settings> now_;
};

/// Whether a reload takes over this setting; false also for an unknown name.
[[nodiscard]] bool changes_while_running(std::string_view name) noexcept;

} // namespace kcx
