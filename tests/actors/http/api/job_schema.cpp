// What openapi.json says of a submitted job is what the node takes: tried at both sides of every border.
#define CAF_SUITE job_schema
#include "actors/http/api/openapi.hpp"
#include "caf/test/unit_test.hpp"
#include "storage/job_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <vector>

using namespace kcx;
using nlohmann::json;

namespace {

/// The whole job with this value in the place that is looked at.
using job_with = std::function<json(const json&)>;

const json& document() {
  static const auto parsed = json::parse(http::openapi_document());
  return parsed;
}

const json& resolved(const json& schema) {
  if (!schema.contains("$ref"))
    return schema;
  return document().at(json::json_pointer{schema["$ref"].get<std::string>().substr(1)});
}

bool is_of(const json& schema, const char* type) {
  const auto types = schema.value("type", json{});
  return types == type || (types.is_array() && std::find(types.begin(), types.end(), type) != types.end());
}

/// Some value that the schema allows; `number` makes it another one than before.
json sample(const json& from, std::size_t number = 0) {
  const auto& schema = resolved(from);
  if (schema.contains("examples"))
    return schema["examples"][0];
  if (schema.contains("enum"))
    return schema["enum"][number % schema["enum"].size()];
  if (is_of(schema, "integer") || is_of(schema, "number"))
    return schema.value("minimum", json(0));
  if (is_of(schema, "boolean"))
    return true;
  if (is_of(schema, "array"))
    return json::array();
  if (is_of(schema, "string"))
    return "a" + std::to_string(number);
  if (schema.contains("oneOf") && !is_of(schema, "object"))
    return sample(schema["oneOf"][schema["oneOf"].size() > 2 ? 1 : 0], number);
  auto made = json::object();
  for (const auto& name : schema.value("required", json::array()))
    made[name.get<std::string>()] = sample(schema["properties"][name.get<std::string>()]);
  return made;
}

void expect(bool allowed, const json& job, const std::string& where) {
  const auto read = parse_job_spec(job);
  if (read.has_value() != allowed)
    CAF_ERROR(where << ": the document " << (allowed ? "allows" : "forbids") << " what the node "
                    << (read ? "takes" : "refuses: " + read.error().message) << ": "
                    << job.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 200));
}

void compare(const json& from, const job_with& job, const std::string& where);

void compare_number(const json& schema, const job_with& job, const std::string& where) {
  const double step = is_of(schema, "integer") ? 1 : 0.001;
  for (const auto* border : {"minimum", "maximum"})
    if (schema.contains(border)) {
      const auto outside = schema[border].get<double>() + (border == std::string{"minimum"} ? -step : step);
      expect(true, job(schema[border]), where);
      expect(false, job(step < 1 ? json(outside) : json(static_cast<std::int64_t>(outside))), where);
    } else {
      expect(true, job(border == std::string{"minimum"} ? -(1LL << 53) : 1LL << 53), where + " without " + border);
    }
  if (step == 1)
    expect(true, job(schema["minimum"].get<double>()), where + " as a float");
}

/// Texts that one rule or another refuses.
const std::vector<std::string> texts{"",     "a",    "Z9",       "a b", " ",    "-a",      "_a",   ".a",    "a-b._c",
                                     "a/b",  "a//b", "/a",       "a/",  "a=b",  "a:b/c=d", "a\tb", "a\x7f", "1a",
                                     "KCX_", "A_1",  "\xC3\xA4", "@",   "a\nb", "__a",     "_-a"};

bool fits(const json& schema, const std::string& text) {
  return text.size() >= schema.value("minLength", 0U) &&
         (!schema.contains("pattern") || std::regex_search(text, std::regex{schema["pattern"].get<std::string>()}));
}

void compare_text(const json& schema, const job_with& job, const std::string& where) {
  if (schema.contains("enum")) {
    for (const auto& each : schema["enum"])
      expect(true, job(each), where);
    return expect(false, job("no such"), where);
  }
  if (schema.contains("format") || schema.contains("examples"))
    return; // has rules that a pattern would not make clearer
  for (const auto& text : texts)
    expect(fits(schema, text), job(text), where);
  const auto most = schema.value("maxLength", std::size_t{1} << 20);
  expect(true, job(std::string(most, 'a')), where);
  expect(false, job(std::string(most + 1, 'a')), where);
}

void compare_list(const json& schema, const job_with& job, const std::string& where) {
  const auto many = [&](std::size_t count) {
    auto list = json::array();
    for (std::size_t i = 0; i < count; ++i)
      list.push_back(sample(schema["items"], i));
    return list;
  };
  const auto most = schema.value("maxItems", std::size_t{0});
  expect(true, job(many(most)), where);
  expect(false, job(many(most + 1)), where);
  expect(schema.value("minItems", 0) == 0, job(json::array()), where);
  // A word of a command may be any text, but the first is the program.
  if (schema["items"] != json{{"type", "string"}})
    compare(
      schema["items"], [&](const json& value) { return job(json::array({value})); }, where + "/0");
}

void compare_variables(const json& schema, const job_with& job, const std::string& where) {
  const auto named = [&](const std::string& name) { return job(json{{name, "v"}}); };
  for (const auto& text : texts)
    expect(fits(schema["propertyNames"], text), named(text), where);
  const auto longest = schema["propertyNames"]["maxLength"].get<std::size_t>();
  expect(true, named(std::string(longest, 'a')), where);
  expect(false, named(std::string(longest + 1, 'a')), where);
  auto many = json::object();
  for (std::size_t i = 0; i < schema["maxProperties"].get<std::size_t>(); ++i)
    many["A" + std::to_string(i)] = "v";
  expect(true, job(many), where);
  many["B"] = "v";
  expect(false, job(many), where);
}

void compare_fields(const json& schema, const job_with& job, const std::string& where) {
  for (const auto& [name, about] : schema["properties"].items()) {
    auto base = sample(schema);
    if (schema.contains("oneOf") && name != "id" && name != "ref")
      base["ref"] = "r"; // a need is of one of them
    compare(
      about,
      [&, name = name](const json& value) {
        auto with = base;
        with[name] = value;
        return job(with);
      },
      where + "/" + name);
  }
  expect(false, job(json{{"no such", 1}}), where);
}

void compare(const json& from, const job_with& job, const std::string& where) {
  const auto& schema = resolved(from);
  const auto options = schema.value("oneOf", json::array());
  if (is_of(schema, "null") || std::ranges::count(options, json{{"type", "null"}}) > 0)
    expect(true, job(nullptr), where + " as null");
  if (schema.contains("properties"))
    return compare_fields(schema, job, where);
  for (const auto& each : options)
    compare(each, job, where);
  if (is_of(schema, "integer") || is_of(schema, "number"))
    compare_number(schema, job, where);
  else if (is_of(schema, "string"))
    compare_text(schema, job, where);
  else if (is_of(schema, "array"))
    compare_list(schema, job, where);
  else if (schema.contains("propertyNames"))
    compare_variables(schema, job, where);
}

} // namespace

CAF_TEST(the OpenAPI document allows of a job what the node takes) {
  const auto& spec = document()["components"]["schemas"]["JobSpec"];
  for (const auto& [name, about] : spec["properties"].items()) {
    CAF_CHECK(about.contains("oneOf") || is_of(about, "null"));
    compare(
      about,
      [name = name](const json& value) {
        // What other fields must be there for.
        json job{{"command", "true"}, {"unique_key", "k"}, {"group", "g"}};
        if (name == "steps" && !value.empty())
          job.erase("command");
        if (name == "command" && value.is_null())
          job["steps"] = json::array({json{{"command", "true"}}});
        if (name == "group" || name == "unique_key")
          job.erase(name);
        job[name] = value;
        return job;
      },
      name);
  }
}

CAF_TEST(the OpenAPI document wants either command or steps) {
  const auto& choice = document()["components"]["schemas"]["JobSpec"]["oneOf"];
  CAF_CHECK_EQUAL(choice[0]["required"], json::array({"command"}));
  CAF_CHECK_EQUAL(choice[1]["required"], json::array({"steps"}));
  const auto steps = json::array({json{{"command", "true"}}});
  expect(true, {{"command", "true"}, {"steps", json::array()}}, "command and no steps");
  expect(true, {{"command", nullptr}, {"steps", steps}}, "steps and no command");
  expect(false, {{"command", "true"}, {"steps", steps}}, "both");
  expect(false, {{"steps", json::array()}}, "neither");
  expect(false, json::object(), "nothing");
}
