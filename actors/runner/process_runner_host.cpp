#include "actors/runner/process_runner_host.hpp"

#include <spdlog/spdlog.h>

#include <mutex>
#include <utility>
#include <vector>

namespace kcx {

namespace {

/// Sweeps that wait until every runner that was told to die is dead: until then, what it leads is no orphan.
class sweep_gate : public std::enable_shared_from_this<sweep_gate> {
public:
  explicit sweep_gate(process_io& io) : io_{io} {}

  void dying() {
    const std::lock_guard lock{mutex_};
    ++dying_;
  }

  void dead() {
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard lock{mutex_};
      if (--dying_ == 0)
        ready = std::exchange(waiting_, {});
    }
    for (auto& each : ready)
      io_.sweep_orphans(std::move(each));
  }

  void sweep(std::function<void()> on_empty) {
    {
      const std::lock_guard lock{mutex_};
      if (dying_ > 0) {
        waiting_.push_back(std::move(on_empty));
        return;
      }
    }
    io_.sweep_orphans(std::move(on_empty));
  }

private:
  process_io& io_;
  std::mutex mutex_;
  std::size_t dying_ = 0;
  std::vector<std::function<void()>> waiting_;
};

class process_link : public runner_link {
public:
  explicit process_link(std::shared_ptr<sweep_gate> gate) : gate_{std::move(gate)} {}

  void open(std::shared_ptr<runner_process> runner) {
    const std::lock_guard lock{mutex_};
    if (!ended_)
      runner_ = std::move(runner);
  }

  void ended() {
    const std::lock_guard lock{mutex_};
    ended_ = true;
    runner_.reset();
    if (killed_)
      gate_->dead();
  }

  outcome send(const runner_command& command) override {
    const auto runner = living();
    return runner ? runner->send(command) : outcome{error{ec::system_failed, "the runner has ended", {}}};
  }

  void kill() noexcept override {
    const std::lock_guard lock{mutex_};
    if (!runner_ || killed_)
      return;
    killed_ = true;
    gate_->dying();
    runner_->destroy();
  }

private:
  std::shared_ptr<runner_process> living() {
    const std::lock_guard lock{mutex_};
    return runner_;
  }

  std::shared_ptr<sweep_gate> gate_;
  std::mutex mutex_;
  std::shared_ptr<runner_process> runner_;
  bool killed_ = false;
  bool ended_ = false;
};

class process_runner_host : public runner_host {
public:
  process_runner_host(process_io& io, runner_options options)
    : io_{io}, options_{std::move(options)}, gate_{std::make_shared<sweep_gate>(io)} {}

  std::shared_ptr<runner_link> launch(runner_callbacks callbacks) override {
    auto link = std::make_shared<process_link>(gate_);
    runner_listener listener;
    listener.on_event = callbacks.on_event;
    listener.on_exit = [link, on_exit = callbacks.on_exit](runner_exit how) {
      if (how.signal)
        spdlog::warn("a runner was ended by {}", signal_name(*how.signal));
      else if (how.exit_code.value_or(0) != 0)
        spdlog::warn("a runner ended with exit code {}", *how.exit_code);
      link->ended();
      on_exit();
    };
    auto runner = io_.launch(options_, std::move(listener));
    if (runner) {
      link->open(*std::move(runner));
    } else {
      spdlog::error("{}", runner.error().message);
      callbacks.on_exit();
    }
    return link;
  }

  void sweep(std::function<void()> on_empty) override { gate_->sweep(std::move(on_empty)); }

private:
  process_io& io_;
  runner_options options_;
  std::shared_ptr<sweep_gate> gate_;
};

} // namespace

std::shared_ptr<runner_host> make_runner_host(process_io& io, runner_options options) {
  return std::make_shared<process_runner_host>(io, std::move(options));
}

} // namespace kcx
