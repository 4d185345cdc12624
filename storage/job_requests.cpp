#include "storage/job_requests.hpp"

#include "storage/job_values.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace kcx {

namespace {

using nlohmann::json;

/// A field of a small document, and what reads its value into its member.
struct named_field {
  std::string_view name;
  std::function<void(const json_place&, const json&)> read;
};

/// Walks an object's fields; null says "not given", but not of a field that there is not.
outcome read_object(const json& document, const std::vector<named_field>& fields, reading& in) {
  const json_place root{nullptr, ""};
  if (!document.is_object())
    in.errors.add(root, "must be an object");
  else
    for (const auto& [key, value] : document.items()) {
      const json_place here{&root, key};
      const auto known = std::ranges::find(fields, key, &named_field::name);
      if (known == fields.end())
        in.errors.add(here, "is not a field of this call");
      else if (!value.is_null())
        known->read(here, value);
    }
  if (!in.errors.empty())
    return std::move(in.errors).to_error();
  return done{};
}

constexpr std::array all_states{job_state::scheduled,  job_state::blocked,     job_state::queued, job_state::running,
                                job_state::cancelling, job_state::succeeded,   job_state::failed, job_state::timed_out,
                                job_state::cancelled,  job_state::interrupted, job_state::skipped};

void read_state(reading& in, const json_place& at, const json& value, std::vector<job_state>& states) {
  std::vector<std::string_view> names;
  for (const auto state : all_states)
    names.push_back(to_string(state));
  if (const auto choice = read_choice(in.errors, at, value, names))
    states.push_back(all_states[*choice]);
}

void read_states(reading& in, const json_place& at, const json& value, std::vector<job_state>& states) {
  if (!value.is_array())
    return read_state(in, at, value, states);
  if (value.empty() || value.size() > all_states.size())
    return in.errors.add(at, "must be a state or an array of states, each once");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    read_state(in, {&at, index}, value[i], states);
  }
}

void read_run_at(reading& in, const json_place& at, const json& value, job_patch& patch) {
  const auto* text = value.get_ptr<const std::string*>();
  const auto time = text != nullptr ? parse_rfc3339(*text) : std::nullopt;
  patch.run_at.emplace(time);
  if (!time)
    in.errors.add(at, "must be a time as in 2026-01-31T12:00:00Z, or null for now");
}

void read_priority(reading& in, const json_place& at, const json& value, job_patch& patch) {
  if (const auto number = read_whole(in.errors, at, value, -100, 100))
    patch.priority = static_cast<std::int32_t>(*number);
}

// A variable that was not set must not mean every job, or those without a name.
void refuse_nulls(reading& in, const json& document) {
  if (!document.is_object())
    return;
  const json_place root{nullptr, ""};
  for (const auto& [key, value] : document.items())
    if (value.is_null())
      in.errors.add({&root, key}, "must not be null; leave it out to choose by something else");
}

named_field word(reading& in, std::string_view name, std::optional<std::string>& member) {
  return {name, [&in, &member](const json_place& at, const json& value) {
            if (auto text = read_text(in.errors, at, value, in.limits.name_bytes))
              member = std::move(*text);
            if (member && member->empty())
              in.errors.add(at, "must not be empty");
          }};
}

} // namespace

expected<std::map<std::string, std::string>> parse_retry(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  std::map<std::string, std::string> secrets;
  const auto read_secrets = [&](const json_place& at, const json& value) { read_variables(in, at, value, secrets); };
  if (auto complete = read_object(document, {{"secrets", read_secrets}}, in); !complete)
    return std::move(complete).error();
  return secrets;
}

expected<job_patch> parse_patch(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  job_patch patch;
  const std::vector<named_field> fields{
    {"priority", [&](const json_place& at, const json& value) { read_priority(in, at, value, patch); }},
    {"labels", [&](const json_place& at, const json& value) { read_labels(in, at, value, patch.labels.emplace()); }},
    {"run_at", [&](const json_place& at, const json& value) { read_run_at(in, at, value, patch); }},
  };
  if (auto complete = read_object(document, fields, in); !complete)
    return std::move(complete).error();
  if (document.contains("run_at") && document["run_at"].is_null())
    patch.run_at.emplace(std::nullopt);
  if (!patch.priority && !patch.run_at && !patch.labels)
    return error{ec::invalid_input, "nothing is to change", {{"", "must hold priority, run_at or labels"}}};
  return patch;
}

expected<job_filter> parse_filter_document(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  job_filter filter;
  const std::vector<named_field> fields{
    {"state", [&](const json_place& at, const json& value) { read_states(in, at, value, filter.states); }},
    word(in, "project", filter.project),
    word(in, "queue", filter.queue),
    word(in, "name", filter.name),
    word(in, "label", filter.label),
    word(in, "group", filter.group),
  };
  refuse_nulls(in, document);
  if (auto complete = read_object(document, fields, in); !complete)
    return std::move(complete).error();
  return filter;
}

} // namespace kcx
