#include "actors/http/api/ranges.hpp"

#include "actors/http/message/problem.hpp"

namespace kcx::http {

std::optional<std::pair<std::uint64_t, std::uint64_t>> make_partial(response& answer, byte_range range,
                                                                    std::uint64_t total, std::string_view what) {
  const auto part = resolve(range, total);
  if (!part) {
    answer =
      problem(kinds::range_not_satisfiable, "the " + std::string{what} + " has " + std::to_string(total) + " bytes");
    answer.headers.add("Content-Range", "bytes */" + std::to_string(total));
    return part;
  }
  answer.status = 206;
  answer.headers.add("Content-Range", "bytes " + std::to_string(part->first) + "-" + std::to_string(part->second - 1) +
                                        "/" + std::to_string(total));
  return part;
}

} // namespace kcx::http
