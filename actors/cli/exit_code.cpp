#include "actors/cli/exit_code.hpp"

#include "actors/cli/member.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kcx::cli {

namespace {

/// The number of "SIGSEGV" or "SIG77".
std::optional<int> signal_number(std::string_view name) {
  if (!name.starts_with("SIG"))
    return std::nullopt;
  name.remove_prefix(3);
  if (auto number = parse_number(name, 1, 127))
    return static_cast<int>(*number);
  for (int number = 1; number < NSIG; ++number)
    if (const char* known = ::sigabbrev_np(number); known != nullptr && name == known)
      return number;
  return std::nullopt;
}

int failure_code(const nlohmann::json& job) {
  if (auto number = signal_number(text_at(job, "signal")))
    return 128 + *number;
  auto code = job.find("exit_code");
  if (code == job.end() || !code->is_number_integer())
    return exit_codes::failed;
  // A job can fail although its last command did not.
  auto value = code->get<std::int64_t>() & 0xff;
  return value == 0 ? exit_codes::failed : static_cast<int>(value);
}

constexpr std::array final_states{std::pair{std::string_view{"succeeded"}, exit_codes::success},
                                  std::pair{std::string_view{"failed"}, exit_codes::failed},
                                  std::pair{std::string_view{"timed_out"}, 124},
                                  std::pair{std::string_view{"cancelled"}, 130},
                                  std::pair{std::string_view{"interrupted"}, 75},
                                  std::pair{std::string_view{"skipped"}, 76}};

const auto* find_final(std::string_view state) {
  const auto* found =
    std::find_if(final_states.begin(), final_states.end(), [&](const auto& known) { return known.first == state; });
  return found == final_states.end() ? nullptr : found;
}

} // namespace

std::vector<std::pair<std::string, std::string>> exit_code_table() {
  return {{"0", "success: of run and wait, the job succeeded"},
          {"1", "the job failed without a code of its own; the output could not be written; the job kept no artifact "
                "of a name; or the doctor found a failure"},
          {"2", "wrong usage; nothing was sent"},
          {"3", "the node cannot be reached, or a job is not final: what becomes of it is unknown"},
          {"4", "the node refused, be it one of many; its problem is printed"},
          {"75", "the job was interrupted"},
          {"76", "the job was skipped"},
          {"124", "the job ran out of time"},
          {"130", "the job was cancelled, or Ctrl-C ended the command"},
          {"128 + N", "signal N ended the job"},
          {"any other", "the job's own"}};
}

bool is_final(const nlohmann::json& job) {
  return find_final(text_at(job, "state")) != nullptr;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object())
    return {};
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

int exit_code_of(const nlohmann::json& job) {
  auto state = text_at(job, "state");
  const auto* known = find_final(state);
  if (known == nullptr)
    return exit_codes::unreachable;
  return state == "failed" ? failure_code(job) : known->second;
}

} // namespace kcx::cli
