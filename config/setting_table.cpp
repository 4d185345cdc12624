#include "config/setting_table.hpp"

#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kcx {

namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

// -- reading one value ------------------------------------------------------------------------------------------------
// Each stores the value and returns true, or returns false if it is not one of those allowed.

bool read(std::chrono::milliseconds& to, std::string_view text, std::chrono::milliseconds low,
          std::chrono::milliseconds high) {
  auto value = parse_duration(text);
  if (!value || *value < low || *value > high)
    return false;
  to = *value;
  return true;
}

bool read(std::int32_t& to, std::string_view text, std::int32_t low, std::int32_t high) {
  auto value = parse_number(text, low, high);
  if (value)
    to = static_cast<std::int32_t>(*value);
  return value.has_value();
}

bool read_size(std::int64_t& to, std::string_view text, std::int64_t low, std::int64_t high) {
  auto value = parse_size(text);
  if (!value || *value < low || *value > high)
    return false;
  to = *value;
  return true;
}

bool read(endpoint& to, std::string_view text) {
  auto value = parse_endpoint(text);
  if (value)
    to = *value;
  return value.has_value();
}

bool read(bool& to, std::string_view text) {
  if (text != "true" && text != "false")
    return false;
  to = text == "true";
  return true;
}

bool read(std::filesystem::path& to, std::string_view text) {
  if (text.empty() || text.find('\0') != std::string_view::npos)
    return false;
  to = text;
  return true;
}

bool read(log_level& to, std::string_view text) {
  auto value = parse_log_level(text);
  if (value)
    to = *value;
  return value.has_value();
}

bool read_account(std::string& to, std::string_view text) {
  constexpr auto letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"sv;
  if (text.empty() || text.size() > 32 || text[0] == '-' || text.find_first_not_of(letters) != std::string_view::npos)
    return false;
  to = text;
  return true;
}

bool add_label(std::vector<std::string>& to, std::string_view text) {
  constexpr auto letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/=:"sv;
  if (text.empty() || text.size() > 255 || text.find_first_not_of(letters) != std::string_view::npos)
    return false;
  to.emplace_back(text);
  return true;
}

/// Whether it is a host name or a numeric address (an IPv6 one in brackets), with a port or without.
bool is_authority(std::string_view text) {
  constexpr auto letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"sv;
  const bool brackets = text.starts_with('[');
  const auto end = brackets ? std::min(text.find(']'), text.size()) : std::min(text.find(':'), text.size());
  if (brackets && end == text.size())
    return false;
  const auto name = text.substr(brackets ? 1 : 0, end - (brackets ? 1 : 0));
  const auto port = text.substr(end + (brackets ? 1 : 0));
  if (name.empty() || name.size() > 253 ||
      name.find_first_not_of(brackets ? "0123456789abcdefABCDEF:."sv : letters) != std::string_view::npos)
    return false;
  return port.empty() || (port[0] == ':' && parse_number(port.substr(1), 1, 65'535));
}

bool add_host(std::vector<std::string>& to, std::string_view text) {
  if (!is_authority(text))
    return false;
  to.emplace_back(text);
  return true;
}

bool add_origin(std::vector<std::string>& to, std::string_view text) {
  const auto slashes = text.find("://");
  if (slashes == std::string_view::npos || (text.substr(0, slashes) != "http" && text.substr(0, slashes) != "https") ||
      !is_authority(text.substr(slashes + 3)))
    return false;
  to.emplace_back(text);
  return true;
}

constexpr std::array final_states{"succeeded"sv, "failed"sv,      "timed_out"sv,
                                  "cancelled"sv, "interrupted"sv, "skipped"sv};

/// "STATE:VALUE" with a final state, or "all", and a value that `parse` takes, or "forever".
template <class Value, class Parse>
bool add_rule(std::map<std::string, Value>& to, std::string_view text, Parse parse) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos)
    return false;
  const auto state = text.substr(0, colon);
  const auto word = text.substr(colon + 1);
  const auto value = word == "forever" ? std::nullopt : parse(word);
  if ((!value && word != "forever") ||
      (state != "all" && std::find(final_states.begin(), final_states.end(), state) == final_states.end()))
    return false;
  for (const auto name : final_states) {
    if (state != "all" && state != name)
      continue;
    to.erase(std::string{name});
    if (value)
      to.emplace(name, *value);
  }
  return true;
}

bool add_keep(std::map<std::string, std::chrono::milliseconds>& to, std::string_view text) {
  return add_rule(to, text, [](std::string_view word) {
    // A number alone, meant as days and read as seconds, would delete nearly everything.
    const bool has_unit = word.find_first_not_of("0123456789.") != std::string_view::npos;
    const auto span = has_unit ? parse_duration(word) : std::nullopt;
    return span && *span >= 1s && *span <= 24h * 36'500 ? span : std::nullopt;
  });
}

bool add_keep_count(std::map<std::string, std::int64_t>& to, std::string_view text) {
  return add_rule(to, text, [](std::string_view word) { return parse_number(word, 0, 1'000'000'000); });
}

// -- the table --------------------------------------------------------------------------------------------------------

constexpr auto on_or_off = "true or false"sv;

std::vector<setting_row> network_rows(const settings& base) {
  return {
    {{"data", "DIR", base.data.string(), "a directory on a local disk"},
     "Storage",
     "Data directory: database, logs, workspaces, admin token; created where missing",
     [](settings& to, std::string_view value) { return read(to.data, value); }},
    {{"min-free", "SIZE", format_size(base.min_free), "a size from 0 to 1T"},
     "Storage",
     "Free space below which no job is accepted or started",
     [](settings& to, std::string_view value) { return read_size(to.min_free, value, 0, 1LL << 40); }},
    {{"http", "ADDR:PORT", to_string(base.http), "a numeric address and a port, as 127.0.0.1:7070 or [::1]:7070"},
     "Network",
     "Where the HTTP API listens; port 0 takes a free one",
     [](settings& to, std::string_view value) { return read(to.http, value); }},
    {{"inspect", "ADDR:PORT", to_string(base.inspect), "a numeric address and a port, as 127.0.0.1:7071 or [::1]:7071"},
     "Network",
     "Where the inspection port listens; port 0 takes a free one",
     [](settings& to, std::string_view value) { return read(to.inspect, value); }},
    {{"insecure", "", "false", on_or_off},
     "Network",
     "Allow addresses that other hosts can reach although nothing is encrypted",
     [](settings& to, std::string_view value) { return read(to.insecure, value); }},
    {{"allow-host", "HOST", "", "a host name or numeric address, with its port or for any", true},
     "Network",
     "A name the node answers to besides its own address, as behind a proxy; may be given several times",
     [](settings& to, std::string_view value) { return add_host(to.allowed_hosts, value); }},
    {{"allow-origin", "ORIGIN", "", "http:// or https:// with a host and its port, and nothing behind it", true},
     "Network",
     "An origin whose web pages may use the node; may be given several times",
     [](settings& to, std::string_view value) { return add_origin(to.allowed_origins, value); }},
    {{"tls-certificate", "FILE", "", "a path"},
     "Network",
     "PEM file with the certificate chain: both ports speak TLS; SIGHUP reads it again",
     [](settings& to, std::string_view value) { return read(to.tls_certificate, value); }},
    {{"tls-key", "FILE", "", "a path"},
     "Network",
     "PEM file with the key of the certificate",
     [](settings& to, std::string_view value) { return read(to.tls_key, value); }},
    {{"rate-limit", "N", std::to_string(base.rate_limit), "a whole number from 0 to 1000000"},
     "Network",
     "Requests per minute of a token that has no limit of its own; 0 for no limit",
     [](settings& to, std::string_view value) { return read(to.rate_limit, value, 0, 1'000'000); }},
    {{"webhook-backoff", "DURATION", format_duration(base.webhook_backoff), "a duration from 10ms to 1h"},
     "Network",
     "Pause after a webhook's first failure, doubled with each further one up to 1h",
     [](settings& to, std::string_view value) { return read(to.webhook_backoff, value, 10ms, 1h); }},
    {{"body-limit", "SIZE", format_size(base.body_limit), "a size from 1K to 1G"},
     "Network",
     "Largest body of one HTTP request",
     [](settings& to, std::string_view value) { return read_size(to.body_limit, value, 1LL << 10, 1LL << 30); }},
  };
}

std::vector<setting_row> job_rows(const settings& base) {
  return {
    {{"slots", "N", "(number of cores)", "a whole number from 1 to 1024"},
     "Jobs",
     "Jobs that run at the same time",
     [](settings& to, std::string_view value) { return read(to.slots, value, 1, 1'024); }},
    {{"label", "LABEL", "", "1 to 255 letters, digits or . _ - / = :", true},
     "Jobs",
     "A label of this node's workers; may be given several times",
     [](settings& to, std::string_view value) { return add_label(to.labels, value); }},
    {{"runner", "FILE", "(kcx-runner beside kcx-node)", "a path"},
     "Jobs",
     "The program that leads each slot's processes",
     [](settings& to, std::string_view value) { return read(to.runner, value); }},
    {{"log-limit", "SIZE", format_size(base.log_limit), "a size from 4K to 1T"},
     "Jobs",
     "Log kept of each attempt of a job that does not say itself",
     [](settings& to, std::string_view value) { return read_size(to.log_limit, value, 4LL << 10, 1LL << 40); }},
    {{"compress-logs-after", "DURATION", format_duration(base.compress_logs_after), "a duration from 0s to 36500d"},
     "Jobs",
     "When the log of an attempt that has ended is compressed",
     [](settings& to, std::string_view value) { return read(to.compress_logs_after, value, 0s, 24h * 36'500); }},
    {{"artifacts-limit", "SIZE", format_size(base.artifacts_limit), "a size from 0 to 1T"},
     "Jobs",
     "Artifacts kept of each attempt",
     [](settings& to, std::string_view value) { return read_size(to.artifacts_limit, value, 0, 1LL << 40); }},
    {{"keep", "STATE:DURATION", "(30d; 90d for failed, timed_out and interrupted)",
      "STATE:DURATION with a final state or \"all\" and a duration with its unit from 1s to 36500d or \"forever\"",
      true},
     "Jobs",
     "How long jobs of a final state stay listed after their end; may be given several times",
     [](settings& to, std::string_view value) { return add_keep(to.keep, value); }},
    {{"keep-count", "STATE:N", "(all)",
      "STATE:N with a final state or \"all\" and a whole number from 0 or \"forever\"", true},
     "Jobs",
     "How many jobs of a final state stay listed, the newest; may be given several times",
     [](settings& to, std::string_view value) { return add_keep_count(to.keep_count, value); }},
    {{"cgroups", "true|false", "true", on_or_off},
     "Jobs",
     "Limit whole jobs by cgroup v2 where the node is allowed to",
     [](settings& to, std::string_view value) { return read(to.cgroups, value); }},
    {{"job-user", "NAME", "", "the name of an account"},
     "Jobs",
     "Account of jobs that name none; only for a node that runs as root",
     [](settings& to, std::string_view value) { return read_account(to.job_user, value); }},
    {{"drain-timeout", "DURATION", format_duration(base.drain_timeout), "a duration from 0s to 7d"},
     "Stopping",
     "How long SIGTERM lets running jobs go on before they are ended",
     [](settings& to, std::string_view value) { return read(to.drain_timeout, value, 0s, 168h); }},
    {{"stop-grace", "DURATION", format_duration(base.stop_grace), "a duration from 0s to 1h"},
     "Stopping",
     "Time between SIGTERM and SIGKILL for jobs the node ends when it stops",
     [](settings& to, std::string_view value) { return read(to.stop_grace, value, 0s, 1h); }},
  };
}

std::vector<setting_row> engine_rows(const settings& base) {
  return {
    {{"readers", "N", std::to_string(base.readers), "a whole number from 1 to 64"},
     "Engine",
     "Read-only database connections, each with a thread",
     [](settings& to, std::string_view value) { return read(to.readers, value, 1, 64); }},
    {{"scheduler-threads", "N", std::to_string(base.scheduler_threads), "a whole number from 1 to 64"},
     "Engine",
     "Threads shared by all actors that do not block",
     [](settings& to, std::string_view value) { return read(to.scheduler_threads, value, 1, 64); }},
    {{"ageing-step", "DURATION", format_duration(base.ageing_step), "a duration from 1s to 1d"},
     "Engine",
     "How much older one step of priority makes a waiting job look",
     [](settings& to, std::string_view value) { return read(to.ageing_step, value, 1s, 24h); }},
    {{"log-level", "LEVEL", std::string{to_string(base.log)}, "debug, info, warning or error"},
     "Diagnosis",
     "Least important entries that the node writes to standard error",
     [](settings& to, std::string_view value) { return read(to.log, value); }},
    {{"fault-injection", "", "false", on_or_off},
     "Diagnosis",
     "Let administrators make actors fail by POST /v1/node/faults; for tests only",
     [](settings& to, std::string_view value) { return read(to.fault_injection, value); }},
  };
}

} // namespace

const std::vector<setting_row>& setting_table() {
  static const auto rows = [] {
    const settings base;
    auto all = network_rows(base);
    for (auto& more : {job_rows(base), engine_rows(base)})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

std::map<std::string, std::chrono::milliseconds> default_keep() {
  std::map<std::string, std::chrono::milliseconds> keep;
  for (const auto name : final_states) {
    const bool worth_a_look = name == "failed" || name == "timed_out" || name == "interrupted";
    keep.emplace(name, 24h * (worth_a_look ? 90 : 30));
  }
  return keep;
}

} // namespace kcx
