#define CAF_SUITE pipeline
#include "actors/cli/pipeline/pipeline.hpp"

#include "actors/cli/pipeline/checks.hpp"
#include "caf/test/unit_test.hpp"

#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace kcx;
using namespace kcx::cli;
using nlohmann::json;

namespace {

source_file file_of(const std::string& text, const std::string& name = "ci.yaml") {
  auto file = source_file::parse(name, text);
  if (!file)
    CAF_FAIL("no file: " << file.error().message);
  return *std::move(file);
}

std::optional<std::string> secret(const std::string& name) {
  return name == "TOKEN" ? std::optional<std::string>{"s3cret"} : std::nullopt;
}

pipeline read(const std::string& text) {
  auto made = read_pipeline(file_of(text), secret);
  if (!made) {
    std::string all = made.error().message;
    for (const auto& field : made.error().fields)
      all += "\n  " + field.pointer + ": " + field.detail;
    CAF_FAIL("refused: " << all);
  }
  return *std::move(made);
}

/// The complaints, as "  place: detail" each; "accepted" where there is none.
std::string complaints_about(const std::string& text, const std::string& name = "ci.yaml") {
  const auto made = read_pipeline(file_of(text, name), secret);
  std::string all = made ? "accepted" : made.error().message;
  if (!made)
    for (const auto& field : made.error().fields)
      all += "\n  " + field.pointer + ": " + field.detail;
  return all;
}

/// Whether `part` is somewhere among the complaints.
bool told(const std::string& text, const std::string& part) {
  return complaints_about(text).find(part) != std::string::npos;
}

/// Whether a complaint begins with `part`.
bool refused(const std::string& text, const std::string& part, const std::string& name = "ci.yaml") {
  const auto all = complaints_about(text, name);
  if (all.find("  " + part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in " << all);
  return false;
}

} // namespace

CAF_TEST(jobs get their names refs and needs) {
  const auto made = read(R"(
name: demo
jobs:
  build: {command: make}
  lint: {command: [lint, all]}
  test:
    needs: [build, {job: lint, if: always}, 12, {id: 13, if: failure}]
    command: make test
)");
  CAF_CHECK_EQUAL(made.name, "demo");
  CAF_CHECK_EQUAL(
    made.array().dump(),
    json::parse(
      R"([{"name":"build","ref":"build","command":"make"},{"name":"lint","ref":"lint","command":["lint","all"]},
      {"name":"test","ref":"test","command":"make test","needs":[{"ref":"build","if":"success"},
       {"ref":"lint","if":"always"},{"id":12,"if":"success"},{"id":13,"if":"failure"}]}])")
      .dump());
  CAF_CHECK((made.jobs[2].needs == std::vector<pipeline_need>{{0, "success"}, {1, "always"}}));
}

CAF_TEST(a need of a matrix means all its jobs or the one that is named) {
  const auto made = read(R"x(
jobs:
  test: {matrix: {cc: [gcc, clang], mode: [debug, release]}, command: make}
  pack: {needs: test, command: pack}
  quick: {needs: ["test (gcc, debug)"], command: quick}
)x");
  CAF_REQUIRE(made.jobs.size() == 6);
  CAF_CHECK_EQUAL(made.jobs[1].name, "test (gcc, release)");
  CAF_CHECK_EQUAL(made.jobs[1].document["ref"].dump(), "\"test-gcc-release\"");
  CAF_CHECK_EQUAL(made.jobs[4].document["needs"].size(), 4u);
  CAF_CHECK((made.jobs[5].needs == std::vector<pipeline_need>{{0, "success"}}));
}

CAF_TEST(a need may ask for artifacts) {
  const auto made = read(R"(
jobs:
  build: {command: make}
  test: {needs: [{job: build, artifacts: true}, {id: 12, artifacts: true}, {id: 13, artifacts: false}], command: x}
)");
  CAF_CHECK_EQUAL(made.jobs[1].document["needs"].dump(),
                  json::parse(R"([{"ref":"build","if":"success","artifacts":true},
                    {"id":12,"if":"success","artifacts":true},{"id":13,"if":"success"}])")
                    .dump());
  CAF_CHECK((made.jobs[1].needs == std::vector<pipeline_need>{{0, "success", true}}));
  CAF_CHECK(refused("jobs:\n  a: {command: x}\n  b: {command: x, needs: {job: a, artifacts: 1}}",
                    "ci.yaml:3: /jobs/b/needs/artifacts: must be true or false"));
}

CAF_TEST(everything that is wrong with a file is told at once) {
  const auto text = R"x(nmae: x
jobs:
  test:
    needs: biuld
    secrets: [NONE]
    matrix:
      cc: []
      mode: x
      include: [{}]
    command: "${{ matrix.cc }}"
  odd:
    matrix: {a: [1, 2], exclude: [{a: 3}, {a: 4}]}
    command: "${{ matrix.a }}"
  last:
    needs: [test, odd, nowhere]
    command: "${{ matrix.x }} ${{ matrix.y }}"
)x";
  for (const char* part :
       {"ci.yaml:1: /nmae: is no field", "ci.yaml:4: /jobs/test/needs: the file has no job \"biuld\"",
        "ci.yaml:5: /jobs/test/secrets/0: the environment", "ci.yaml:7: /jobs/test/matrix/cc: must be an array",
        "ci.yaml:8: /jobs/test/matrix/mode: must be an array",
        "ci.yaml:9: /jobs/test/matrix/include/0: must be an object",
        "ci.yaml:12: /jobs/odd/matrix/exclude/0: is no combination",
        "ci.yaml:12: /jobs/odd/matrix/exclude/1: is no combination",
        "ci.yaml:15: /jobs/last/needs/2: the file has no job \"nowhere\"",
        "ci.yaml:16: /jobs/last/command: has ${{ matrix.x }}", "ci.yaml:16: /jobs/last/command: has ${{ matrix.y }}"})
    CAF_CHECK(refused(text, part));
  // Nothing is told that follows from another mistake.
  for (const char* part : {"no job \"test\"", "no job \"odd\"", "/jobs/test/command", "/jobs/odd/command"})
    CAF_CHECK(!told(text, part));
}

CAF_TEST(unknown fields and wrong values are told together with unknown needs) {
  const auto text = R"x(env: {KCX_X: 1}
defaults: {weight: 0}
jobs:
  a: {command: x, needs: [b], colour: red, time_limit_s: soon}
  c:
    matrix: {v: []}
    priority: "${{ matrix.v }}"
  d: {matrix: {v: [1, 1000]}, command: x, priority: "${{ matrix.v }}"}
)x";
  for (const char* part :
       {"ci.yaml:4: /jobs/a/needs/0: the file has no job \"b\"", "ci.yaml:4: /jobs/a/colour: is not a field of a job",
        "ci.yaml:4: /jobs/a/time_limit_s: must be a number of seconds", "ci.yaml:2: /defaults/weight: must be a whole",
        "ci.yaml:1: /env/KCX_X: is no name", "ci.yaml:5: /jobs/c: needs either command or steps",
        "ci.yaml:8: /jobs/d/priority: must be a whole number"})
    CAF_CHECK(refused(text, part));
  for (const char* part : {"/jobs/c/priority", "/jobs/c/command"})
    CAF_CHECK(!told(text, part));
}

CAF_TEST(jobs that wait for each other are told by their names) {
  CAF_CHECK(refused("jobs:\n  x: {command: x}\n  a: {command: x, needs: [x, c]}\n  b: {command: x, needs: a}\n"
                    "  c: {command: x, needs: [b]}\n",
                    "ci.yaml:3: /jobs/a/needs: these jobs would wait for each other: a needs c needs b needs a"));
  CAF_CHECK(refused("jobs:\n  a: {command: x, needs: [a]}", "ci.yaml:2: /jobs/a/needs: these jobs would wait for each "
                                                            "other: a needs a"));
  const char* both = "jobs:\n  a: {command: x, needs: b}\n  b: {command: x, needs: a}\n  c: {command: x, needs: c}\n";
  CAF_CHECK(refused(both, "ci.yaml:2: /jobs/a/needs: these jobs would wait for each other: a needs b needs a"));
  CAF_CHECK(refused(both, "ci.yaml:4: /jobs/c/needs: these jobs would wait for each other: c needs c"));
  // What comes together again is no ring.
  CAF_CHECK_EQUAL(complaints_about("jobs: {a: {command: x}, b: {command: x, needs: a}, c: {command: x, needs: a}, "
                                   "d: {command: x, needs: [b, c]}}"),
                  "accepted");
}

CAF_TEST(a long ring is told by its first names) {
  std::string text = "jobs:\n";
  for (int i = 0; i < 5'000; ++i)
    text += "  j" + std::to_string(i) + ": {command: x, needs: j" + std::to_string((i + 1) % 5'000) + "}\n";
  CAF_CHECK(refused(text, "ci.yaml:2: /jobs/j0/needs: these jobs would wait for each other: j0 needs j1 needs "));
  CAF_CHECK(told(text, "j19 needs … needs j0"));
}

CAF_TEST(defaults and the environment of all are below those of a job) {
  const auto made = read(R"(
env: {A: all, B: all, MATRIX_CC: all}
defaults: {time_limit_s: 60, labels: [linux], project: p}
jobs:
  x:
    matrix: {cc: [gcc]}
    env: {B: "own ${{ matrix.cc }}"}
    time_limit_s: 5
    command: x
)");
  const auto& job = made.jobs[0].document;
  CAF_CHECK_EQUAL(job["env"].dump(), R"({"A":"all","B":"own gcc","MATRIX_CC":"gcc"})");
  CAF_CHECK_EQUAL(job["time_limit_s"].dump(), "5");
  CAF_CHECK_EQUAL(job["labels"].dump(), R"(["linux"])");
  CAF_CHECK(!job.contains("matrix"));
}

CAF_TEST(secrets are named in the file and valued elsewhere) {
  const auto made = read("secrets: [TOKEN]\njobs: {a: {command: x}, b: {secrets: [TOKEN], command: y}}");
  CAF_CHECK_EQUAL(made.jobs[0].document["secrets"].dump(), R"({"TOKEN":"s3cret"})");
  CAF_CHECK(
    refused("jobs:\n  a:\n    secrets: [NONE]\n    command: x", "ci.yaml:3: /jobs/a/secrets/0: the environment"));
  CAF_CHECK(refused("secrets: {A: b}\njobs: {a: {command: x}}", "ci.yaml:1: /secrets: must be an array"));
}

CAF_TEST(refs are made of names and differ) {
  const auto made = read("jobs: {\"a b\": {command: x}, \"a (b)\": {command: x}, \"ä\": {command: x}}");
  CAF_CHECK_EQUAL(made.jobs[0].document["ref"].dump(), "\"a-b\"");
  CAF_CHECK_EQUAL(made.jobs[1].document["ref"].dump(), "\"a-b-2\"");
  CAF_CHECK_EQUAL(made.jobs[2].document["ref"].dump(), "\"job\"");
}

CAF_TEST(what a pipeline cannot hold is refused with file line and field) {
  CAF_CHECK(refused("nmae: x\njobs: {a: {command: x}}", "ci.yaml:1: /nmae: is no field of a pipeline"));
  CAF_CHECK(refused("jobs: []", "ci.yaml:1: /jobs: must be an object"));
  CAF_CHECK(refused("jobs: {}", "ci.yaml:1: /jobs: must be an object"));
  CAF_CHECK(refused("jobs:\n  a: make", "ci.yaml:2: /jobs/a: must be an object"));
  CAF_CHECK(refused("jobs:\n  a: {}", "ci.yaml:2: /jobs/a: needs either command or steps"));
  CAF_CHECK(refused("jobs:\n  a:\n    command: x\n    name: y", "ci.yaml:4: /jobs/a/name: is not for jobs"));
  CAF_CHECK(
    refused("jobs:\n  a:\n    command: x\n    needs: [b]", "ci.yaml:4: /jobs/a/needs/0: the file has no job \"b\""));
  CAF_CHECK(
    refused("jobs:\n  a: {command: x, needs: {job: a, if: maybe}}", "ci.yaml:2: /jobs/a/needs/if: must be success"));
  CAF_CHECK(refused("jobs:\n  a: {command: x, needs: [{if: always}]}", "ci.yaml:2: /jobs/a/needs/0: must be the name"));
  CAF_CHECK(refused("jobs:\n  a: {command: x}\n  b:\n    command: x\n    needs: [a,\n      {job: a, if: always}]",
                    "ci.yaml:6: /jobs/b/needs/1: names the same job as needs/0"));
  CAF_CHECK(refused("jobs:\n  a: {command: x, matrix: {v: [1, 2]}}\n  b: {command: x, needs: [a (1), a]}",
                    "ci.yaml:3: /jobs/b/needs/1: names the same job as needs/0"));
  CAF_CHECK(refused("jobs:\n  a: {command: x, needs: [{ref: a}]}", "ci.yaml:2: /jobs/a/needs/0/ref: is no field"));
  CAF_CHECK(refused("defaults:\n  env: {}\njobs: {a: {command: x}}", "ci.yaml:2: /defaults/env: belongs to the top"));
  CAF_CHECK(refused("defaults: {command: x}\njobs: {a: {command: x}}", "ci.yaml:1: /defaults/command: is what each"));
  CAF_CHECK(refused("env:\n  A: [1]\njobs: {a: {command: x}}", "ci.yaml:2: /env/A: must be a text"));
  CAF_CHECK(refused("jobs:\n  a: {command: \"${{ matrix.x }}\"}", "ci.yaml:2: /jobs/a/command: has ${{ matrix.x }}"));
  CAF_CHECK(refused("jobs:\n  a: {command: x, matrix: {b: 1}}", "ci.yaml:2: /jobs/a/matrix/b: must be an array"));
  CAF_CHECK(refused("jobs:\n  t: {command: x, matrix: {b: [1]}}\n  t (1): {command: x}",
                    "ci.yaml:3: /jobs/t (1): gives a second job the name \"t (1)\""));
}

CAF_TEST(json is told by line too) {
  CAF_CHECK(refused("{\n\"jobs\": {\n\"a\": {\n\"command\": \"x\",\n\"needs\": \"b\"}}}",
                    "ci.json:5: /jobs/a/needs: the file has no job", "ci.json"));
}

CAF_TEST(a fragment kept for anchors is no field) {
  const auto made = read("x-base: &base {weight: 2}\njobs: {a: {<<: *base, command: x}}");
  CAF_CHECK_EQUAL(made.jobs[0].document["weight"].dump(), "2");
}

CAF_TEST(a file that is no document is refused with its cause) {
  const auto message = [](const std::string& name, const std::string& text) {
    const auto file = source_file::parse(name, text);
    return file ? "accepted" : file.error().message;
  };
  CAF_CHECK(message("ci.json", "{").find("ci.json is no JSON: ") == 0);
  CAF_CHECK_EQUAL(message("ci.json", R"({"jobs":{"a":{},"a":{}}})"), "ci.json: an object has the key \"a\" twice");
  CAF_CHECK(message("ci.yml", "a: 1\na: 2").find("ci.yml: line 2") == 0);
  CAF_CHECK_EQUAL(message("standard input", "[1]"), "accepted");
  CAF_CHECK_EQUAL(message("standard input", "a: 1"), "accepted");
}

CAF_TEST(an array is a pipeline whose needs are refs) {
  const auto file =
    file_of(R"([{"command":"a","ref":"r"},{"command":"b","name":"n","needs":["r",{"ref":"r","if":"always"},3]}])");
  const auto made = read_job_array(file);
  CAF_REQUIRE(made.has_value());
  CAF_CHECK_EQUAL(made->jobs[0].name, "r");
  CAF_CHECK_EQUAL(made->jobs[1].name, "n");
  CAF_CHECK((made->jobs[1].needs == std::vector<pipeline_need>{{0, "success"}, {0, "always"}}));
  CAF_CHECK_EQUAL(made->array().dump(), json(file.value()).dump());
  CAF_CHECK(!read_job_array(file_of("[]")).has_value());
}

CAF_TEST(what the node refuses is told by its place in the file) {
  const auto file = file_of(
    "env:\n  KCX_X: 1\ndefaults:\n  weight: 0\njobs:\n  a: {command: x}\n  b:\n    command: y\n    queue: no queue\n");
  const auto made = read_pipeline(file, secret);
  CAF_REQUIRE(made.has_value());
  const auto problem = located(json::parse(R"({"errors":[{"pointer":"/1/queue","detail":"d"},{"pointer":"/0/weight"},
    {"pointer":"/1/env/KCX_X"},{"pointer":"/0"},{"pointer":"/7/x"},{"pointer":""}]})"),
                               *made, file);
  const auto pointer = [&](std::size_t i) { return problem["errors"][i]["pointer"].get<std::string>(); };
  CAF_CHECK_EQUAL(pointer(0), "ci.yaml:9: /jobs/b/queue (b)");
  CAF_CHECK_EQUAL(pointer(1), "ci.yaml:4: /defaults/weight (a)");
  CAF_CHECK_EQUAL(pointer(2), "ci.yaml:2: /env/KCX_X (b)");
  CAF_CHECK_EQUAL(pointer(3), "ci.yaml:6: /jobs/a (a)");
  CAF_CHECK_EQUAL(pointer(4), "/7/x");
  CAF_CHECK_EQUAL(pointer(5), "");
}

CAF_TEST(a YAML file that is no UTF - 8 is told with its line) {
  const auto file = source_file::parse("ci.yaml", "jobs:\n  a:\n    command: \xff\n");
  CAF_REQUIRE(!file.has_value());
  CAF_CHECK_EQUAL(file.error().message, "ci.yaml:3: this line holds bytes that are no UTF-8 text");
}
