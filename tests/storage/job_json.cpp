#define CAF_SUITE job_json
#include "storage/job_json.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

/// The fields that `text` is refused for, as "pointer detail" lines; empty if it is accepted.
std::vector<std::string> refusals(const json& document, const std::string& at = "") {
  std::vector<std::string> lines;
  const auto spec = parse_job_spec(document, at);
  if (spec)
    return lines;
  CAF_CHECK(spec.error().code == ec::invalid_input);
  for (const auto& field : spec.error().fields)
    lines.push_back(field.pointer + " " + field.detail);
  return lines;
}

/// Whether exactly this field is refused.
bool refuses(const json& extra, const std::string& pointer) {
  json document{{"command", "true"}};
  document.update(extra);
  const auto lines = refusals(document);
  const auto good = lines.size() == 1 && lines[0].starts_with(pointer + " ");
  if (!good) {
    CAF_MESSAGE(document.dump(-1, ' ', false, json::error_handler_t::replace) << " gave " << lines);
  }
  return good;
}

bool accepts(const json& extra) {
  json document{{"command", "true"}};
  document.update(extra);
  const auto lines = refusals(document);
  if (!lines.empty()) {
    CAF_MESSAGE(document.dump() << " gave " << lines);
  }
  return lines.empty();
}

json full_document() {
  return json::parse(R"({
    "name": "build ü", "project": "group/repo", "queue": "fast", "labels": ["os=linux", "gpu"],
    "metadata": {"a": [1, {"b": null}]}, "env": {"A": "1"}, "secrets": {"TOKEN": "s3cr3t"}, "working_dir": "/src",
    "steps": [{"name": "one", "command": ["make", "all"], "continue_on_error": true}, {"command": "echo $A", "always": true, "time_limit_s": 2.5}],
    "user": "ci", "limits": {"memory_bytes": 1073741824, "cpu_s": 60, "open_files": 256, "processes": 100, "file_bytes": 0, "cpus": 1.5},
    "keep_workspace": "on_failure", "priority": -7, "weight": 2, "time_limit_s": 1.5, "no_output_limit_s": 60,
    "wait_limit_s": 3600, "cancel_grace_s": 0.25, "log_limit_bytes": 4096, "run_at": "2026-01-31T12:00:00Z",
    "max_attempts": 3, "retry_on": ["signal"], "backoff_s": 2, "on_interrupt": "requeue", "max_interrupts": 1,
    "unique_key": "deploy/prod", "on_conflict": "replace",
    "group": "main", "group_limit": 2, "supersede": "running", "ref": "b", "needs": [7, {"id": 8, "if": "always"}, "a"], "artifacts": ["dist/**"]})");
}

} // namespace

CAF_TEST(a job with every field is read) {
  const auto spec = parse_job_spec(full_document());
  CAF_REQUIRE(spec.has_value());
  CAF_CHECK_EQUAL(spec->name, "build ü");
  CAF_CHECK_EQUAL(spec->labels, (std::vector<std::string>{"os=linux", "gpu"}));
  CAF_CHECK_EQUAL(spec->steps.size(), 2u);
  CAF_CHECK(spec->steps[0].continue_on_error && !spec->steps[0].always);
  CAF_CHECK_EQUAL(spec->steps[1].name, "step 2");
  CAF_CHECK(spec->steps[1].command.shell);
  CAF_CHECK(!spec->steps[0].time_limit && spec->steps[1].time_limit == 2500ms);
  CAF_CHECK_EQUAL(spec->user, "ci");
  CAF_CHECK((spec->limits == resource_limits{std::uint64_t{1} << 30, 60, 256, 100, 0, 1'500}));
  CAF_CHECK(spec->time_limit == 1500ms);
  CAF_CHECK(spec->cancel_grace == 250ms);
  CAF_CHECK(spec->run_at == parse_rfc3339("2026-01-31T12:00:00Z"));
  CAF_CHECK(spec->retry_on == std::vector{job_reason::signal});
  CAF_CHECK_EQUAL(spec->secrets.at("TOKEN"), "s3cr3t");
}

CAF_TEST(a stored job is read as it was written but for its secrets) {
  auto spec = parse_job_spec(full_document());
  CAF_REQUIRE(spec.has_value());
  const auto text = to_stored_json(*spec).dump();
  CAF_CHECK_EQUAL(text.find("s3cr3t"), std::string::npos);
  const auto stored = from_stored_json(text);
  CAF_REQUIRE(stored.has_value());
  spec->secrets.clear();
  CAF_CHECK(*stored == *spec);
}

CAF_TEST(a job of defaults is stored as its command alone) {
  const auto spec = parse_job_spec({{"command", {"true"}}});
  CAF_REQUIRE(spec.has_value());
  CAF_CHECK_EQUAL(to_stored_json(*spec).dump(), R"({"command":["true"]})");
}

CAF_TEST(a webhook that can never work is refused but read where it is stored) {
  for (const auto* url : {"http://127.0.0.1:99999/", "http://[::1"}) {
    const nlohmann::json document{{"command", "true"}, {"webhook", {{"url", url}}}};
    const auto job = parse_job_spec(document);
    CAF_REQUIRE(!job.has_value());
    CAF_CHECK_EQUAL(job.error().fields.front().pointer, "/webhook/url");
    CAF_CHECK(from_stored_json(document.dump()).has_value());
  }
}

CAF_TEST(a stored job that cannot be read says nothing about the file) {
  for (const auto* text : {"", "{", "[]", "{}", R"({"command": 5})", R"({"command": "true", "of_tomorrow": 1})"}) {
    const auto spec = from_stored_json(text);
    CAF_REQUIRE(!spec.has_value());
    CAF_CHECK(spec.error().code == ec::internal);
  }
}

CAF_TEST(exactly one of command and steps is wanted) {
  CAF_CHECK_EQUAL(refusals(json::object()), std::vector<std::string>{"/command is missing: give command or steps"});
  CAF_CHECK_EQUAL(refusals({{"steps", json::array()}}),
                  std::vector<std::string>{"/steps must not be empty, or give command instead"});
  CAF_CHECK_EQUAL(refusals({{"steps", json::array()}}).size(), 1u);
  CAF_CHECK(refuses({{"steps", {{{"command", "true"}}}}}, "/steps"));
  CAF_CHECK(accepts({{"steps", nullptr}}));
  CAF_CHECK(accepts({{"steps", json::array()}}));
}

CAF_TEST(commands are strings or arrays of words) {
  CAF_CHECK(refuses({{"command", 5}}, "/command"));
  CAF_CHECK(refuses({{"command", ""}}, "/command"));
  CAF_CHECK(refuses({{"command", " \n\t"}}, "/command"));
  CAF_CHECK(refuses({{"command", json::array()}}, "/command"));
  CAF_CHECK(refuses({{"command", {"", "a"}}}, "/command/0"));
  CAF_CHECK(refuses({{"command", {"a", 5}}}, "/command/1"));
  CAF_CHECK(refuses({{"command", {"a", std::string{"b\0", 2}}}}, "/command/1"));
  CAF_CHECK(refuses({{"command", std::string{"a\xFF"}}}, "/command"));
  CAF_CHECK(accepts({{"command", {"a", ""}}}));
}

CAF_TEST(an unknown field is refused by its name) {
  CAF_CHECK(refuses({{"comand", "true"}}, "/comand"));
  CAF_CHECK(refuses({{"a/b~c", 1}}, "/a~1b~0c"));
  CAF_CHECK_EQUAL(refusals({{"steps", {{{"command", "true"}, {"nme", "x"}}}}})[0].substr(0, 13), "/steps/0/nme ");
}

CAF_TEST(a unique key is a text and on_conflict goes with it) {
  CAF_CHECK(refuses({{"unique_key", ""}}, "/unique_key"));
  CAF_CHECK(refuses({{"unique_key", 5}}, "/unique_key"));
  CAF_CHECK(refuses({{"unique_key", "a\nb"}}, "/unique_key"));
  CAF_CHECK(refuses({{"unique_key", std::string(256, 'x')}}, "/unique_key"));
  CAF_CHECK(refuses({{"unique_key", "k"}, {"on_conflict", "wait"}}, "/on_conflict"));
  CAF_CHECK(refuses({{"on_conflict", "return"}}, "/on_conflict"));
  CAF_CHECK(accepts({{"unique_key", nullptr}, {"on_conflict", "reject"}})); // as the API shows a job without
  const auto spec = parse_job_spec({{"command", "x"}, {"unique_key", "k"}, {"on_conflict", "return"}});
  CAF_REQUIRE(spec.has_value());
  CAF_CHECK(spec->unique_key == "k" && spec->on_conflict == conflict_policy::give_existing);
}

CAF_TEST(a need is an id or a ref or an object with a condition) {
  CAF_CHECK(accepts({{"needs", {1, "build", {{"id", 2}}, {{"ref", "x"}, {"if", "failure"}}}}}));
  CAF_CHECK(accepts({{"needs", json::array()}}));
  CAF_CHECK(refuses({{"needs", 5}}, "/needs"));
  CAF_CHECK(refuses({{"needs", std::vector<int>(257, 1)}}, "/needs"));
  for (const auto& need : {json(0), json(-1), json(1.5), json(true), json(nullptr), json("../x"), json(""),
                           json::object(), json{{"if", "always"}}, json{{"id", 1}, {"ref", "x"}}}) {
    CAF_MESSAGE(need.dump());
    CAF_CHECK(refuses({{"needs", json::array({need})}}, "/needs/0"));
  }
  CAF_CHECK(refuses({{"needs", {{{"id", 1}, {"if", "maybe"}}}}}, "/needs/0/if"));
  CAF_CHECK(accepts({{"needs", {{{"id", 1}, {"artifacts", true}}}}}));
  CAF_CHECK(refuses({{"needs", {{{"id", 1}, {"artifacts", "yes"}}}}}, "/needs/0/artifacts"));
  CAF_CHECK(refuses({{"needs", {{{"id", "x"}}}}}, "/needs/0/id"));
  CAF_CHECK(refuses({{"needs", {{{"ref", 1}}}}}, "/needs/0/ref"));
  CAF_CHECK(refuses({{"needs", {{{"id", 1}, {"on", "x"}}}}}, "/needs/0/on"));
  CAF_CHECK(refuses({{"ref", "a b"}}, "/ref"));
  CAF_CHECK(refuses({{"ref", ""}}, "/ref"));
}

CAF_TEST(a group is a text and its limits go with it) {
  CAF_CHECK(refuses({{"group", ""}}, "/group"));
  CAF_CHECK(refuses({{"group", "g"}, {"group_limit", 0}}, "/group_limit"));
  CAF_CHECK(refuses({{"group", "g"}, {"supersede", "all"}}, "/supersede"));
  CAF_CHECK(refuses({{"group_limit", 2}}, "/group_limit"));
  CAF_CHECK(refuses({{"supersede", "queued"}}, "/supersede"));
  CAF_CHECK(accepts({{"group", nullptr}, {"group_limit", 1}, {"supersede", "none"}}));
}

CAF_TEST(pointers begin where the job stands in its array) {
  CAF_CHECK_EQUAL(refusals(json::object(), "/3")[0].substr(0, 11), "/3/command ");
  CAF_CHECK_EQUAL(refusals(5, "/4")[0].substr(0, 3), "/4 ");
}

CAF_TEST(every wrong field is named at once) {
  const auto lines = refusals({{"priority", 101}, {"weight", 0}, {"queue", "../x"}, {"env", {{"KCX_X", "1"}}}});
  CAF_CHECK_EQUAL(lines.size(), 5u); // and the command is missing
}

CAF_TEST(the size of an error is bounded) {
  json document{{"command", "true"}, {std::string(1 << 20, 'x'), 1}};
  auto lines = refusals(document);
  CAF_REQUIRE(lines.size() == 1);
  CAF_CHECK(lines[0].size() < 200);
  for (auto i = 0; i < 1000; ++i)
    document["unknown" + std::to_string(i)] = i;
  CAF_CHECK(refusals(document).size() <= 64);
}

CAF_TEST(names that could lead out of a path are refused) {
  for (const auto* name : {"../x", "..", ".", "/x", "x/", "-x", "", "a//b", "a/../b", "a b", "ü", "a\nb"}) {
    CAF_CHECK(refuses({{"project", name}}, "/project"));
    CAF_CHECK(refuses({{"queue", name}}, "/queue"));
  }
  CAF_CHECK(refuses({{"queue", "a/b"}}, "/queue"));
  CAF_CHECK(refuses({{"queue", std::string{"queue\0", 6}}}, "/queue"));
  CAF_CHECK(refuses({{"queue", std::string(65, 'q')}}, "/queue"));
  CAF_CHECK(accepts({{"project", "group/my.repo_1-x"}, {"queue", "fast.1"}}));
  CAF_CHECK(refuses({{"labels", {"ok", "../x"}}}, "/labels/1"));
  CAF_CHECK(refuses({{"labels", "x"}}, "/labels"));
  CAF_CHECK(refuses({{"name", "a\nb"}}, "/name"));
  CAF_CHECK(refuses({{"name", std::string(256, 'n')}}, "/name"));
  CAF_CHECK(accepts({{"name", "../x is just a text"}}));
}

CAF_TEST(variables have names that a shell can hold) {
  for (const auto* name : {"", "1A", "A-B", "A=B", "KCX_JOB_ID", "../x", "Ü"})
    for (const auto* field : {"env", "secrets"})
      CAF_CHECK(refuses({{field, {{name, "v"}}}},
                        std::string{"/"} + field + "/" + (std::string{name} == "../x" ? "..~1x" : name)));
  CAF_CHECK(refuses({{"env", {{"A", 5}}}}, "/env/A"));
  CAF_CHECK(refuses({{"env", {{"A", std::string{"a\0b", 3}}}}}, "/env/A"));
  CAF_CHECK(refuses({{"env", json::array()}}, "/env"));
  CAF_CHECK(refuses({{"env", {{"A", "1"}}}, {"secrets", {{"A", "2"}}}}, "/secrets/A"));
  CAF_CHECK(accepts({{"env", {{"_a1", ""}, {"KCXX", "v"}}}}));
}

CAF_TEST(numbers keep to their ranges) {
  for (const auto& [field, bad] : std::vector<std::pair<std::string, json>>{{"priority", 101},
                                                                            {"priority", -101},
                                                                            {"priority", 1.5},
                                                                            {"priority", "1"},
                                                                            {"priority", true},
                                                                            {"priority", std::uint64_t{1} << 63},
                                                                            {"weight", 0},
                                                                            {"weight", 1001},
                                                                            {"max_attempts", 0},
                                                                            {"max_attempts", 101},
                                                                            {"max_interrupts", -1},
                                                                            {"log_limit_bytes", 1023},
                                                                            {"time_limit_s", 0},
                                                                            {"time_limit_s", -1},
                                                                            {"time_limit_s", 1e300},
                                                                            {"time_limit_s", "5"},
                                                                            {"cancel_grace_s", -0.001},
                                                                            {"cancel_grace_s", 3601},
                                                                            {"backoff_s", 3601},
                                                                            {"no_output_limit_s", 0.0001},
                                                                            {"wait_limit_s", 0}})
    CAF_CHECK(refuses({{field, bad}}, "/" + field));
  // JSON does not tell 1.0 from 1.
  CAF_CHECK(accepts({{"priority", -7.0}, {"log_limit_bytes", 4096.0}, {"needs", {3.0, {{"id", 4.0}}}}}));
  CAF_CHECK(refuses({{"log_limit_bytes", 1e300}}, "/log_limit_bytes"));
  CAF_CHECK(accepts({{"priority", -100}, {"weight", 1000}, {"cancel_grace_s", 0}, {"time_limit_s", 0.001}}));
}

CAF_TEST(limits and accounts are checked one by one) {
  for (const auto& [limit, bad] : std::vector<std::pair<std::string, json>>{
         {"memory", 1}, {"memory_bytes", 0}, {"cpu_s", 0}, {"cpu_s", 1.5}, {"open_files", "many"}, {"processes", -1}})
    CAF_CHECK(refuses({{"limits", {{limit, bad}}}}, "/limits/" + limit));
  CAF_CHECK(refuses({{"limits", 1}}, "/limits"));
  CAF_CHECK(accepts({{"limits", {{"cpus", 0.5}}}}));
  CAF_CHECK(accepts({{"limits", {{"cpus", nullptr}}}}));
  CAF_CHECK(refuses({{"limits", {{"cpus", 0}}}}, "/limits/cpus"));
  CAF_CHECK(refuses({{"limits", {{"cpus", "2"}}}}, "/limits/cpus"));
  CAF_CHECK(accepts({{"limits", {{"cpu_s", nullptr}, {"open_files", 64}}}}));
  for (const auto* user : {"", "../x", "-r", "a b", "0123456789012345678901234567890123"})
    CAF_CHECK(refuses({{"user", user}}, "/user"));
  CAF_CHECK(accepts({{"user", "_apt"}}));
  CAF_CHECK(accepts({{"user", "www-data"}}));
}

CAF_TEST(choices and times say what is allowed) {
  CAF_CHECK_EQUAL(refusals({{"command", "true"}, {"on_interrupt", "retry"}}),
                  std::vector<std::string>{"/on_interrupt must be one of fail, requeue"});
  CAF_CHECK(refuses({{"keep_workspace", true}}, "/keep_workspace"));
  CAF_CHECK(refuses({{"retry_on", {"exit_code", "boredom"}}}, "/retry_on/1"));
  CAF_CHECK(refuses({{"retry_on", {"cancelled_by"}}}, "/retry_on/0"));
  CAF_CHECK(refuses({{"run_at", "tomorrow"}}, "/run_at"));
  CAF_CHECK(refuses({{"run_at", 1700000000}}, "/run_at"));
}

CAF_TEST(metadata is bounded in size and depth) {
  CAF_CHECK(refuses({{"metadata", json::array()}}, "/metadata"));
  CAF_CHECK(refuses({{"metadata", {{"a", std::string(70'000, 'x')}}}}, "/metadata"));
  CAF_CHECK(refuses({{"metadata", {{"a", "\xC3"}}}}, "/metadata"));
  json deep = json::object();
  for (auto i = 0; i < 40; ++i)
    deep = json{{"a", deep}};
  CAF_CHECK(refuses({{"metadata", deep}}, "/metadata"));
  CAF_CHECK(accepts({{"metadata", {{"a", {1, 2, {{"b", "ü"}}}}}}}));
}

CAF_TEST(a hundred thousand nested arrays are refused without harm) {
  const auto text = R"({"command": "true", "metadata": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CAF_CHECK(!refusals(json::parse(text)).empty());
}

CAF_TEST(null means not given) {
  json document{{"command", "true"}};
  for (const auto* field : {"time_limit_s", "working_dir", "run_at", "steps", "env", "priority", "name"})
    document[field] = nullptr;
  const auto spec = parse_job_spec(document);
  CAF_REQUIRE(spec.has_value());
  CAF_CHECK(*spec == *parse_job_spec({{"command", "true"}}));
}

CAF_TEST(the API shows every key and never a secret) {
  job_record job;
  job.id = job_id{12};
  job.spec = *parse_job_spec(full_document());
  job.created_at = timestamp{1s};
  const auto shown = to_api_json(job, timestamp{2s});
  for (const auto* key : {"id",
                          "name",
                          "project",
                          "queue",
                          "state",
                          "reason",
                          "message",
                          "command",
                          "steps",
                          "env",
                          "labels",
                          "metadata",
                          "priority",
                          "weight",
                          "working_dir",
                          "keep_workspace",
                          "on_interrupt",
                          "time_limit_s",
                          "no_output_limit_s",
                          "cancel_grace_s",
                          "max_attempts",
                          "attempt",
                          "interrupts",
                          "worker",
                          "exit_code",
                          "signal",
                          "created_at",
                          "queued_at",
                          "run_at",
                          "started_at",
                          "finished_at",
                          "duration_s",
                          "log",
                          "retry_of"}) {
    CAF_MESSAGE(key);
    CAF_CHECK(shown.contains(key));
  }
  CAF_CHECK(!shown.contains("secrets"));
  CAF_CHECK_EQUAL(shown.dump().find("s3cr3t"), std::string::npos);
  CAF_CHECK_EQUAL(shown["steps"][0]["state"].get<std::string>(), "pending");
  CAF_CHECK(shown["steps"][1]["always"].get<bool>());
}

CAF_TEST(a running job shows how long it has run and a clock step back shows zero) {
  job_record job;
  job.spec = *parse_job_spec({{"command", "true"}});
  job.state = job_state::running;
  job.started_at = timestamp{10s};
  CAF_CHECK_EQUAL(to_api_json(job, timestamp{12500ms})["duration_s"].get<double>(), 2.5);
  CAF_CHECK_EQUAL(to_api_json(job, timestamp{5s})["duration_s"].get<double>(), 0.0);
  job.state = job_state::failed;
  job.signal = 11;
  job.duration = 1234ms;
  CAF_CHECK_EQUAL(to_api_json(job, timestamp{99s})["duration_s"].get<double>(), 1.234);
  CAF_CHECK_EQUAL(to_api_json(job, timestamp{99s})["signal"].get<std::string>(), "SIGSEGV");
}
