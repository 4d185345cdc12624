#include "actors/runner/process_tree.hpp"

#include "config/posix.hpp"
#include "config/process_facts.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kcx {

namespace {

/// Bound on hunting at once: a tree that forks faster than this is met again by the caller's next round.
constexpr std::chrono::milliseconds hunt_time{20};

/// Bound on the way up to an ancestor.
constexpr int most_generations = 1'000;

std::optional<process_entry> read_entry(int proc, std::string_view name) {
  process_entry entry;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), entry.pid);
  if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size())
    return {};
  const unique_fd fd{::openat(proc, (std::string{name} + "/stat").c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd)
    return {};
  char text[512];
  const auto size = ::read(fd.value(), text, sizeof text - 1);
  if (size <= 0)
    return {};
  text[size] = '\0';
  // The name in parentheses may itself hold parentheses and blanks; what follows the last one does not.
  const char* rest = std::strrchr(text, ')');
  int terminal = 0;
  // Twelve fields that do not matter lie before the number of threads.
  if (rest == nullptr ||
      std::sscanf(rest, ") %c %d %d %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &entry.state,
                  &entry.parent, &entry.group, &entry.session, &terminal, &entry.threads) != 6)
    return {};
  entry.terminal = terminal != 0;
  return entry;
}

/// The id given last, of this PID namespace: that of a process or a thread.
std::optional<pid_t> newest_id() {
  const unique_fd fd{::open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC)};
  char text[16];
  const auto size = ::read(fd.value(), text, sizeof text);
  pid_t id = 0;
  if (size <= 0 || std::from_chars(text, text + size, id).ec != std::errc{})
    return {};
  return id;
}

/// Kills it, and the group it is in.
void kill_with_group(const process_entry& entry) {
  // A process group never spans sessions, so one outside our session holds nobody but descendants.
  if (entry.session != ::getsid(0) && entry.group > 1)
    ::kill(-entry.group, SIGKILL);
  ::kill(entry.pid, SIGKILL);
}

} // namespace

std::optional<process_entry> entry_of(pid_t pid) {
  const unique_fd proc{::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)};
  return read_entry(proc.value(), std::to_string(pid));
}

bool is_alive(const process_entry& entry) noexcept {
  return (entry.state != 'Z' && entry.state != 'X') || entry.threads > 1;
}

std::vector<process_entry> list_processes() {
  std::vector<process_entry> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc{::opendir("/proc"), ::closedir};
  if (!proc)
    return found;
  while (const auto* item = ::readdir(proc.get()))
    if (item->d_name[0] >= '1' && item->d_name[0] <= '9')
      if (const auto entry = read_entry(::dirfd(proc.get()), item->d_name))
        found.push_back(*entry);
  return found;
}

std::vector<process_entry> descendants_of(pid_t root, std::span<const pid_t> except) {
  const auto all = list_processes();
  std::unordered_multimap<pid_t, const process_entry*> children;
  for (const auto& entry : all)
    children.emplace(entry.parent, &entry);
  std::vector<process_entry> found;
  std::unordered_set<pid_t> seen{root};
  const auto add_children = [&](pid_t parent) {
    const auto [first, last] = children.equal_range(parent);
    for (auto at = first; at != last; ++at) {
      const auto& entry = *at->second;
      const bool left_out = parent == root && std::find(except.begin(), except.end(), entry.pid) != except.end();
      if (!left_out && seen.insert(entry.pid).second)
        found.push_back(entry);
    }
  };
  add_children(root);
  for (std::size_t i = 0; i < found.size(); ++i)
    add_children(found[i].pid);
  return found;
}

std::size_t terminate_descendants(std::span<const pid_t> except) {
  std::size_t count = 0;
  for (const auto& entry : descendants_of(::getpid(), except)) {
    if (!is_alive(entry))
      continue;
    ::kill(entry.pid, SIGTERM);
    // A stopped process acts on the signal only once it goes on. Of one without its main thread, nobody looked whether
    // the others are stopped.
    if (entry.state == 'T' || entry.state == 'Z')
      ::kill(entry.pid, SIGCONT);
    ++count;
  }
  return count;
}

bool descends_from(pid_t pid, pid_t root, std::span<const pid_t> except) {
  auto at = pid;
  for (int steps = 0; steps < most_generations; ++steps) {
    const auto entry = entry_of(at);
    if (entry && entry->parent == root)
      return std::find(except.begin(), except.end(), at) == except.end();
    if (entry ? entry->parent <= 1 : at == pid)
      return false;
    // Who exits gives its children to another: the way is a new one then.
    at = entry ? entry->parent : pid;
  }
  return false;
}

found hunt(const std::function<bool()>& all, const std::function<bool(pid_t)>& one,
           std::chrono::milliseconds patience) {
  const auto give_up_at = std::chrono::steady_clock::now() + patience;
  auto before = newest_id(); // when the last look but one began
  auto last = before;
  bool some = all();
  // Where the kernel does not tell, all there is to do is to look again while that meets anybody.
  for (bool met = some; met && !before && std::chrono::steady_clock::now() < give_up_at;)
    met = all();
  while (before && std::chrono::steady_clock::now() < give_up_at) {
    const auto newest = newest_id();
    if (!newest || *newest < *before) { // The ids begin anew.
      before = last = newest;
      some = all() || some;
      continue;
    }
    // From the last look on once more: who was just being made then could not be seen yet. The oldest comes first, for
    // it may end as soon as its child is there.
    bool met = false;
    for (auto pid = *before + 1; pid <= *newest; ++pid)
      met = one(pid) || met;
    some = some || met;
    if (!met && newest_id() == newest)
      return some ? found::some : found::none;
    before = std::exchange(last, newest);
  }
  return some ? found::some : found::unsure;
}

found kill_descendants(std::span<const pid_t> except) {
  const auto self = ::getpid();
  const auto all = [&] {
    bool some = false;
    for (const auto& entry : descendants_of(self, except)) {
      if (is_alive(entry)) {
        kill_with_group(entry);
        some = true;
      }
    }
    return some;
  };
  const auto one = [&](pid_t pid) {
    const auto entry = entry_of(pid);
    if (!entry || !is_alive(*entry) || !descends_from(pid, self, except))
      return false;
    kill_with_group(*entry);
    return true;
  };
  return hunt(all, one, hunt_time);
}

bool has_environment_entry(pid_t pid, std::string_view entry) {
  const auto text = environment_of(pid);
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find('\0');
    if (rest.substr(0, end) == entry)
      return true;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return false;
}

bool works_below(pid_t pid, std::string_view directory) {
  const auto where = working_directory_of(pid);
  return where.size() > directory.size() && where.starts_with(directory) && where[directory.size()] == '/';
}

} // namespace kcx
