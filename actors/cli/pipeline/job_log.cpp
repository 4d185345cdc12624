#include "actors/cli/pipeline/job_log.hpp"

#include "actors/cli/command_support.hpp"
#include "actors/cli/text.hpp"

#include <thread>
#include <utility>

namespace kcx::cli {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

bool print_attempt(node_client& node, const std::string& target, line_prefixer& lines, bool resumable,
                   std::chrono::milliseconds patience, screen& out) {
  std::uint64_t offset = 0;
  bool open = true;
  auto last_heard = clock_type::now();
  for (;;) {
    const auto from = offset == 0 ? std::string{} : "&offset=" + std::to_string(offset);
    const auto answer = node.stream(
      target + from,
      [&](std::string_view piece) {
        last_heard = clock_type::now();
        offset += piece.size();
        open = out.write(lines.take(piece));
        return open;
      },
      30s);
    if (!open)
      return false;
    // An attempt that was claimed but never started has no log.
    if (answer && (answer->ok() || answer->status == 404)) {
      out.write(lines.end());
      return true;
    }
    const bool hopeless = answer && answer->status < 500;
    if (hopeless || (offset > 0 && !resumable) || clock_type::now() - last_heard >= patience)
      return false;
    std::this_thread::sleep_for(200ms);
  }
}

} // namespace

std::string line_prefixer::take(std::string_view piece) {
  std::string out;
  while (!piece.empty()) {
    if (std::exchange(at_begin_, false))
      out += prefix_;
    const auto end = piece.find('\n');
    const auto line = piece.substr(0, end == std::string_view::npos ? end : end + 1);
    out += line;
    at_begin_ = line.ends_with('\n');
    piece.remove_prefix(line.size());
  }
  return out;
}

std::string_view line_prefixer::end() noexcept {
  return std::exchange(at_begin_, true) ? "" : "\n";
}

bool print_job_log(node_client& node, const nlohmann::json& job, const std::string& name,
                   std::optional<std::uint64_t> tail, std::chrono::milliseconds patience, screen& out) {
  const auto base = job_target(job.value("id", std::int64_t{0})) + "/log?attempt=";
  const auto last = job.value("attempt", 1);
  line_prefixer lines{visible(name)};
  for (int attempt = tail ? last : 1; attempt <= last; ++attempt) {
    auto target = base + std::to_string(attempt);
    if (tail)
      target += "&tail=" + std::to_string(*tail);
    if (!print_attempt(node, target, lines, !tail, patience, out))
      return false;
  }
  return true;
}

} // namespace kcx::cli
