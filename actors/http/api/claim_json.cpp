#include "actors/http/api/claim_json.hpp"

#include "storage/job_outputs.hpp"
#include "storage/job_values.hpp"
#include "storage/json_input.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

namespace kcx::http {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::size_t most_tokens = 1'000;
constexpr std::size_t longest_message = 4'096;
constexpr std::chrono::milliseconds longest_run{std::chrono::hours{24 * 366}};

/// Reads one of the fields into its member.
using field_reader = std::function<void(const json_place&, const json&)>;
using field_names = std::vector<std::string_view>;

/// Walks an object's fields; null says "not given", but not of a field that there is not.
void read_fields(reading& in, const json_place& at, const json& document, const field_names& names,
                 const field_reader& read) {
  if (!document.is_object())
    return in.errors.add(at, "must be an object");
  for (const auto& [key, value] : document.items()) {
    const json_place here{&at, key};
    if (std::ranges::find(names, key) == names.end())
      in.errors.add(here, "is not a field of this call");
    else if (!value.is_null())
      read(here, value);
  }
}

template <class Number>
bool parse_number(std::string_view text, Number& number, int base = 10) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return !text.empty() && problem == std::errc{} && end == text.data() + text.size();
}

void read_names(reading& in, const json_place& at, const json& value, std::vector<std::string>& names) {
  if (!value.is_array() || value.size() > 64)
    return in.errors.add(at, "must be an array of up to 64 names");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto index = std::to_string(i);
    read_queue(in, {&at, index}, value[i], names.emplace_back());
  }
}

void read_claim(reading& in, const json_place& at, const json& document, remote_request& wanted) {
  wanted.free = 1;
  wanted.worker = "remote";
  std::optional<std::int64_t> capacity;
  const field_names names{"worker", "queues", "labels", "max", "capacity", "lease_s"};
  read_fields(in, at, document, names, [&](const json_place& here, const json& value) {
    if (here.key == "worker")
      read_project(in, here, value, wanted.worker);
    else if (here.key == "queues")
      read_names(in, here, value, wanted.queues);
    else if (here.key == "labels")
      read_labels(in, here, value, wanted.labels);
    else if (here.key == "max")
      wanted.free = read_whole(in.errors, here, value, 1, 1'000).value_or(1);
    else if (here.key == "capacity")
      capacity = read_whole(in.errors, here, value, 1, 100'000);
    else
      wanted.lease = read_seconds(in.errors, here, value, 1s, 1h).value_or(wanted.lease);
  });
  wanted.capacity = std::max(capacity.value_or(wanted.free), wanted.free);
}

std::optional<lease_token> read_token(reading& in, const json_place& at, const json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  auto token = text != nullptr ? parse_lease_token(*text) : std::nullopt;
  if (!token)
    in.errors.add(at, "must be a token that a claim gave");
  return token;
}

std::optional<step_state> read_final_state(reading& in, const json_place& at, const json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  const auto state = text != nullptr ? parse_step_state(*text) : std::nullopt;
  if (state && *state != step_state::pending && *state != step_state::running)
    return state;
  in.errors.add(at, "must be the step's final state, such as succeeded or failed");
  return std::nullopt;
}

/// The step's index, where it is told.
std::optional<std::int64_t> read_step(reading& in, const json_place& at, const json& value, step_record& step) {
  auto index = std::optional<std::int64_t>{};
  auto state = std::optional<step_state>{};
  read_fields(in, at, value, {"index", "state", "exit_code", "signal"},
              [&](const json_place& here, const json& member) {
                if (here.key == "index")
                  index = read_whole(in.errors, here, member, 0, 255);
                else if (here.key == "state")
                  state = read_final_state(in, here, member);
                else if (here.key == "exit_code")
                  step.exit_code = static_cast<std::int32_t>(read_whole(in.errors, here, member, 0, 255).value_or(0));
                else
                  step.signal = static_cast<std::int32_t>(read_whole(in.errors, here, member, 1, 64).value_or(1));
              });
  if (value.is_object() && (!value.contains("index") || value["index"].is_null()))
    in.errors.add({&at, "index"}, "is missing: which step it is, from 0");
  if (value.is_object() && (!value.contains("state") || value["state"].is_null()))
    in.errors.add({&at, "state"}, "is missing: the step's final state, such as succeeded or failed");
  step.index = static_cast<std::int32_t>(index.value_or(0));
  step.state = state.value_or(step_state::failed);
  return index;
}

void read_step_records(reading& in, const json_place& at, const json& value, std::vector<step_record>& steps) {
  if (!value.is_array() || value.size() > 256)
    return in.errors.add(at, "must be an array of steps");
  std::map<std::int64_t, std::size_t> told;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto place = std::to_string(i);
    const json_place here{&at, place};
    const auto index = read_step(in, here, value[i], steps.emplace_back());
    if (!index)
      continue;
    if (const auto first = told.emplace(*index, i).first->second; first != i)
      in.errors.add({&here, "index"}, "is that of steps/" + std::to_string(first) + " already: report each step once");
  }
}

constexpr std::array fail_reasons{std::pair{std::string_view{"worker_crashed"}, attempt_outcome::worker_crashed},
                                  std::pair{std::string_view{"spawn_failed"}, attempt_outcome::spawn_failed},
                                  std::pair{std::string_view{"time_limit"}, attempt_outcome::time_limit},
                                  std::pair{std::string_view{"no_output"}, attempt_outcome::no_output},
                                  std::pair{std::string_view{"cancelled"}, attempt_outcome::cancelled}};

/// The fields that say how it ended.
field_names end_fields(claim_end how) {
  switch (how) {
  case claim_end::complete: return {"message", "duration_s", "steps", "outputs", "exit_code", "signal"};
  case claim_end::fail: return {"message", "duration_s", "steps", "outputs", "reason"};
  case claim_end::release: break;
  }
  return {};
}

void read_end_field(reading& in, const json_place& at, const json& value, attempt_result& result) {
  if (at.key == "message") {
    if (auto text = read_text(in.errors, at, value, longest_message))
      result.message = *std::move(text);
  } else if (at.key == "duration_s") {
    result.duration = read_seconds(in.errors, at, value, 0ms, longest_run).value_or(0ms);
  } else if (at.key == "steps") {
    read_step_records(in, at, value, result.steps);
  } else if (at.key == "outputs") {
    read_outputs(in, at, value, result.outputs);
  } else if (at.key == "reason") {
    std::vector<std::string_view> names;
    names.reserve(fail_reasons.size());
    for (const auto& [name, outcome] : fail_reasons)
      names.push_back(name);
    if (const auto choice = read_choice(in.errors, at, value, names))
      result.outcome = fail_reasons[*choice].second;
  } else if (at.key == "exit_code") {
    result.exit_code = static_cast<std::int32_t>(read_whole(in.errors, at, value, 0, 255).value_or(0));
  } else {
    result.signal = static_cast<std::int32_t>(read_whole(in.errors, at, value, 1, 64).value_or(1));
  }
}

attempt_result unreported(claim_end how) {
  attempt_result result;
  result.outcome = how == claim_end::complete ? attempt_outcome::exited
                   : how == claim_end::fail   ? attempt_outcome::worker_crashed
                                              : attempt_outcome::not_started;
  // Not known: the node measures and looks for itself.
  result.duration = -1ms;
  result.log.bytes = -1;
  return result;
}

void name_claim(attempt_result& result, const lease_token& token) {
  result.key = token.key;
  result.nonce = token.nonce;
}

void check_end(reading& in, const json_place& at, claim_end how, attempt_result& result) {
  if (how != claim_end::complete)
    return;
  if (result.signal && result.exit_code)
    in.errors.add({&at, "signal"}, "cannot be with exit_code: a command ends with one of them");
  else if (result.signal)
    result.outcome = attempt_outcome::signalled;
  else if (!result.exit_code)
    result.exit_code = 0;
}

template <class Value>
expected<Value> finish(reading& in, Value value) {
  if (!in.errors.empty())
    return std::move(in.errors).to_error();
  return value;
}

bool has_room(reading& in, const json_place& at, const json& list) {
  const bool fits = list.is_array() && !list.empty() && list.size() <= most_tokens;
  if (!fits)
    in.errors.add(at, "must be an array of 1 to 1,000 entries");
  return fits;
}

} // namespace

// -- tokens -----------------------------------------------------------------------------------------------------------

std::string to_text(const lease_token& token) {
  std::array<char, 17> digits{};
  const auto [end, problem] = std::to_chars(digits.data(), digits.data() + digits.size(), token.nonce, 16);
  return std::to_string(token.key.job.value) + "." + std::to_string(token.key.attempt) + "." +
         std::string{digits.data(), end};
}

std::optional<lease_token> parse_lease_token(std::string_view text) {
  const auto first = text.find('.');
  const auto second = text.find('.', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos)
    return std::nullopt;
  lease_token token;
  if (!parse_number(text.substr(0, first), token.key.job.value) ||
      !parse_number(text.substr(first + 1, second - first - 1), token.key.attempt) ||
      !parse_number(text.substr(second + 1), token.nonce, 16))
    return std::nullopt;
  const bool sound = token.key.job.value >= 1 && token.key.attempt >= 1 && token.nonce >= 1;
  return sound ? std::optional{token} : std::nullopt;
}

expected<std::vector<lease_token>> parse_tokens(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  const json_place root{nullptr, ""};
  std::vector<lease_token> tokens;
  auto given = false;
  read_fields(in, root, document, {"tokens"}, [&](const json_place& at, const json& value) {
    given = true;
    if (!has_room(in, at, value))
      return;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const auto index = std::to_string(i);
      if (const auto token = read_token(in, {&at, index}, value[i]))
        tokens.push_back(*token);
    }
  });
  if (!given)
    in.errors.add({&root, "tokens"}, "is missing");
  return finish(in, std::move(tokens));
}

// -- asking and reporting ---------------------------------------------------------------------------------------------

expected<remote_request> parse_claim(const json& document) {
  const job_limits limits;
  reading in{limits, {}};
  remote_request wanted;
  read_claim(in, {nullptr, ""}, document, wanted);
  return finish(in, std::move(wanted));
}

expected<claim_report> parse_report(const json& document, claim_end how, const lease_token& token) {
  const job_limits limits;
  reading in{limits, {}};
  const json_place root{nullptr, ""};
  claim_report report{{unreported(how)}, {}};
  read_claim(in, root, json::object(), report.next);
  name_claim(report.ended.front(), token);
  auto names = end_fields(how);
  if (how == claim_end::complete)
    names.push_back("claim");
  read_fields(in, root, document, names, [&](const json_place& at, const json& value) {
    if (at.key == "claim")
      read_claim(in, at, value, report.next);
    else
      read_end_field(in, at, value, report.ended.front());
  });
  check_end(in, root, how, report.ended.front());
  report.next.free = 0;
  return finish(in, std::move(report));
}

expected<claim_report> parse_reports(const json& document, claim_end how) {
  claim_report report;
  if (how == claim_end::release) {
    const auto tokens = parse_tokens(document);
    if (!tokens)
      return tokens.error();
    for (const auto& each : *tokens)
      name_claim(report.ended.emplace_back(unreported(how)), each);
    return report;
  }
  const job_limits limits;
  reading in{limits, {}};
  const json_place root{nullptr, ""};
  auto given = false;
  const auto read_item = [&](const json_place& at, const json& value) {
    auto& result = report.ended.emplace_back(unreported(how));
    auto named = false;
    auto names = end_fields(how);
    names.push_back("token");
    read_fields(in, at, value, names, [&](const json_place& here, const json& member) {
      if (here.key != "token")
        return read_end_field(in, here, member, result);
      named = true;
      if (const auto token = read_token(in, here, member))
        name_claim(result, *token);
    });
    if (value.is_object() && !named)
      in.errors.add({&at, "token"}, "is missing");
    check_end(in, at, how, result);
  };
  read_claim(in, root, json::object(), report.next);
  field_names names{"items"};
  if (how == claim_end::complete)
    names.push_back("claim");
  read_fields(in, root, document, names, [&](const json_place& at, const json& value) {
    if (at.key == "claim")
      return read_claim(in, at, value, report.next);
    given = true;
    for (std::size_t i = 0; has_room(in, at, value) && i < value.size(); ++i) {
      const auto index = std::to_string(i);
      read_item({&at, index}, value[i]);
    }
  });
  if (!given)
    in.errors.add({&root, "items"}, "is missing");
  report.next.free = 0;
  return finish(in, std::move(report));
}

// -- answers ----------------------------------------------------------------------------------------------------------

json claim_document(const job_grant& grant, std::chrono::milliseconds lease) {
  auto shown = json::object();
  add_spec_json(shown, grant.spec);
  for (const auto& [name, value] : need_variables(grant.needs))
    shown["env"][name] = value;
  shown["token"] = to_text({grant.key, grant.nonce});
  shown["id"] = grant.key.job.value;
  shown["attempt"] = grant.key.attempt;
  shown["lease_s"] = static_cast<double>(lease.count()) / 1000.0;
  shown["secrets"] = grant.spec.secrets;
  return shown;
}

json claims_document(const std::vector<expected<job_grant>>& granted, std::chrono::milliseconds lease) {
  auto items = json::array();
  for (const auto& each : granted)
    if (each)
      items.push_back(claim_document(*each, lease));
  return items;
}

json renewal_document(const lease_token& token, const renewal& answer) {
  return {{"token", to_text(token)},
          {"lease_s", static_cast<double>(answer.lease.count()) / 1000.0},
          {"cancel", answer.cancel}};
}

json end_document(const attempt_result& reported, const transition_result& answer) {
  return {{"token", to_text({reported.key, reported.nonce.value_or(0)})},
          {"id", reported.key.job.value},
          {"attempt", reported.key.attempt},
          {"state", to_string(answer.change.state)},
          {"reason", answer.change.reason == job_reason::none ? json(nullptr) : json(to_string(answer.change.reason))},
          {"repeated", answer.repeated}};
}

json refusal_document(const lease_token& token, const error& failure) {
  return {{"token", to_text(token)}, {"code", to_string(failure.code)}, {"detail", failure.message}};
}

} // namespace kcx::http
