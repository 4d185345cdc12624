// kcx-runner: the process leader of one worker slot. See actors/runner/runner.hpp; not meant to be started by hand.
#include "actors/runner/runner.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>

namespace {

constexpr const char* usage = "usage: kcx-runner --fd FD --parent PID [--orphan-grace-ms MS]\n"
                              "kcx-node starts this program itself, one per worker slot.\n";

bool parse(int argc, char** argv, kcx::runner_settings& settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name{argv[i]};
    char* end = nullptr;
    const auto value = std::strtol(argv[i + 1], &end, 10);
    if (*end != '\0' || end == argv[i + 1] || value < 0)
      return false;
    if (name == "--fd")
      settings.fd = static_cast<int>(value);
    else if (name == "--parent")
      settings.node = static_cast<pid_t>(value);
    else if (name == "--orphan-grace-ms")
      settings.orphan_grace = kcx::milliseconds{value};
    else
      return false;
  }
  return argc % 2 == 1 && argc > 1;
}

} // namespace

int main(int argc, char** argv) {
  kcx::runner_settings settings;
  if (!parse(argc, argv, settings)) {
    std::fputs(usage, stderr);
    return 2;
  }
  // Files opened later must not become 0, 1 or 2: those are a job's standard streams.
  while (true) {
    const auto fd = ::open("/dev/null", O_RDWR);
    if (fd < 0)
      return 1;
    if (fd > 2) {
      ::close(fd);
      break;
    }
  }
  return kcx::runner{settings}.run();
}
