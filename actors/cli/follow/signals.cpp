#include "actors/cli/follow/signals.hpp"

#include <csignal>
#include <ctime>

namespace kcx::cli {

namespace {

sigset_t awaited() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  return set;
}

} // namespace

void block_signals() {
  const auto set = awaited();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool signal_within(std::chrono::milliseconds time) {
  const auto set = awaited();
  const timespec limit{time.count() / 1'000, time.count() % 1'000 * 1'000'000};
  return ::sigtimedwait(&set, nullptr, &limit) > 0;
}

} // namespace kcx::cli
