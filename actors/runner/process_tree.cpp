#include "actors/runner/process_tree.hpp"

#include "config/posix.hpp"
#include "config/process_facts.hpp"

#include <algorithm>
#include <charconv>
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

namespace kcx {

namespace {

/// Bound on looking again at once: a tree that forks faster than this is met again by the caller's next round.
constexpr int max_rounds = 16;

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

} // namespace

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

std::size_t kill_descendants(std::span<const pid_t> except) {
  const auto own_session = ::getsid(0);
  std::unordered_set<pid_t> hit;
  std::size_t count = 0;
  for (int round = 0; round < max_rounds; ++round) {
    count = 0;
    bool fresh = false;
    for (const auto& entry : descendants_of(::getpid(), except)) {
      if (!is_alive(entry))
        continue;
      ++count;
      fresh = hit.insert(entry.pid).second || fresh;
      // A process group never spans sessions, so one outside our session holds nobody but descendants.
      if (entry.session != own_session && entry.group > 1)
        ::kill(-entry.group, SIGKILL);
      ::kill(entry.pid, SIGKILL);
    }
    if (!fresh)
      break;
  }
  return count;
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
