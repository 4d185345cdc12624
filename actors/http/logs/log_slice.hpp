/// A fixed piece of a log as a response body: its size is known and sent as Content-Length.
#pragma once

#include "actors/http/logs/file_thread.hpp"
#include "actors/http/message/message.hpp"
#include "storage/log_reader.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kcx::http {

/// Logical offsets [first, second) of a log, in order. A log whose middle was cut has two of them.
using log_ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// The readable ranges of a log from `offset` on, up to `size`.
[[nodiscard]] log_ranges readable(const log_extent& extent, std::uint64_t offset, std::uint64_t size);

/// Bytes [first, second) of what `ranges` hold together.
[[nodiscard]] log_ranges sliced(const log_ranges& ranges, std::uint64_t first, std::uint64_t second);

[[nodiscard]] std::uint64_t total_size(const log_ranges& ranges) noexcept;

/// Reads on the file threads, one piece in flight. A log that turns out shorter (it was removed, or cut meanwhile)
/// fails the body: the client sees that it is incomplete.
class log_slice : public body_source, public std::enable_shared_from_this<log_slice> {
public:
  /// `behind` follows the bytes of the log.
  log_slice(file_executor files, log_reader reader, log_ranges ranges, std::string behind = {});

  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }
  void next(std::size_t max_bytes, chunk_handler done) override;

private:
  chunk read(std::size_t max_bytes);

  file_executor files_;
  log_reader reader_;
  log_ranges ranges_;
  std::string behind_;
  std::uint64_t size_;
  std::size_t at_ = 0;
};

} // namespace kcx::http
