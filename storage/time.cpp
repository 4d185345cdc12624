#include "storage/time.hpp"

#include <cstdint>
#include <cstdio>
#include <ctime>

namespace kcx {

namespace {

/// Walks over a text of fixed layout; every step fails for good once one has failed.
class scanner {
public:
  explicit scanner(std::string_view text) : rest_{text} {}

  /// Exactly `digits` decimal digits.
  int number(int digits) {
    auto value = 0;
    for (auto i = 0; i < digits; ++i) {
      if (!is_digit()) {
        ok_ = false;
        return 0;
      }
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }

  /// Any one of `characters`; returns which.
  char any_of(std::string_view characters) {
    if (rest_.empty() || characters.find(rest_.front()) == std::string_view::npos) {
      ok_ = false;
      return '\0';
    }
    auto found = rest_.front();
    rest_.remove_prefix(1);
    return found;
  }

  /// ".123…" as milliseconds, or nothing there as 0.
  int fraction() {
    if (rest_.empty() || rest_.front() != '.')
      return 0;
    rest_.remove_prefix(1);
    if (!is_digit())
      ok_ = false;
    auto millis = 0;
    auto scale = 100;
    for (; is_digit(); rest_.remove_prefix(1), scale /= 10)
      millis += (rest_.front() - '0') * scale;
    return millis;
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && rest_.empty(); }

private:
  [[nodiscard]] bool is_digit() const { return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }

  std::string_view rest_;
  bool ok_ = true;
};

constexpr timestamp first_instant = std::chrono::sys_days{std::chrono::year{0} / 1 / 1};
constexpr timestamp last_instant =
  std::chrono::sys_days{std::chrono::year{10'000} / 1 / 1} - std::chrono::milliseconds{1};

/// "Z" or "+02:00".
std::chrono::minutes offset(scanner& in) {
  auto sign = in.any_of("Zz+-");
  if (sign == 'Z' || sign == 'z' || sign == '\0')
    return std::chrono::minutes{0};
  auto hours = in.number(2);
  in.any_of(":");
  auto minutes = in.number(2);
  if (hours > 23 || minutes > 59)
    in.any_of("");
  auto value = std::chrono::minutes{hours * 60 + minutes};
  return sign == '-' ? -value : value;
}

} // namespace

std::chrono::nanoseconds boot_time_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

timestamp wall_clock_now() {
  return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

std::string to_rfc3339(timestamp at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{at - day};
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  return text;
}

std::optional<timestamp> parse_rfc3339(std::string_view text) {
  scanner in{text};
  const auto year = in.number(4);
  in.any_of("-");
  const auto month = in.number(2);
  in.any_of("-");
  const auto day = in.number(2);
  in.any_of("Tt ");
  const auto hour = in.number(2);
  in.any_of(":");
  const auto minute = in.number(2);
  in.any_of(":");
  const auto second = in.number(2);
  const auto millis = in.fraction();
  const auto shift = offset(in);
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  // RFC 3339 writes a leap second as :60; clocks here do not know it, so it is the first moment of the next minute.
  if (!in.at_end() || !date.ok() || hour > 23 || minute > 59 || second > 60)
    return std::nullopt;
  const timestamp at = std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
                       std::chrono::seconds{second} + std::chrono::milliseconds{millis} - shift;
  // An offset or a leap second can lead out of the years that the format can write.
  if (at < first_instant || at > last_instant)
    return std::nullopt;
  return at;
}

} // namespace kcx
