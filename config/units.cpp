#include "config/units.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <netinet/in.h>
#include <utility>

namespace kcx {

namespace {

struct unit {
  std::string_view name;
  std::int64_t factor;
};

// Largest first: the formatters take the first that divides.
constexpr std::array time_units{unit{"d", 86'400'000}, unit{"h", 3'600'000}, unit{"m", 60'000}, unit{"s", 1'000},
                                unit{"ms", 1}};
constexpr std::array size_units{unit{"T", 1LL << 40}, unit{"G", 1LL << 30}, unit{"M", 1LL << 20}, unit{"K", 1LL << 10},
                                unit{"", 1}};

constexpr std::int64_t longest_ms = 36'500LL * 86'400'000;
constexpr std::int64_t largest_size = 1LL << 60;

/// The digits after the point as a part of `factor`; nothing unless they come out whole.
std::optional<std::int64_t> parse_fraction(std::string_view digits, std::int64_t factor) noexcept {
  auto number = digits.size() <= 9 ? parse_number(digits, 0, 999'999'999) : std::nullopt;
  if (!number)
    return std::nullopt;
  std::int64_t scale = 1;
  for (std::size_t i = 0; i < digits.size(); ++i)
    scale *= 10;
  auto scaled = *number * factor;
  return scaled % scale == 0 ? std::optional{scaled / scale} : std::nullopt;
}

/// `with_fraction` allows "1.5" where it comes out whole.
template <class Units>
std::optional<std::int64_t> parse_with(std::string_view text, const Units& units, std::string_view missing,
                                       std::int64_t largest, bool with_fraction) noexcept {
  auto number_end = std::min(text.find_first_not_of("0123456789."), text.size());
  auto name = number_end == text.size() ? missing : text.substr(number_end);
  auto digits = text.substr(0, number_end);
  auto point = digits.find('.');
  auto whole = parse_number(digits.substr(0, point), 0, largest);
  if (!whole || (point != std::string_view::npos && !with_fraction))
    return std::nullopt;
  for (const auto& candidate : units) {
    if (candidate.name != name)
      continue;
    auto part = point == std::string_view::npos ? std::optional<std::int64_t>{0}
                                                : parse_fraction(digits.substr(point + 1), candidate.factor);
    if (!part || *whole > (largest - *part) / candidate.factor)
      return std::nullopt;
    return *whole * candidate.factor + *part;
  }
  return std::nullopt;
}

template <class Units>
std::string format_with(std::int64_t value, const Units& units) {
  for (const auto& candidate : units)
    if (value != 0 && value % candidate.factor == 0)
      return std::to_string(value / candidate.factor) + std::string{candidate.name};
  return std::to_string(value);
}

} // namespace

std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t low, std::int64_t high) noexcept {
  std::int64_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size() || number < low || number > high)
    return std::nullopt;
  return number;
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) noexcept {
  auto value = parse_with(text, time_units, "s", longest_ms, true);
  return value ? std::optional{std::chrono::milliseconds{*value}} : std::nullopt;
}

std::string format_duration(std::chrono::milliseconds duration) {
  return duration.count() == 0 ? "0s" : format_with(duration.count(), time_units);
}

std::optional<std::int64_t> parse_size(std::string_view text) noexcept {
  if (text.size() > 3 && text.ends_with("iB"))
    text.remove_suffix(2);
  return parse_with(text, size_units, "", largest_size, false);
}

std::string format_size(std::int64_t bytes) {
  return format_with(bytes, size_units);
}

std::optional<endpoint> parse_endpoint(std::string_view text) {
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return std::nullopt;
  auto host = text.substr(0, colon);
  auto port = parse_number(text.substr(colon + 1), 0, 65'535);
  bool six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (six)
    host = host.substr(1, host.size() - 2);
  std::string address{host};
  in6_addr parsed{};
  if (!port || address.find('\0') != std::string::npos ||
      ::inet_pton(six ? AF_INET6 : AF_INET, address.c_str(), &parsed) != 1)
    return std::nullopt;
  return endpoint{std::move(address), static_cast<std::uint16_t>(*port)};
}

std::string to_string(const endpoint& where) {
  bool six = where.address.find(':') != std::string::npos;
  return (six ? '[' + where.address + ']' : where.address) + ':' + std::to_string(where.port);
}

bool is_loopback(const endpoint& where) noexcept {
  in_addr four{};
  if (::inet_pton(AF_INET, where.address.c_str(), &four) == 1)
    return (ntohl(four.s_addr) >> 24U) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, where.address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

} // namespace kcx
