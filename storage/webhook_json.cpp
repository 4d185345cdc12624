// Webhooks as JSON: reading them with all their rules, and showing them without their secrets.
#include "storage/webhook_json.hpp"

#include "config/units.hpp"
#include "storage/job_json.hpp"
#include "storage/job_values.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>

namespace kcx {

namespace {

using nlohmann::json;

constexpr std::size_t longest_url = 2'048;
constexpr std::size_t longest_secret = 1'024;

/// Printable ASCII with a scheme, a host and no account: what a request line and a Host field can be made of.
bool is_web_address(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme))
      continue;
    const auto rest = text.substr(scheme.size());
    const auto host = rest.substr(0, rest.find_first_of("/?"));
    return !host.empty() && host.front() != ':' && host.find('@') == std::string_view::npos &&
           rest.find('#') == std::string_view::npos &&
           std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F && c != '"' && c != '<' && c != '>'; });
  }
  return false;
}

bool is_ipv6(std::string_view text) {
  const std::string address{text.substr(0, text.find('%'))}; // a zone is the system's business
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

/// Whether a connection can be tried at all: a name, or an IPv6 address in brackets, and a port that exists, if any.
bool has_whole_authority(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  const auto authority = url.substr(0, url.find_first_of("/?"));
  const bool bracketed = authority.starts_with('[');
  const auto end = bracketed ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (end == std::string_view::npos)
    return false;
  const auto name = authority.substr(0, end);
  if (bracketed ? !is_ipv6(name.substr(1)) : name.find_first_of("[]") != std::string_view::npos)
    return false;
  const auto port = authority.substr(bracketed ? end + 1 : end);
  return port.empty() || (port.front() == ':' && parse_number(port.substr(1), 1, 65'535));
}

void read_url(json_errors& errors, const json_place& at, const json& value, bool whole, webhook_spec& to) {
  const auto text = read_text(errors, at, value, longest_url);
  if (text && is_web_address(*text) && whole && !has_whole_authority(*text))
    errors.add(at, "must have a port from 1 to 65535, or none, and brackets around an IPv6 address, as "
                   "http://[::1]:8080/hook");
  else if (text && is_web_address(*text))
    to.url = *text;
  else if (text)
    errors.add(at, "must be an address as https://ci.example.org/hook, without an account in it");
}

void read_events(json_errors& errors, const json_place& at, const json& value, webhook_spec& to) {
  std::vector<std::string_view> names;
  for (const auto state : webhook_states())
    names.push_back(to_string(state));
  if (!value.is_array() || value.empty() || value.size() > names.size())
    return errors.add(at, "must be an array of states, each once");
  to.events.clear();
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    if (const auto choice = read_choice(errors, {&at, index}, value[i], names))
      to.events.push_back(webhook_states()[*choice]);
  }
}

void read_fields(json_errors& errors, const json_place& root, const json& document, bool whole, webhook_spec& to) {
  if (!document.is_object())
    return errors.add(root, "must be an object of url, secret and events");
  for (const auto& [key, value] : document.items()) {
    const json_place at{&root, key};
    if (value.is_null() && (key == "url" || key == "secret" || key == "events"))
      continue;
    if (key == "url") {
      read_url(errors, at, value, whole, to);
    } else if (key == "secret") {
      auto text = read_text(errors, at, value, longest_secret);
      if (whole && text && text->empty())
        errors.add(at, "must not be empty; leave it out to send unsigned");
      else if (text)
        to.secret = std::move(*text);
    } else if (key == "events") {
      read_events(errors, at, value, to);
    } else {
      errors.add(at, "is not a field of a webhook");
    }
  }
  if (!document.contains("url") || document["url"].is_null())
    errors.add({&root, "url"}, "is missing");
}

} // namespace

const std::vector<job_state>& webhook_states() {
  static const std::vector<job_state> states{job_state::running,   job_state::succeeded, job_state::failed,
                                             job_state::timed_out, job_state::cancelled, job_state::interrupted,
                                             job_state::skipped};
  return states;
}

std::string_view to_string(delivery_state state) noexcept {
  switch (state) {
  case delivery_state::pending: return "pending";
  case delivery_state::delivered: return "delivered";
  case delivery_state::failed: return "failed";
  }
  return "unknown";
}

std::optional<delivery_state> parse_delivery_state(std::string_view text) noexcept {
  for (const auto each : {delivery_state::pending, delivery_state::delivered, delivery_state::failed})
    if (to_string(each) == text)
      return each;
  return std::nullopt;
}

void read_webhook(reading& in, const json_place& at, const json& value, std::optional<webhook_spec>& member) {
  read_fields(in.errors, at, value, in.limits.whole_addresses, member.emplace());
}

json show_webhook(const std::optional<webhook_spec>& member) {
  if (!member)
    return nullptr;
  auto events = json::array();
  for (const auto state : member->events)
    events.push_back(to_string(state));
  return {{"url", member->url}, {"events", std::move(events)}};
}

expected<webhook_spec> parse_webhook(const json& document) {
  json_errors errors;
  webhook_spec spec;
  read_fields(errors, {}, document, true, spec);
  if (!errors.empty())
    return std::move(errors).to_error();
  return spec;
}

std::string receiver_of(std::string_view url) {
  return std::string{url.substr(0, url.find_first_of("/?", url.find("://") + 3))};
}

json to_json(const project_webhook& hook) {
  auto shown = show_webhook(hook.what);
  shown["project"] = hook.project;
  shown["signed"] = hook.is_signed;
  shown["created_at"] = to_rfc3339(hook.created_at);
  return shown;
}

json to_json(const delivery& sent) {
  return {{"id", sent.id},
          {"job", sent.job.value},
          {"event", to_string(sent.event)},
          {"url", sent.url},
          {"state", to_string(sent.state)},
          {"tries", sent.tries},
          {"created_at", to_rfc3339(sent.created_at)},
          {"next_at", time_or_null(sent.next_at)},
          {"last_at", time_or_null(sent.last_at)},
          {"status", sent.status ? json(*sent.status) : json(nullptr)},
          {"failure", sent.failure.empty() ? json(nullptr) : json(sent.failure)}};
}

} // namespace kcx
