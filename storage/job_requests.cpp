#include "storage/job_requests.hpp"

#include "storage/job_values.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace kcx {

namespace {

using nlohmann::json;

/// Reads one field into its member; false if the document has no field of this name.
using field_reader = std::function<bool(reading&, const json_place&, const json&)>;

/// Walks an object's fields; null says "not given".
outcome read_object(const json& document, const field_reader& read, reading& in) {
  const json_place root{nullptr, ""};
  if (!document.is_object())
    in.errors.add(root, "must be an object");
  else
    for (const auto& [key, value] : document.items())
      if (const json_place here{&root, key}; !value.is_null() && !read(in, here, value))
        in.errors.add(here, "is not a field of this call");
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
  if (value.size() > all_states.size())
    return in.errors.add(at, "must be a state or an array of states, each once");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    read_state(in, {&at, index}, value[i], states);
  }
}

void read_word(reading& in, const json_place& at, const json& value, std::optional<std::string>& member) {
  if (auto text = read_text(in.errors, at, value, in.limits.name_bytes))
    member = std::move(*text);
}

} // namespace

expected<std::map<std::string, std::string>> parse_retry(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  std::map<std::string, std::string> secrets;
  const auto read = [&](reading& from, const json_place& at, const json& value) {
    if (at.key != "secrets")
      return false;
    read_variables(from, at, value, secrets);
    return true;
  };
  if (auto complete = read_object(document, read, in); !complete)
    return std::move(complete).error();
  return secrets;
}

expected<job_patch> parse_patch(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  job_patch patch;
  const auto read = [&](reading& from, const json_place& at, const json& value) {
    if (at.key == "priority") {
      if (const auto number = read_whole(from.errors, at, value, -100, 100))
        patch.priority = static_cast<std::int32_t>(*number);
    } else if (at.key == "labels") {
      read_labels(from, at, value, patch.labels.emplace());
    } else if (at.key == "run_at") {
      const auto* text = value.get_ptr<const std::string*>();
      const auto time = text != nullptr ? parse_rfc3339(*text) : std::nullopt;
      patch.run_at.emplace(time);
      if (!time)
        from.errors.add(at, "must be a time as in 2026-01-31T12:00:00Z, or null for now");
    } else {
      return false;
    }
    return true;
  };
  if (auto complete = read_object(document, read, in); !complete)
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
  const auto read = [&](reading& from, const json_place& at, const json& value) {
    const std::pair<std::string_view, std::optional<std::string>*> words[] = {{"project", &filter.project},
                                                                              {"queue", &filter.queue},
                                                                              {"name", &filter.name},
                                                                              {"label", &filter.label},
                                                                              {"group", &filter.group}};
    if (at.key == "state") {
      read_states(from, at, value, filter.states);
      return true;
    }
    const auto* found = std::ranges::find(words, at.key, [](const auto& each) { return each.first; });
    if (found == std::end(words))
      return false;
    read_word(from, at, value, *found->second);
    // A variable that was not set must not mean every job without a name.
    if (*found->second && (*found->second)->empty())
      from.errors.add(at, "must not be empty");
    return true;
  };
  if (auto complete = read_object(document, read, in); !complete)
    return std::move(complete).error();
  return filter;
}

} // namespace kcx
