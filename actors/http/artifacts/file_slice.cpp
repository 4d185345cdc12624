#include "actors/http/artifacts/file_slice.hpp"

#include <algorithm>
#include <utility>

namespace kcx::http {

void file_slice::next(std::size_t max_bytes, chunk_handler done) {
  files_([self = shared_from_this(), max_bytes, done = std::move(done)] { done(self->read(max_bytes)); });
}

chunk file_slice::read(std::size_t max_bytes) {
  if (at_ >= end_)
    return {{}, true, false};
  std::string bytes(std::min<std::uint64_t>(max_bytes, end_ - at_), '\0');
  bytes.resize(read_at(file_.value(), bytes.data(), bytes.size(), at_));
  if (bytes.empty())
    return {{}, false, true};
  at_ += bytes.size();
  return {std::move(bytes), at_ >= end_, false};
}

} // namespace kcx::http
