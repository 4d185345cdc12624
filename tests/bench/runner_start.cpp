// What starting a trivial job costs: N times `true` through runners, beside `xargs -P` doing the same.
//   kcx_bench_runner [JOBS] [SLOTS]
// Prints one line per way and the ratio. Not a test: figures depend on the machine.
#include "tests/actors/runner/support.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

using namespace kcx;

namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::atoi(argv[1]) : 2000;
  const int slots = argc > 2 ? std::atoi(argv[2]) : 1;
  if (jobs < 1 || slots < 1)
    return 2;
  const auto xargs = "seq " + std::to_string(jobs) + " | xargs -n1 -P" + std::to_string(slots) + " /bin/true";
  const auto plain = seconds_of([&] {
    if (std::system(xargs.c_str()) != 0)
      std::perror("xargs");
  });

  const auto io = std::make_shared<process_io>();
  std::vector<std::unique_ptr<test::slot>> runners;
  for (int i = 0; i < slots; ++i)
    runners.push_back(std::make_unique<test::slot>(io));
  const auto ours = seconds_of([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < slots; ++i)
      threads.emplace_back([&, i] {
        auto& slot = *runners[static_cast<std::size_t>(i)];
        for (int k = i; k < jobs; k += slots) {
          auto job = slot.job("");
          job.steps[0].argv = {"/bin/true"};
          slot.run(job);
        }
      });
    for (auto& thread : threads)
      thread.join();
  });
  std::printf("xargs -P%d   %6.2f s  %6.0f jobs/s\n", slots, plain, jobs / plain);
  std::printf("%d runner(s) %6.2f s  %6.0f jobs/s  ratio %.2f\n", slots, ours, jobs / ours, ours / plain);
}
