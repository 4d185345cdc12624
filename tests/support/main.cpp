// The main of every test executable: runs each CAF_TEST in a process of its own.
//
// CAF's own main stops at the first failed requirement, exits 0 when a filter matches nothing and hides failed checks.
// Here a test that aborts, throws, hangs or leaves processes behind fails alone, its whole output is shown, and the
// last line is "N passed, N failed". Exit codes: 0 all passed, 1 some failed, 2 wrong usage or nothing ran.
#define CAF_TEST_NO_MAIN
#include "caf/test/unit_test.hpp"
#include "caf/test/unit_test_impl.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

struct settings {
  std::string junit;
  std::string filter;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  seconds time_limit{60};
  bool verbose = false;
  bool list = false;
  bool here = false;
};

struct test_id {
  std::string suite;
  std::string name;
};

struct running_test {
  test_id id;
  pid_t pid = -1;
  int pidfd = -1;
  int output = -1;
  clock_type::time_point started;
};

struct result {
  test_id id;
  /// Empty if the test passed, else why it did not.
  std::string failure;
  std::string output;
  seconds took{0};
};

constexpr const char* usage = "usage: %s [--filter=TEXT] [--jobs=N] [--time-limit=SECONDS] [--junit=FILE] [--verbose]\n"
                              "       [--list] [--here]\n"
                              "TEXT is part of \"suite: name\". --here runs in this process, for a debugger.\n";

// -- choosing ------------------------------------------------------------------

bool parse(int argc, char** argv, settings& out) {
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto eq = arg.find('=');
    auto key = arg.substr(0, eq);
    bool flag = key == "--verbose" || key == "--list" || key == "--here";
    std::string value;
    if (!flag) {
      if (eq != std::string::npos)
        value = arg.substr(eq + 1);
      else if (i + 1 < argc)
        value = argv[++i];
      else
        return false;
    }
    if (key == "--verbose")
      out.verbose = true;
    else if (key == "--list")
      out.list = true;
    else if (key == "--here")
      out.here = true;
    else if (key == "--junit")
      out.junit = value;
    else if (key == "--filter")
      out.filter = value;
    else if (key == "--jobs")
      out.jobs = std::strtoul(value.c_str(), nullptr, 10);
    else if (key == "--time-limit")
      out.time_limit = seconds{std::strtod(value.c_str(), nullptr)};
    else
      return false;
  }
  return out.jobs > 0 && out.time_limit.count() > 0;
}

std::string title(const test_id& id) {
  return id.suite + ": " + id.name;
}

std::vector<test_id> choose(const std::string& filter) {
  std::vector<test_id> chosen;
  for (const auto& suite : caf::test::engine::available_suites())
    for (const auto& name : caf::test::engine::available_tests(suite))
      if (test_id id{suite, name}; title(id).find(filter) != std::string::npos)
        chosen.push_back(std::move(id));
  return chosen;
}

// The engine takes regular expressions; a name must match itself and nothing else.
std::string exactly(std::string_view text) {
  std::string pattern = "^";
  for (char c : text) {
    if (std::string_view{"\\^$.|?*+()[]{}"}.find(c) != std::string_view::npos)
      pattern += '\\';
    pattern += c;
  }
  return pattern + '$';
}

// -- one test ------------------------------------------------------------------

bool run_here(const test_id& id) {
  // The watchdog's thread would make fork() in a test unsafe; the parent keeps the time instead.
  caf::test::engine::max_runtime(0);
  return caf::test::engine::run(false, "", 4, 1, exactly(id.suite), "", exactly(id.name), "");
}

[[noreturn]] void run_child(const test_id& id, int output) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::close(output);
  if (int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC); null >= 0)
    ::dup2(null, STDIN_FILENO);
  bool passed = run_here(id);
  std::exit(passed ? 0 : 1);
}

running_test start(const test_id& id) {
  running_test test;
  test.id = id;
  test.started = clock_type::now();
  test.output = ::memfd_create("test-output", MFD_CLOEXEC);
  std::fflush(nullptr);
  test.pid = ::fork();
  if (test.pid == 0)
    run_child(id, test.output);
  if (test.pid < 0 || test.output < 0) {
    std::perror("cannot start a test");
    std::exit(2);
  }
  ::setpgid(test.pid, test.pid);
  // By number: glibc 2.36 declares pidfd_open without extern "C".
  test.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, test.pid, 0));
  return test;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[16384];
  ::lseek(fd, 0, SEEK_SET);
  for (ssize_t n = ::read(fd, buffer, sizeof buffer); n > 0; n = ::read(fd, buffer, sizeof buffer))
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

std::string explain(int status, bool too_slow, const std::string& output) {
  if (too_slow)
    return "still running at its time limit";
  if (WIFSIGNALED(status))
    return std::string{"ended by signal "} + ::strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return WEXITSTATUS(status) == 1 ? "failed checks" : "exit code " + std::to_string(WEXITSTATUS(status));
  // A pattern that selects no test exits 0 as well; only this line proves that the test ran.
  if (output.find("tests:   1\n") == std::string::npos)
    return "did not run";
  return {};
}

result finish(const running_test& test, bool too_slow) {
  if (too_slow)
    ::kill(-test.pid, SIGKILL);
  int status = 0;
  while (::waitpid(test.pid, &status, 0) < 0 && errno == EINTR) {
  }
  // What the test started and forgot must not disturb the next one.
  ::kill(-test.pid, SIGKILL);
  result done{test.id, {}, read_all(test.output), clock_type::now() - test.started};
  done.failure = explain(status, too_slow, done.output);
  ::close(test.pidfd);
  ::close(test.output);
  return done;
}

// -- all tests -----------------------------------------------------------------

void tell(const result& done, bool verbose) {
  if (done.failure.empty()) {
    if (verbose)
      std::printf("passed  %s (%.2f s)\n", title(done.id).c_str(), done.took.count());
    return;
  }
  std::printf("FAILED  %s: %s (%.2f s)\n", title(done.id).c_str(), done.failure.c_str(), done.took.count());
  std::printf("%s\n", done.output.c_str());
  std::fflush(stdout);
}

// Blocks until at least one of the running tests ended or is too slow; moves those to `results`.
void collect(std::vector<running_test>& running, const settings& wanted, std::vector<result>& results) {
  std::vector<pollfd> waits;
  auto earliest = clock_type::time_point::max();
  for (const auto& test : running) {
    waits.push_back({test.pidfd, POLLIN, 0});
    earliest = std::min(earliest, test.started + std::chrono::duration_cast<clock_type::duration>(wanted.time_limit));
  }
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(earliest - clock_type::now()).count() + 1;
  ::poll(waits.data(), waits.size(), static_cast<int>(std::max<long>(left, 0)));
  for (std::size_t i = running.size(); i-- > 0;) {
    bool too_slow = clock_type::now() - running[i].started >= wanted.time_limit && waits[i].revents == 0;
    if (waits[i].revents == 0 && !too_slow)
      continue;
    results.push_back(finish(running[i], too_slow));
    tell(results.back(), wanted.verbose);
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::vector<result> run_all(const std::vector<test_id>& chosen, const settings& wanted) {
  std::vector<result> results;
  std::vector<running_test> running;
  for (const auto& id : chosen) {
    while (running.size() >= wanted.jobs)
      collect(running, wanted, results);
    running.push_back(start(id));
  }
  while (!running.empty())
    collect(running, wanted, results);
  return results;
}

// -- JUnit ---------------------------------------------------------------------

std::string xml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '&': out += "&amp;"; break;
    case '"': out += "&quot;"; break;
    default: out += (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') ? '?' : c;
    }
  }
  return out;
}

bool write_junit(const std::string& file, const std::vector<result>& results, std::size_t failed) {
  std::ofstream out{file};
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"" << xml(program_invocation_short_name)
      << "\" tests=\"" << results.size() << "\" failures=\"" << failed << "\">\n";
  for (const auto& done : results) {
    out << "  <testcase classname=\"" << xml(done.id.suite) << "\" name=\"" << xml(done.id.name) << "\" time=\""
        << done.took.count() << "\">";
    if (!done.failure.empty())
      out << "<failure message=\"" << xml(done.failure) << "\">" << xml(done.output) << "</failure>";
    out << "</testcase>\n";
  }
  out << "</testsuite>\n";
  return static_cast<bool>(out.flush());
}

} // namespace

int main(int argc, char** argv) {
  settings wanted;
  if (!parse(argc, argv, wanted)) {
    std::fprintf(stderr, usage, argv[0]);
    return 2;
  }
  auto chosen = choose(wanted.filter);
  if (wanted.list) {
    for (const auto& id : chosen)
      std::printf("%s\n", title(id).c_str());
    return chosen.empty() ? 2 : 0;
  }
  if (wanted.here) {
    bool passed = !chosen.empty();
    for (const auto& id : chosen)
      passed = run_here(id) && passed;
    return passed ? 0 : 1;
  }
  auto results = run_all(chosen, wanted);
  auto failed = static_cast<std::size_t>(
    std::count_if(results.begin(), results.end(), [](const result& done) { return !done.failure.empty(); }));
  if (!wanted.junit.empty() && !write_junit(wanted.junit, results, failed)) {
    std::fprintf(stderr, "cannot write %s\n", wanted.junit.c_str());
    failed += 1;
  }
  if (results.empty())
    std::fprintf(stderr, "no test matches \"%s\"\n", wanted.filter.c_str());
  std::printf("%zu passed, %zu failed\n", results.size() - std::min(failed, results.size()), failed);
  return results.empty() ? 2 : failed == 0 ? 0 : 1;
}
