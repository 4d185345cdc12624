#define CAF_SUITE log_archiver
#include "actors/node/log_archiver.hpp"

#include "caf/test/unit_test.hpp"
#include "storage/log_archive.hpp"
#include "storage/log_format.hpp"
#include "storage/log_writer.hpp"
#include "tests/support/files.hpp"
#include "tests/support/value_of.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

CAF_TEST(no more logs wait to be compressed than may) {
  temp_dir data;
  const auto file = [&](std::int64_t job) { return log_path(data.path(), job, 1); };
  for (std::int64_t job = 1; job <= 3; ++job) {
    auto log = value_of(log_writer::create(file(job), 1 << 20, 1'000));
    log.append(log_stream::out, 0, std::string(100'000, 'x'), 1'000);
    log.close(2'000);
  }
  std::atomic<bool> now = false;
  {
    log_archiver archiver{data.path(), [&] { return now ? 0ms : 24h * 36'500; }, 2};
    for (std::int64_t job = 1; job <= 3; ++job)
      archiver.add({{job}, 1});
    now = true;
    archiver.look_again();
    for (const auto until = std::chrono::steady_clock::now() + 20s; wants_archive(file(2)); std::this_thread::yield())
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error{"the log is not compressed"};
  }
  CAF_CHECK(!wants_archive(file(1)) && wants_archive(file(3)));
}
