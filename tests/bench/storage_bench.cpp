/// Measures the store alone: life cycles per second (insert, claim, confirmed start, finish), each phase in batches
/// that share a commit. Prints medians over several runs. Not a test: run it by hand on an idle machine.
///
///     kcx_storage_bench [DIRECTORY] [RUNS]
#include "storage/sqlite/store.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <malloc.h>
#include <string>
#include <vector>

using namespace kcx;
using bench_clock = std::chrono::steady_clock;

namespace {

template <class T>
T must(expected<T> result) {
  if (result)
    return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

struct figures {
  double cycles_per_s = 0;
  double ops_us = 0;    ///< Per life cycle, outside commits.
  double commit_us = 0; ///< Per life cycle, inside commits.
  double cpu_us = 0;    ///< Per life cycle, of this process: says more than the others on a busy machine.
};

class run {
public:
  run(const std::filesystem::path& file, std::size_t batch)
    : store_{must(open_sqlite_store(file, wall_clock_now()))}, batch_{batch} {
    spec_.name = "build";
    spec_.command = command_line{false, {"make", "-j2", "all"}};
  }

  figures measure(std::chrono::milliseconds length) {
    const auto begin = bench_clock::now();
    const auto cpu_begin = std::clock();
    std::size_t cycles = 0;
    while (bench_clock::now() - begin < length) {
      cycle();
      cycles += batch_;
      if (++rounds_ % 16 == 0)
        must(store_->checkpoint());
    }
    const auto total = std::chrono::duration<double>(bench_clock::now() - begin).count();
    const auto per_cycle = 1e6 / static_cast<double>(cycles);
    const auto in_commit = std::chrono::duration<double>(commit_).count();
    const auto cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
    return {static_cast<double>(cycles) / total, (total - in_commit) * per_cycle, in_commit * per_cycle,
            cpu * per_cycle};
  }

private:
  void cycle() {
    std::vector<job_id> ids;
    for (std::size_t i = 0; i < batch_; ++i)
      ids.push_back(must(store_->insert({&spec_, 1}, wall_clock_now()))[0].id);
    commit();
    std::vector<attempt_key> keys;
    for (auto id : ids)
      keys.push_back(must(store_->claim({id, "node/1", ++nonce_}, wall_clock_now())).key);
    commit();
    for (auto key : keys)
      must(store_->confirm_start(key, wall_clock_now()));
    for (auto key : keys) {
      attempt_result result;
      result.key = key;
      result.exit_code = 0;
      must(store_->finish(result, wall_clock_now()));
    }
    commit();
  }

  void commit() {
    const auto begin = bench_clock::now();
    must(store_->commit());
    commit_ += bench_clock::now() - begin;
  }

  std::unique_ptr<job_store> store_;
  std::size_t batch_;
  job_spec spec_;
  std::uint64_t nonce_ = 0;
  std::size_t rounds_ = 0;
  bench_clock::duration commit_{0};
};

figures median(std::vector<figures> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const figures& a, const figures& b) { return a.cycles_per_s < b.cycles_per_s; });
  return runs[runs.size() / 2];
}

} // namespace

int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 256 << 20); // as the node does
  const test::temp_dir own;
  const auto directory = argc > 1 ? std::filesystem::path{argv[1]} : own.path();
  const auto runs = argc > 2 ? std::atoi(argv[2]) : 5;
  std::printf("%6s %14s %12s %14s %10s\n", "batch", "life cycles/s", "ops us", "commits us", "cpu us");
  for (std::size_t batch : {1U, 8U, 64U}) {
    std::vector<figures> all;
    for (auto i = 0; i < runs; ++i) {
      const auto file = directory / ("bench-" + std::to_string(batch) + "-" + std::to_string(i) + ".db");
      all.push_back(run{file, batch}.measure(std::chrono::seconds{1}));
      std::filesystem::remove(file);
    }
    const auto middle = median(std::move(all));
    std::printf("%6zu %14.0f %12.1f %14.1f %10.1f\n", batch, middle.cycles_per_s, middle.ops_us, middle.commit_us,
                middle.cpu_us);
  }
}
