#include "actors/runner/spawn.hpp"

#include "config/posix.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace kcx {

namespace {

enum class stage { none, session, descriptors, limits, user, workspace, working_dir, exec };

struct limit {
  __rlimit_resource resource;
  rlimit value;
  /// Field of the job's limits; empty for what no job asked for.
  const char* field = "";
};

/// From SIGXCPU, by which a process can tell why it ends, to SIGKILL.
constexpr rlim_t cpu_grace_s = 5;

/// What programs expect of a soft limit of descriptors: more breaks those that use select() or close all of them.
constexpr rlim_t usual_open_files = 1024;

/// Everything the child needs, ready before vfork: the child shares our memory and may only make system calls. It
/// reports failure by writing here.
struct plan {
  std::vector<const char*> argv; // with one free slot before, for /bin/sh
  std::vector<const char*> env;
  std::vector<std::string> candidates;
  std::vector<limit> limits;
  const spawn_request& request;
  pid_t runner = 0;
  sigset_t no_signals{};
  std::array<int, 3> descriptors{};

  stage failed = stage::none;
  int number = 0;
  const limit* refused = nullptr;
};

std::vector<std::string> candidates_of(const spawn_request& request) {
  const auto& program = request.argv.front();
  if (program.empty() || program.find('/') != std::string::npos)
    return {program};
  const auto path = request.env.find("PATH");
  std::string_view rest = path != request.env.end() ? std::string_view{path->second} : "/usr/bin:/bin";
  std::vector<std::string> found;
  for (bool more = true; more;) {
    const auto colon = rest.find(':');
    const auto directory = rest.substr(0, colon);
    found.push_back(directory.empty() ? program : std::string{directory} + '/' + program);
    more = colon != std::string_view::npos;
    rest.remove_prefix(more ? colon + 1 : rest.size());
  }
  return found;
}

std::vector<limit> limits_of(const resource_limits& wanted) {
  std::vector<limit> found;
  const auto add = [&](__rlimit_resource resource, const std::optional<std::uint64_t>& value, const char* field,
                       rlim_t grace = 0) {
    rlimit own{};
    if (!value || ::getrlimit(resource, &own) != 0)
      return;
    found.push_back({resource, {*value, std::max<rlim_t>(*value, std::min(*value + grace, own.rlim_max))}, field});
  };
  // The node has raised its own to the maximum, which would be inherited.
  rlimit own{};
  if (!wanted.open_files && ::getrlimit(RLIMIT_NOFILE, &own) == 0)
    found.push_back({RLIMIT_NOFILE, {std::min(usual_open_files, own.rlim_max), own.rlim_max}});
  add(RLIMIT_AS, wanted.memory_bytes, "memory_bytes");
  add(RLIMIT_CPU, wanted.cpu_s, "cpu_s", cpu_grace_s);
  add(RLIMIT_NOFILE, wanted.open_files, "open_files");
  add(RLIMIT_NPROC, wanted.processes, "processes");
  add(RLIMIT_FSIZE, wanted.file_bytes, "file_bytes");
  return found;
}

[[noreturn]] void give_up(plan& p, stage where) {
  p.number = errno;
  p.failed = where;
  ::_exit(127);
}

void reset_signals(const plan& p) {
  // The runner ignores these and leaves all others at their default (runner::prepare).
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int number : {SIGPIPE, SIGXFSZ})
    ::sigaction(number, &standard, nullptr);
  ::sigprocmask(SIG_SETMASK, &p.no_signals, nullptr);
}

void set_descriptors(plan& p) {
  // The sources lie above 2 (see spawn), so none is overwritten before its turn.
  for (int target = 0; target < 3; ++target)
    if (::dup2(p.descriptors[static_cast<std::size_t>(target)], target) < 0)
      give_up(p, stage::descriptors);
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
}

void become(plan& p) {
  const auto* user = p.request.user;
  if (user == nullptr)
    return;
  // By number: the C library's wrappers talk to its threads, which a child in our memory must not do.
  if (::syscall(SYS_setgroups, user->groups.size(), user->groups.data()) != 0 ||
      ::syscall(SYS_setresgid, user->gid, user->gid, user->gid) != 0 ||
      ::syscall(SYS_setresuid, user->uid, user->uid, user->uid) != 0)
    give_up(p, stage::user);
}

void execute(plan& p) {
  int denied = 0;
  auto* const* env = const_cast<char* const*>(p.env.data());
  for (const auto& candidate : p.candidates) {
    p.argv[1] = p.request.argv.front().c_str();
    ::execve(candidate.c_str(), const_cast<char* const*>(p.argv.data() + 1), env);
    if (errno == ENOEXEC) {
      p.argv[0] = "/bin/sh";
      p.argv[1] = candidate.c_str();
      ::execve("/bin/sh", const_cast<char* const*>(p.argv.data()), env);
    }
    if (errno == EACCES)
      denied = EACCES;
    else if (errno != ENOENT && errno != ENOTDIR)
      break;
  }
  // Of several candidates the one that exists but may not be run says more than those that are not there.
  if (denied != 0)
    errno = denied;
  give_up(p, stage::exec);
}

[[noreturn]] void run_child(plan& p) {
  if (::setsid() < 0)
    give_up(p, stage::session);
  reset_signals(p);
  set_descriptors(p);
  // Before the change of user: the cgroup belongs to the runner's.
  if (p.request.cgroup >= 0 && ::write(p.request.cgroup, "0", 1) != 1)
    give_up(p, stage::limits);
  for (const auto& each : p.limits) {
    p.refused = &each;
    if (::setrlimit(each.resource, &each.value) != 0)
      give_up(p, stage::limits);
  }
  become(p);
  // After the change of user, which clears it. Covers the runner's death; the check covers a death before this line.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != p.runner)
    ::_exit(127);
  ::umask(p.request.umask);
  if (::chdir(p.request.workspace.c_str()) != 0)
    give_up(p, stage::workspace);
  if (!p.request.working_dir.empty() && ::chdir(p.request.working_dir.c_str()) != 0)
    give_up(p, stage::working_dir);
  execute(p);
  ::_exit(127);
}

// Not inlined: vfork returns twice into this frame, which must hold nothing but what it needs.
[[gnu::noinline]] pid_t start_child(plan& p) {
  const auto pid = ::vfork();
  if (pid == 0)
    run_child(p);
  return pid;
}

// "Operation not permitted" alone would not say which of them, nor what is allowed.
std::string refusal_of_limit(const plan& p) {
  if (p.refused == nullptr || *p.refused->field == '\0')
    return "cannot set the resource limits";
  rlimit own{};
  ::getrlimit(p.refused->resource, &own);
  auto text = "cannot set limits." + std::string{p.refused->field} + " to " + std::to_string(p.refused->value.rlim_cur);
  return own.rlim_max == RLIM_INFINITY ? text : text + "; this node may set up to " + std::to_string(own.rlim_max);
}

error explain(const plan& p) {
  const auto& request = p.request;
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  switch (p.failed) {
  case stage::session: return system_failure("cannot make a session", p.number);
  case stage::descriptors: return system_failure("cannot set up standard input and output", p.number);
  case stage::limits: return system_failure(refusal_of_limit(p), p.number);
  case stage::user: return system_failure("cannot become the user of the job", p.number);
  case stage::workspace: return system_failure("cannot enter the workspace " + quoted(request.workspace), p.number);
  case stage::working_dir:
    return system_failure("cannot enter the working directory " + quoted(request.working_dir), p.number);
  case stage::exec:
  case stage::none: break;
  }
  return system_failure("cannot run " + quoted(request.argv.front()), p.number);
}

} // namespace

expected<account> find_account(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  const auto number = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr)
    return error{ec::system_failed,
                 "there is no account \"" + name + "\" on this machine" +
                   (number != 0 ? std::string{": "} + std::strerror(number) : std::string{}),
                 {}};
  account result{entry.pw_uid, entry.pw_gid, std::vector<gid_t>(64)};
  int count = static_cast<int>(result.groups.size());
  if (::getgrouplist(name.c_str(), entry.pw_gid, result.groups.data(), &count) < 0) {
    result.groups.resize(static_cast<std::size_t>(count));
    ::getgrouplist(name.c_str(), entry.pw_gid, result.groups.data(), &count);
  }
  result.groups.resize(static_cast<std::size_t>(count));
  return result;
}

expected<pid_t> spawn(const spawn_request& request) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : request.env)
    entries.push_back(name + '=' + value);
  plan p{{}, {},     candidates_of(request), limits_of(request.limits), request, ::getpid(), {}, {}, stage::none,
         0,  nullptr};
  p.argv.push_back(nullptr);
  for (const auto& word : request.argv)
    p.argv.push_back(word.c_str());
  p.argv.push_back(nullptr);
  for (const auto& entry : entries)
    p.env.push_back(entry.c_str());
  p.env.push_back(nullptr);
  ::sigemptyset(&p.no_signals);
  p.descriptors = {request.in, request.out, request.err};

  const auto pid = start_child(p);
  if (pid < 0)
    return system_failure("cannot make a process");
  if (p.failed == stage::none)
    return pid;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return explain(p);
}

} // namespace kcx
