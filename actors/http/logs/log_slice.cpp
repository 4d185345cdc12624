#include "actors/http/logs/log_slice.hpp"

#include <algorithm>

namespace kcx::http {

log_ranges readable(const log_extent& extent, std::uint64_t offset, std::uint64_t size) {
  log_ranges result;
  const auto add = [&](std::uint64_t first, std::uint64_t second) {
    first = std::max(first, offset);
    second = std::min(second, size);
    if (first < second)
      result.emplace_back(first, second);
  };
  if (extent.gap_end > extent.gap_begin) {
    add(0, extent.gap_begin);
    add(extent.gap_end, extent.size);
  } else {
    add(0, extent.size);
  }
  return result;
}

log_ranges sliced(const log_ranges& ranges, std::uint64_t first, std::uint64_t second) {
  log_ranges result;
  std::uint64_t begin = 0; // Where the range at hand begins within all of them.
  for (const auto& [from, to] : ranges) {
    const auto end = begin + (to - from);
    const auto left = std::max(first, begin);
    const auto right = std::min(second, end);
    if (left < right)
      result.emplace_back(from + (left - begin), from + (right - begin));
    begin = end;
  }
  return result;
}

std::uint64_t total_size(const log_ranges& ranges) noexcept {
  std::uint64_t total = 0;
  for (const auto& [first, second] : ranges)
    total += second - first;
  return total;
}

log_slice::log_slice(file_executor files, log_reader reader, log_ranges ranges, std::string behind)
  : files_{std::move(files)}, reader_{std::move(reader)}, ranges_{std::move(ranges)}, behind_{std::move(behind)},
    size_{total_size(ranges_) + behind_.size()} {}

void log_slice::next(std::size_t max_bytes, chunk_handler done) {
  files_([self = shared_from_this(), max_bytes, done = std::move(done)] { done(self->read(max_bytes)); });
}

chunk log_slice::read(std::size_t max_bytes) {
  if (at_ == ranges_.size())
    return {std::exchange(behind_, {}), true, false};
  auto& [from, to] = ranges_[at_];
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(max_bytes, to - from));
  auto piece = reader_.read(from, wanted);
  if (!piece || piece->bytes.empty() || piece->offset != from)
    return {{}, false, true};
  from = piece->next;
  if (from >= to)
    ++at_;
  return {std::move(piece->bytes), at_ == ranges_.size() && behind_.empty(), false};
}

} // namespace kcx::http
