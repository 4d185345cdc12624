/// How node and runner write their messages as JSON: what commands and events share. For the files of the protocol
/// alone; everybody else has protocol.hpp.
#pragma once

#include "actors/runner/protocol.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kcx::protocol {

using nlohmann::json;

template <class Enum, std::size_t N>
using name_table = std::array<std::pair<Enum, std::string_view>, N>;

// The names on the socket. They are the protocol's own: the database's words may change without it.
inline constexpr name_table<cancel_cause, 2> causes{
  {{cancel_cause::cancelled, "cancelled"}, {cancel_cause::node_stop, "node_stop"}}};

template <class Enum, std::size_t N>
std::string_view name_of(const name_table<Enum, N>& table, Enum value) {
  for (const auto& [known, name] : table)
    if (known == value)
      return name;
  return "unknown";
}

template <class Enum, std::size_t N>
Enum value_of(const name_table<Enum, N>& table, const json& name) {
  for (const auto& [value, known] : table)
    if (known == name.get_ref<const std::string&>())
      return value;
  throw std::invalid_argument{"unknown word " + name.dump()};
}

// -- parts --------------------------------------------------------------------

template <class T>
json plain(const T& value) {
  return value;
}
inline json plain(const timestamp& value) {
  return value.time_since_epoch().count();
}
inline json plain(const milliseconds& value) {
  return value.count();
}

template <class T>
void put(json& to, const char* name, const std::optional<T>& value) {
  if (value)
    to[name] = plain(*value);
}

inline void take(const json& from, timestamp& value) {
  value = timestamp{milliseconds{from.get<std::int64_t>()}};
}
inline void take(const json& from, milliseconds& value) {
  value = milliseconds{from.get<std::int64_t>()};
}
template <class T>
void take(const json& from, T& value) {
  from.get_to(value);
}

template <class T>
void take(const json& from, const char* name, std::optional<T>& value) {
  if (const auto found = from.find(name); found != from.end())
    take(*found, value.emplace());
}

inline json key_of(const char* kind, const attempt_key& key) {
  return {{"kind", kind}, {"job_id", key.job.value}, {"attempt", key.attempt}};
}

inline attempt_key key_from(const json& from) {
  return {{from.at("job_id").get<std::int64_t>()}, from.at("attempt").get<std::int32_t>()};
}

// -- messages -----------------------------------------------------------------

json to_json(const runner_command& command);
json to_json(const runner_event& event);
/// These throw what json throws, and std::invalid_argument, at anything that no node or runner of this build writes.
runner_command command_from(const json& from);
runner_event event_from(const json& from);

} // namespace kcx::protocol
