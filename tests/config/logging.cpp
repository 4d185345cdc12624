#define CAF_SUITE logging
#include "config/logging.hpp"

#include "caf/test/unit_test.hpp"
#include "tests/support/files.hpp"

#include <spdlog/spdlog.h>

#include <fcntl.h>
#include <regex>
#include <string>
#include <unistd.h>

using namespace kcx;
using namespace kcx::test;

namespace {

/// What `write` puts on standard error.
template <class Write>
std::string captured(Write write) {
  temp_dir dir;
  int saved = ::dup(STDERR_FILENO);
  int file = ::open((dir / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(file, STDERR_FILENO);
  write();
  ::dup2(saved, STDERR_FILENO);
  ::close(file);
  ::close(saved);
  return read_file(dir / "log");
}

} // namespace

CAF_TEST(an entry is one line with time in UTC and level) {
  ::setenv("TZ", "Asia/Tokyo", 1);
  auto text = captured([] {
    set_up_logging(log_level::info);
    spdlog::warn("disk {} is full", 3);
  });
  std::regex form{R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning disk 3 is full\n)"};
  CAF_CHECK(std::regex_match(text, form));
}

CAF_TEST(text with line ends and control characters stays one line) {
  auto text = captured([] {
    set_up_logging(log_level::info);
    spdlog::info("a\nb\r\x1b[31mc");
  });
  CAF_CHECK_EQUAL(text.find('\n'), text.size() - 1);
  CAF_CHECK(text.find("a\\nb\\x0d\\x1b[31mc") != std::string::npos);
}

CAF_TEST(entries below the level are left out) {
  auto text = captured([] {
    set_up_logging(log_level::warning);
    spdlog::info("quiet");
    spdlog::error("loud");
  });
  CAF_CHECK(text.find("quiet") == std::string::npos);
  CAF_CHECK(text.find("loud") != std::string::npos);
}
