#include "actors/runner/process_sweep.hpp"

#include "actors/runner/process_tree.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>
#include <unistd.h>

namespace kcx {

namespace {

using std::chrono::milliseconds;

/// How long one hunt may take, and how many in a row without a proof have to do.
constexpr milliseconds hunt_time{100};
constexpr int most_unsure = 5;

bool is_own_thread(pid_t id) {
  return ::access(("/proc/self/task/" + std::to_string(id)).c_str(), F_OK) == 0;
}

class marked_sweep {
public:
  marked_sweep(const std::string& marker, const std::string& workspaces) : marker_{marker}, workspaces_{workspaces} {}

  found round() {
    left_.clear();
    return hunt([this] { return all(); }, [this](pid_t pid) { return one(pid); }, hunt_time);
  }

  [[nodiscard]] std::size_t count() const noexcept { return met_.size(); }

  [[nodiscard]] error still_there() const {
    const auto first = std::to_string(*left_.begin());
    return {ec::timeout,
            std::to_string(left_.size()) + " processes of an earlier run cannot be ended, among them process " + first +
              ". No job may run beside them: end them (kill -9 " + first +
              "), or where that does not help, restart the machine or container; then start the node again",
            {}};
  }

private:
  bool left_behind(pid_t pid) const {
    if (has_environment_entry(pid, marker_))
      return !is_own_thread(pid);
    if (workspaces_.empty() || !works_below(pid, workspaces_))
      return false;
    const auto entry = entry_of(pid);
    return entry && !entry->terminal && !is_own_thread(pid);
  }

  bool all() {
    for (const auto& entry : list_processes()) {
      if (!is_alive(entry) || !left_behind(entry.pid))
        continue;
      // A job may have started something with an environment of its own.
      for (const auto& below : descendants_of(entry.pid))
        if (is_alive(below) && !is_own_thread(below.pid))
          end(below.pid);
      end(entry.pid);
    }
    return !left_.empty();
  }

  bool one(pid_t pid) {
    if (!left_behind(pid))
      return false;
    end(pid);
    return true;
  }

  void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    left_.insert(pid);
    met_.insert(pid);
  }

  const std::string& marker_;
  const std::string& workspaces_;
  /// In this round, and in all of them.
  std::set<pid_t> left_;
  std::set<pid_t> met_;
};

} // namespace

expected<std::size_t> sweep_marked(const std::string& marker, const std::string& workspaces,
                                   std::chrono::milliseconds patience) {
  const auto give_up_at = std::chrono::steady_clock::now() + patience;
  marked_sweep sweep{marker, workspaces};
  int unsure = 0;
  for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds{50})) {
    const auto last = sweep.round();
    unsure = last == found::unsure ? unsure + 1 : 0;
    if (last == found::none || unsure == most_unsure)
      return sweep.count();
    if (last == found::some && std::chrono::steady_clock::now() >= give_up_at)
      return sweep.still_there();
    std::this_thread::sleep_for(pause);
  }
}

} // namespace kcx
