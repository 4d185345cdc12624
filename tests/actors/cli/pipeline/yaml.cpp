#define CAF_SUITE yaml
#include "actors/cli/pipeline/yaml.hpp"

#include "caf/test/unit_test.hpp"

#include <string>

using namespace kcx;
using namespace kcx::cli;

namespace {

std::string json_of(const std::string& text) {
  const auto document = read_yaml(text);
  return document ? document->value.dump() : "refused: " + document.error().message;
}

} // namespace

CAF_TEST(plain scalars are what the core schema says and quoted ones are text) {
  CAF_CHECK_EQUAL(json_of("[1, -2, +3, 0x1f, 0o17, 1.5, 1e3, true, False, null, ~]"),
                  "[1,-2,3,31,15,1.5,1000.0,true,false,null,null]");
  CAF_CHECK_EQUAL(json_of("['1', \"true\", !!str 7, yes, on, 1.2.3, .inf, nan, -, 1-2]"),
                  R"(["1","true","7","yes","on","1.2.3",".inf","nan","-","1-2"])");
}

CAF_TEST(what is text in a job stays as it is written) {
  CAF_CHECK_EQUAL(json_of("env: {V: 1.10, E: , T: true}\nmatrix: {go: [1.20, 1.3]}\ncommand: [sleep, 010]\nn: 1.10"),
                  R"({"env":{"V":"1.10","E":"","T":"true"},"matrix":{"go":["1.20","1.3"]},)"
                  R"("command":["sleep","010"],"n":1.1})");
  CAF_CHECK_EQUAL(json_of("metadata: {env: {V: 1.5}}"), R"({"metadata":{"env":{"V":1.5}}})");
  CAF_CHECK_EQUAL(json_of("env:\nmatrix: ~"), R"({"env":null,"matrix":null})");
}

CAF_TEST(members keep the order of the file and tell their lines) {
  const auto document = read_yaml("z: 1\na:\n  - x\n  - k: v\n");
  CAF_REQUIRE(document.has_value());
  CAF_CHECK_EQUAL(document->value.dump(), R"({"z":1,"a":["x",{"k":"v"}]})");
  CAF_CHECK_EQUAL(document->lines.at("/a"), 2);
  CAF_CHECK_EQUAL(document->lines.at("/a/1"), 4);
  CAF_CHECK_EQUAL(document->lines.at("/a/1/k"), 4);
}

CAF_TEST(aliases and merge keys are resolved and what is nearer wins) {
  CAF_CHECK_EQUAL(json_of("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: {<<: [{p: 8}, *x]}\nd: *x"),
                  R"({"a":{"p":1,"q":2},"b":{"q":3,"p":1},"c":{"p":8,"q":2},"d":{"p":1,"q":2}})");
}

CAF_TEST(aliases that multiply are refused before they fill the memory) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    const auto before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int n = 0; n < 10; ++n)
      bomb += (n == 0 ? "" : ",") + before;
    bomb += "]\n";
  }
  CAF_CHECK(json_of(bomb).find("too many values") != std::string::npos);
}

CAF_TEST(null below env and command is text as it is written) {
  CAF_CHECK_EQUAL(json_of("env: {A: ~, B: null, C: , D: NULL}\ncommand: [echo, ~, null]\nx: null"),
                  R"({"env":{"A":"~","B":"null","C":"","D":"NULL"},"command":["echo","~","null"],"x":null})");
  CAF_CHECK_EQUAL(json_of("\xEF\xBB\xBF"
                          "env:\n  A: ä ~\n  B: ~\n  C:\n  ~x: Null\n"),
                  R"({"env":{"A":"ä ~","B":"~","C":"","~x":"Null"}})");
}

CAF_TEST(what is no single plain document is refused with its line) {
  const auto refused = [](const std::string& text, const std::string& part) {
    const auto message = json_of(text);
    if (message.starts_with("refused: ") && message.find(part) != std::string::npos)
      return true;
    CAF_MESSAGE("no \"" << part << "\" in " << message);
    return false;
  };
  CAF_CHECK(refused("a: 1\na: 2", "line 2, column 1: the key \"a\""));
  CAF_CHECK(refused("a: [1", "line "));
  CAF_CHECK(refused("a: 1\n---\nb: 2", "2 YAML documents"));
  CAF_CHECK(refused("", "0 YAML documents"));
  CAF_CHECK(refused("{[a]: 1}", "plain word"));
  CAF_CHECK(refused("a: !point 3", "!point"));
  CAF_CHECK(refused("a: {<<: 3}", "takes a mapping"));
  CAF_CHECK(refused("a: *nowhere", "line 1"));
  CAF_CHECK(refused(std::string(100, '[') + std::string(100, ']'), "too deeply"));
  CAF_CHECK(refused(std::string(5'000, '['), "too deeply"));
}
