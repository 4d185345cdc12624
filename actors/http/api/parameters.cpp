#include "actors/http/api/parameters.hpp"

#include "config/units.hpp"

#include <charconv>
#include <set>

namespace kcx::http {

namespace {

using std::chrono::milliseconds;

template <class Number>
std::optional<Number> number(std::string_view text) noexcept {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// One end of a range. What no number holds lies behind the end of everything, and is no less a position.
std::optional<std::uint64_t> range_end(std::string_view digits) noexcept {
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return number<std::uint64_t>(digits).value_or(UINT64_MAX);
}

error wrong(std::string_view name, std::string_view value, std::string_view allowed) {
  std::string shown{value.substr(0, 100)};
  return {ec::invalid_input,
          "parameter " + std::string{name} + "=" + shown + " is not allowed; give " + std::string{allowed},
          {}};
}

std::optional<std::string> text_of(const request& ask, std::string_view name) {
  const auto value = ask.parameter(name);
  if (!value || value->empty())
    return std::nullopt;
  return std::string{*value};
}

expected<bool> flag(const request& ask, std::string_view name) {
  const auto value = ask.parameter(name);
  if (!value || *value == "0" || *value == "false")
    return false;
  if (value->empty() || *value == "1" || *value == "true")
    return true;
  return wrong(name, *value, "0 or 1");
}

template <class Number>
expected<std::optional<Number>> bounded(const request& ask, std::string_view name, Number low, Number high,
                                        std::string_view allowed) {
  const auto value = ask.parameter(name);
  if (!value || value->empty())
    return std::optional<Number>{};
  const auto read = number<Number>(*value);
  if (!read || *read < low || *read > high)
    return wrong(name, *value, allowed);
  return read;
}

expected<std::int32_t> parse_attempt(const request& ask) {
  const auto attempt = bounded<std::int32_t>(ask, "attempt", 1, INT32_MAX, "the number of an attempt, from 1");
  if (!attempt)
    return attempt.error();
  return attempt->value_or(0);
}

template <class Query>
void read_range(const request& ask, Query& query) {
  if (const auto range = ask.headers.find("Range"); range && ask.headers.count("Range") == 1)
    query.range = parse_range(*range);
  query.if_range = std::string{ask.headers.find("If-Range").value_or("")};
}

outcome parse_states(const request& ask, job_filter& filter) {
  const auto value = ask.parameter("state");
  if (!value)
    return done{};
  auto rest = *value;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    rest = more ? rest.substr(comma + 1) : std::string_view{};
    const auto state = parse_job_state(word);
    if (!state)
      return wrong("state", word,
                   "scheduled, blocked, queued, running, cancelling, succeeded, failed, timed_out, cancelled, "
                   "interrupted or skipped, several with commas between");
    filter.states.push_back(*state);
  }
  return done{};
}

/// How much of a list is asked for, and behind which place.
outcome read_page(const request& ask, std::size_t& limit, std::optional<std::int64_t>& before) {
  const auto most = bounded<std::size_t>(ask, "limit", 1, 1'000, "1 to 1000");
  if (!most)
    return most.error();
  limit = most->value_or(limit);
  const auto cursor =
    bounded<std::int64_t>(ask, "cursor", 1, INT64_MAX, "the next_cursor of the page before, unchanged");
  if (!cursor)
    return cursor.error();
  before = *cursor;
  return done{};
}

} // namespace

error wrong_position(std::string_view parameter, std::string_view value) {
  return {ec::invalid_input,
          "the position (" + std::string{parameter} + ", or Last-Event-ID) is \"" + std::string{value.substr(0, 100)} +
            "\", allowed is a number from 0",
          {}};
}

outcome refuse_repeated(const request& ask) {
  std::set<std::string_view> seen;
  for (const auto& [name, value] : ask.query)
    if (!seen.insert(name).second)
      return error{
        ec::invalid_input, "parameter " + name.substr(0, 100) + " is given more than once; give it once", {}};
  return done{};
}

expected<milliseconds> parse_wait(std::string_view text) {
  constexpr std::int64_t longest = 5 * 60 * 1'000;
  constexpr std::string_view allowed = "0 to 5 minutes, e.g. 500ms, 30s or 2m";
  auto digits = text;
  std::int64_t unit = 1'000;
  if (digits.ends_with("ms")) {
    unit = 1;
    digits.remove_suffix(2);
  } else if (digits.ends_with("s")) {
    digits.remove_suffix(1);
  } else if (digits.ends_with("m")) {
    unit = 60'000;
    digits.remove_suffix(1);
  }
  const auto count = number<std::int64_t>(digits);
  if (!count || *count < 0 || *count > longest / unit)
    return wrong("wait", text, allowed);
  return milliseconds{*count * unit};
}

expected<job_filter> parse_filter(const request& ask) {
  job_filter filter;
  if (auto read = parse_states(ask, filter); !read)
    return std::move(read).error();
  const std::pair<std::string_view, std::optional<std::string>*> words[] = {{"project", &filter.project},
                                                                            {"queue", &filter.queue},
                                                                            {"name", &filter.name},
                                                                            {"label", &filter.label},
                                                                            {"group", &filter.group}};
  for (const auto& [name, member] : words) {
    // A variable that was not set must not mean all jobs.
    if (ask.parameter(name) == "")
      return wrong(name, "", "a value, or leave it out");
    *member = text_of(ask, name);
  }
  std::optional<std::int64_t> before;
  if (auto read = read_page(ask, filter.limit, before); !read)
    return std::move(read).error();
  if (before)
    filter.before = job_id{*before};
  return filter;
}

expected<delivery_filter> parse_delivery_query(const request& ask) {
  delivery_filter filter;
  const auto job = bounded<std::int64_t>(ask, "job", 1, INT64_MAX, "the number of a job");
  if (!job)
    return job.error();
  if (*job)
    filter.job = job_id{**job};
  if (const auto state = ask.parameter("state")) {
    filter.state = parse_delivery_state(*state);
    if (!filter.state)
      return wrong("state", *state, "pending, delivered or failed");
  }
  if (auto read = read_page(ask, filter.limit, filter.before); !read)
    return std::move(read).error();
  return filter;
}

std::string next_page(const request& ask, job_id next) {
  std::string target = ask.path + "?";
  for (const auto& [name, value] : ask.query) {
    if (name != "cursor")
      target += percent_encoded(name) + "=" + percent_encoded(value) + "&";
  }
  return target + "cursor=" + std::to_string(next.value);
}

std::optional<byte_range> parse_range(std::string_view value) noexcept {
  constexpr std::string_view unit = "bytes=";
  if (!same_text(value.substr(0, unit.size()), unit))
    return std::nullopt;
  value = trimmed(value.substr(unit.size()));
  const auto dash = value.find('-');
  if (dash == std::string_view::npos)
    return std::nullopt;
  const auto left = value.substr(0, dash);
  const auto right = value.substr(dash + 1);
  const auto first = range_end(left);
  const auto last = range_end(right);
  if ((!left.empty() && !first) || (!right.empty() && !last) || (left.empty() && right.empty()))
    return std::nullopt;
  if (first && last && *last < *first)
    return std::nullopt;
  return byte_range{first, last};
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> resolve(byte_range range, std::uint64_t total) noexcept {
  if (!range.first) {
    const auto length = std::min(range.last.value_or(0), total);
    if (length == 0)
      return std::nullopt;
    return std::pair{total - length, total};
  }
  if (*range.first >= total)
    return std::nullopt;
  const auto last = std::min(range.last.value_or(total - 1), total - 1);
  return std::pair{*range.first, last + 1};
}

expected<artifact_query> parse_artifact_query(const request& ask, std::string path) {
  artifact_query query;
  query.path = std::move(path);
  const auto attempt = parse_attempt(ask);
  if (!attempt)
    return attempt.error();
  query.attempt = *attempt;
  read_range(ask, query);
  query.if_none_match = std::string{ask.headers.find("If-None-Match").value_or("")};
  return query;
}

expected<log_query> parse_log_query(const request& ask) {
  log_query query;
  const auto attempt = parse_attempt(ask);
  if (!attempt)
    return attempt.error();
  query.attempt = *attempt;
  const auto follow = flag(ask, "follow");
  if (!follow)
    return follow.error();
  const auto timestamps = flag(ask, "timestamps");
  if (!timestamps)
    return timestamps.error();
  query.timestamps = *timestamps;
  const auto exact = flag(ask, "exact");
  if (!exact)
    return exact.error();
  query.exact = *exact;
  const auto tail = bounded<std::uint64_t>(ask, "tail", 0, 1'000'000'000, "a number of lines");
  if (!tail)
    return tail.error();
  query.tail = *tail;
  const auto offset = bounded<std::uint64_t>(ask, "offset", 0, UINT64_MAX / 2, "a number of bytes");
  if (!offset)
    return offset.error();
  query.offset = offset->value_or(0);

  const auto accept = ask.headers.find("Accept");
  query.events = accept && accept->find("text/event-stream") != std::string_view::npos;
  query.follow = *follow || query.events;
  if (const auto last = ask.headers.find("Last-Event-ID"); query.events && last && !last->empty()) {
    const auto read = parse_number(*last, 0, INT64_MAX);
    if (!read)
      return wrong_position("offset", *last);
    query.offset = static_cast<std::uint64_t>(*read);
    query.tail.reset();
  }
  read_range(ask, query);
  return query;
}

} // namespace kcx::http
