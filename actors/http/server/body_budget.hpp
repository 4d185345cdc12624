/// The memory for request bodies (server_limits::all_body_bytes), shared out to the requests that hold them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace kcx::http {

/// Taken from by one thread at a time, given back to by any.
class body_budget {
public:
  explicit body_budget(std::size_t all) : all_{all} {}

  /// False if too little is left.
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    if (bytes > all_ - taken_)
      return false;
    taken_ += bytes;
    return true;
  }
  void give_back(std::size_t bytes) noexcept { taken_ -= bytes; }

private:
  const std::size_t all_;
  std::atomic<std::size_t> taken_{0};
};

/// What the body of one request takes; given back when it goes.
class body_share {
public:
  explicit body_share(std::shared_ptr<body_budget> of) : of_{std::move(of)} {}
  ~body_share() { of_->give_back(size_); }
  body_share(const body_share&) = delete;
  body_share& operator=(const body_share&) = delete;

  /// False if the budget has too little left; the share is as before then.
  [[nodiscard]] bool grow_to(std::size_t bytes) noexcept {
    if (bytes <= size_)
      return true;
    if (!of_->take(bytes - size_))
      return false;
    size_ = bytes;
    return true;
  }

private:
  const std::shared_ptr<body_budget> of_;
  std::size_t size_ = 0;
};

} // namespace kcx::http
