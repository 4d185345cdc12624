#include "storage/job_json.hpp"

#include "storage/job_values.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace kcx {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// -- kinds of values: each is read from JSON into a member, and shown as JSON again -----------------------------------

template <std::int64_t Least, std::int64_t Most, class Number>
void read_number(reading& in, const json_place& at, const json& value, Number& member) {
  if (auto number = read_whole(in.errors, at, value, Least, Most))
    member = static_cast<Number>(*number);
}

template <std::int64_t LeastMs, std::int64_t MostMs, class Duration>
void read_duration(reading& in, const json_place& at, const json& value, Duration& member) {
  if (auto duration = read_seconds(in.errors, at, value, milliseconds{LeastMs}, milliseconds{MostMs}))
    member = *duration;
}

template <class Value>
json show_plain(const Value& member) {
  return json(member);
}

json show_optional_number(const std::optional<std::int64_t>& member) {
  return member ? json(*member) : json(nullptr);
}

json show_text_or_null(const std::string& member) {
  return member.empty() ? json(nullptr) : json(member);
}

json show_seconds(milliseconds member) {
  return json(static_cast<double>(member.count()) / 1000.0);
}

json show_optional_seconds(const std::optional<milliseconds>& member) {
  return member ? show_seconds(*member) : json(nullptr);
}

// -- choices and times ------------------------------------------------------------------------------------------------

void read_keep(reading& in, const json_place& at, const json& value, keep_policy& member) {
  if (auto choice = read_choice(in.errors, at, value, {"never", "on_failure", "always"}))
    member = static_cast<keep_policy>(*choice);
}

void read_interrupt(reading& in, const json_place& at, const json& value, interrupt_policy& member) {
  if (auto choice = read_choice(in.errors, at, value, {"fail", "requeue"}))
    member = static_cast<interrupt_policy>(*choice);
}

void read_conflict(reading& in, const json_place& at, const json& value, conflict_policy& member) {
  if (auto choice = read_choice(in.errors, at, value, {"reject", "return", "replace"}))
    member = static_cast<conflict_policy>(*choice);
}

void read_supersede(reading& in, const json_place& at, const json& value, supersede_policy& member) {
  if (auto choice = read_choice(in.errors, at, value, {"none", "queued", "running"}))
    member = static_cast<supersede_policy>(*choice);
}

template <class Enum>
json show_name(const Enum& member) {
  return json(to_string(member));
}

constexpr std::array retry_reasons{job_reason::exit_code,      job_reason::signal,       job_reason::spawn_failed,
                                   job_reason::time_limit,     job_reason::no_output,    job_reason::worker_crashed,
                                   job_reason::node_restarted, job_reason::node_stopped, job_reason::lease_expired};

void read_retry_on(reading& in, const json_place& at, const json& value, std::vector<job_reason>& member) {
  std::vector<std::string_view> names;
  std::transform(retry_reasons.begin(), retry_reasons.end(), std::back_inserter(names),
                 [](job_reason reason) { return to_string(reason); });
  if (!value.is_array() || value.size() > names.size()) {
    in.errors.add(at, "must be an array of at most " + std::to_string(names.size()) + " reasons");
    return;
  }
  member.clear();
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    if (auto choice = read_choice(in.errors, {&at, index}, value[i], names))
      member.push_back(retry_reasons[*choice]);
  }
}

json show_retry_on(const std::vector<job_reason>& member) {
  auto names = json::array();
  for (auto reason : member)
    names.push_back(to_string(reason));
  return names;
}

void read_time(reading& in, const json_place& at, const json& value, std::optional<timestamp>& member) {
  const auto* text = value.get_ptr<const std::string*>();
  member = text != nullptr ? parse_rfc3339(*text) : std::nullopt;
  if (!member)
    in.errors.add(at, "must be a time as in 2026-01-31T12:00:00Z");
}

json show_time(const std::optional<timestamp>& member) {
  return member ? json(to_rfc3339(*member)) : json(nullptr);
}

// -- the table --------------------------------------------------------------------------------------------------------

/// A field of a submitted job. The one list from which all three forms are read and written.
struct spec_field {
  std::string_view key;
  void (*read)(reading&, const json_place&, const json&, job_spec&);
  json (*show)(const job_spec&);
  bool (*is_default)(const job_spec&);
};

const job_spec& default_spec() {
  static const job_spec spec;
  return spec;
}

template <auto Member, auto Read, auto Show>
constexpr spec_field field(std::string_view key) {
  return {
    key,
    [](reading& in, const json_place& at, const json& value, job_spec& spec) { Read(in, at, value, spec.*Member); },
    [](const job_spec& spec) { return json(Show(spec.*Member)); },
    [](const job_spec& spec) { return spec.*Member == default_spec().*Member; }};
}

using ms_or_none = std::optional<milliseconds>;
constexpr std::int64_t year_ms = 366LL * 24 * 3'600 * 1'000;
constexpr std::int64_t hour_ms = 3'600LL * 1'000;

constexpr std::array spec_fields{
  field<&job_spec::name, read_name, show_plain<std::string>>("name"),
  field<&job_spec::project, read_project, show_plain<std::string>>("project"),
  field<&job_spec::queue, read_queue, show_plain<std::string>>("queue"),
  field<&job_spec::labels, read_labels, show_plain<std::vector<std::string>>>("labels"),
  field<&job_spec::metadata, read_metadata, show_plain<json>>("metadata"),
  field<&job_spec::command, read_command, show_command>("command"),
  field<&job_spec::steps, read_steps, show_steps>("steps"),
  field<&job_spec::env, read_variables, show_plain<std::map<std::string, std::string>>>("env"),
  field<&job_spec::working_dir, read_working_dir, show_text_or_null>("working_dir"),
  field<&job_spec::keep_workspace, read_keep, show_name<keep_policy>>("keep_workspace"),
  field<&job_spec::artifacts, read_artifacts, show_plain<std::vector<std::string>>>("artifacts"),
  field<&job_spec::user, read_user, show_text_or_null>("user"),
  field<&job_spec::limits, read_limits, show_limits>("limits"),
  field<&job_spec::priority, read_number<-100, 100, std::int32_t>, show_plain<std::int32_t>>("priority"),
  field<&job_spec::weight, read_number<1, 1'000, std::int32_t>, show_plain<std::int32_t>>("weight"),
  field<&job_spec::time_limit, read_duration<1, year_ms, ms_or_none>, show_optional_seconds>("time_limit_s"),
  field<&job_spec::no_output_limit, read_duration<1, year_ms, ms_or_none>, show_optional_seconds>("no_output_limit_s"),
  field<&job_spec::wait_limit, read_duration<1, year_ms, ms_or_none>, show_optional_seconds>("wait_limit_s"),
  field<&job_spec::cancel_grace, read_duration<0, hour_ms, milliseconds>, show_seconds>("cancel_grace_s"),
  field<&job_spec::log_limit_bytes, read_number<1'024, 1LL << 40, std::optional<std::int64_t>>, show_optional_number>(
    "log_limit_bytes"),
  field<&job_spec::run_at, read_time, show_time>("run_at"),
  field<&job_spec::max_attempts, read_number<1, 100, std::int32_t>, show_plain<std::int32_t>>("max_attempts"),
  field<&job_spec::retry_on, read_retry_on, show_retry_on>("retry_on"),
  field<&job_spec::backoff, read_duration<0, hour_ms, milliseconds>, show_seconds>("backoff_s"),
  field<&job_spec::on_interrupt, read_interrupt, show_name<interrupt_policy>>("on_interrupt"),
  field<&job_spec::max_interrupts, read_number<0, 100, std::int32_t>, show_plain<std::int32_t>>("max_interrupts"),
  field<&job_spec::unique_key, read_key, show_text_or_null>("unique_key"),
  field<&job_spec::on_conflict, read_conflict, show_name<conflict_policy>>("on_conflict"),
  field<&job_spec::group, read_key, show_text_or_null>("group"),
  field<&job_spec::group_limit, read_number<1, 10'000, std::int32_t>, show_plain<std::int32_t>>("group_limit"),
  field<&job_spec::supersede, read_supersede, show_name<supersede_policy>>("supersede"),
  field<&job_spec::ref, read_ref, show_text_or_null>("ref"),
  field<&job_spec::needs, read_needs, show_needs>("needs"),
  field<&job_spec::webhook, read_webhook, show_webhook>("webhook"),
};

/// Read only: no form shows it.
constexpr auto secrets_field =
  field<&job_spec::secrets, read_variables, show_plain<std::map<std::string, std::string>>>("secrets");

const spec_field* find_field(std::string_view key) {
  if (key == secrets_field.key)
    return &secrets_field;
  const auto* found =
    std::find_if(spec_fields.begin(), spec_fields.end(), [&](const spec_field& f) { return f.key == key; });
  return found == spec_fields.end() ? nullptr : found;
}

/// Rules that concern more than one field.
void check_whole(reading& in, const json_place& root, const json& document, const job_spec& spec) {
  auto given = [&](const char* key) { return document.contains(key) && !document[key].is_null(); };
  const auto has_steps = given("steps") && document["steps"] != json::array();
  if (given("command") && has_steps)
    in.errors.add({&root, "steps"}, "must not stand beside command: give one of them");
  else if (given("steps") && !has_steps && !given("command"))
    in.errors.add({&root, "steps"}, "must not be empty, or give command instead");
  else if (!given("command") && !has_steps)
    in.errors.add({&root, "command"}, "is missing: give command or steps");
  if (spec.unique_key.empty() && spec.on_conflict != conflict_policy::reject)
    in.errors.add({&root, "on_conflict"}, "has no meaning without unique_key");
  if (spec.group.empty() && spec.group_limit != 1)
    in.errors.add({&root, "group_limit"}, "has no meaning without group");
  if (spec.group.empty() && spec.supersede != supersede_policy::none)
    in.errors.add({&root, "supersede"}, "has no meaning without group");
  const json_place secrets{&root, "secrets"};
  for (const auto& [name, value] : spec.secrets)
    if (spec.env.contains(name))
      in.errors.add({&secrets, name}, "is in env as well: give it once");
}

constexpr job_limits no_limits() {
  constexpr auto any = std::numeric_limits<std::size_t>::max() / 2;
  return {any, any, any, any, any, any, any, any, any, any, false};
}

} // namespace

expected<job_spec> parse_job_spec(const json& document, const std::string& at, const job_limits& limits) {
  reading in{limits, {}};
  const json_place root{nullptr, at};
  if (!document.is_object()) {
    in.errors.add(root, "must be an object that describes a job");
    return std::move(in.errors).to_error();
  }
  job_spec spec;
  for (const auto& [key, value] : document.items()) {
    const json_place here{&root, key};
    const auto* known = find_field(key);
    if (known == nullptr)
      in.errors.add(here, "is not a field of a job");
    else if (!value.is_null()) // null says "not given", as the API shows it
      known->read(in, here, value, spec);
  }
  check_whole(in, root, document, spec);
  if (!in.errors.empty())
    return std::move(in.errors).to_error();
  return spec;
}

json to_stored_json(const job_spec& spec) {
  auto stored = json::object();
  for (const auto& field : spec_fields)
    if (!field.is_default(spec))
      stored[std::string{field.key}] = field.show(spec);
  return stored;
}

namespace {

std::string why_not(const error& refused) {
  return refused.fields.empty() ? refused.message : refused.fields[0].pointer + " " + refused.fields[0].detail;
}

} // namespace

expected<job_spec> from_stored_json(std::string_view text) {
  auto document = json::parse(text, nullptr, false);
  if (document.is_discarded())
    return error{ec::internal, "a stored job specification is not JSON", {}};
  auto spec = parse_job_spec(document, "", no_limits());
  if (!spec)
    return error{ec::internal, "a stored job specification is not valid: " + why_not(spec.error()), {}};
  return spec;
}

void add_spec_json(json& target, const job_spec& spec) {
  for (const auto& field : spec_fields)
    target[std::string{field.key}] = field.show(spec);
}

} // namespace kcx
