#include "actors/cli/pipeline/job_log.hpp"

#include "actors/cli/follow/another_try.hpp"
#include "actors/cli/follow/log_stream.hpp"
#include "actors/cli/view/text.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace kcx::cli {

using namespace std::chrono_literals;

namespace {

bool print_attempt(node_client& node, log_place place, line_prefixer& lines, std::chrono::milliseconds patience,
                   screen& out) {
  patience_left still{patience};
  for (;;) {
    const auto before = place.offset;
    reply refusal;
    const auto write = [&](std::string_view bytes) { return out.write(lines.take(bytes)); };
    switch (read_log(node, place, write, refusal)) {
    // An attempt that was claimed but never started has no log.
    case log_result::missing:
    case log_result::ended: return out.write(lines.end());
    case log_result::broken: break;
    case log_result::refused:
    case log_result::stopped: return false;
    }
    if (place.offset > before)
      still.renew();
    const auto wanted = refusal.status == 0 ? 0ms : another_try(refusal, asked_for::state).value_or(0ms);
    const auto rest = still.pause(std::max(200ms, wanted));
    if (!rest)
      return false;
    std::this_thread::sleep_for(*rest);
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
  const auto last = job.value("attempt", 1);
  line_prefixer lines{visible(name)};
  for (int attempt = tail ? last : 1; attempt <= last; ++attempt)
    if (!print_attempt(node, {job.value("id", std::int64_t{0}), attempt, false, tail}, lines, patience, out))
      return false;
  return true;
}

} // namespace kcx::cli
