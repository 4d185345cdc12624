/// A piece of a file that does not change as a response body.
#pragma once

#include "actors/http/logs/file_thread.hpp"
#include "actors/http/message/message.hpp"
#include "config/posix.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace kcx::http {

/// Reads bytes [first, second) on the file threads, one piece in flight. A file that turns out shorter fails the body.
class file_slice : public body_source, public std::enable_shared_from_this<file_slice> {
public:
  file_slice(file_executor files, unique_fd file, std::uint64_t first, std::uint64_t second)
    : files_{std::move(files)}, file_{std::move(file)}, at_{first}, end_{second}, size_{second - first} {}

  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }
  void next(std::size_t max_bytes, chunk_handler done) override;

private:
  chunk read(std::size_t max_bytes);

  file_executor files_;
  unique_fd file_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::uint64_t size_;
};

} // namespace kcx::http
