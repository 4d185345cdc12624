#define CAF_SUITE live_settings
#include "config/live_settings.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <chrono>
#include <string>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += name + ' ';
  return text;
}

} // namespace

CAF_TEST(a reload takes over what can change and keeps the rest) {
  settings before;
  live_settings live{before};
  auto fresh = before;
  fresh.slots = 7;
  fresh.log = log_level::debug;
  fresh.keep["failed"] = 5min;
  fresh.readers = 9;
  const auto report = live.reload(fresh);
  CAF_CHECK_EQUAL(joined(report.changed), "slots keep log-level ");
  CAF_CHECK_EQUAL(joined(report.kept), "readers ");
  CAF_CHECK_EQUAL(live.now()->slots, 7);
  CAF_CHECK_EQUAL(live.now()->keep.at("failed").count(), 300'000);
  CAF_CHECK_EQUAL(live.now()->readers, before.readers);
}

CAF_TEST(the same settings again change nothing) {
  live_settings live{settings{}};
  const auto report = live.reload(settings{});
  CAF_CHECK(report.changed.empty() && report.kept.empty());
}

CAF_TEST(what the documentation says to change at once is what a reload takes over) {
  const auto text = read_file(KCX_SOURCE_DIR "/docs/configuration.md");
  for (const auto& known : known_settings()) {
    const auto row = text.find("| `" + std::string{known.name} + "` |");
    CAF_REQUIRE(row != std::string::npos);
    const auto line = text.substr(row, text.find('\n', row) - row);
    CAF_MESSAGE(line);
    CAF_CHECK_EQUAL(line.ends_with("| at once |"), changes_while_running(known.name));
  }
}
