#define CAF_SUITE matrix
#include "actors/cli/pipeline/matrix.hpp"

#include "caf/test/unit_test.hpp"

#include <sstream>
#include <string>

using namespace kcx;
using namespace kcx::cli;

namespace {

const source_file& any_file() {
  static const auto file = source_file::parse("m.json", "{}");
  return *file;
}

std::string told(const complaints& wrong) {
  std::string text;
  for (const auto& field : wrong.as_error(any_file()).fields)
    text += field.pointer + ": " + field.detail + '\n';
  return text;
}

/// "(a, b) x=1 y=2 …", a line for each combination.
std::string expanded(const std::string& json) {
  complaints wrong;
  const auto all = expand_matrix(source_value::parse(json), "/m", wrong);
  if (!wrong.none())
    return "refused: " + told(wrong);
  std::string text;
  for (const auto& each : all) {
    text += each.suffix().substr(1);
    for (const auto& [name, value] : each.values)
      text += ' ' + name + '=' + value;
    text += '\n';
  }
  return text;
}

bool refused(const std::string& json, const std::string& part) {
  const auto text = expanded(json);
  if (text.starts_with("refused: ") && text.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in " << text);
  return false;
}

std::string substituted(const std::string& json) {
  complaints wrong;
  auto value = source_value::parse(json);
  substitute(value, {{{"cc", "gcc"}, {"n", "12"}, {"b", "true"}}, 3}, "/j", wrong);
  return wrong.none() ? value.dump() : "refused: " + told(wrong);
}

} // namespace

CAF_TEST(every value of an axis meets every value of the others in the order of the file) {
  CAF_CHECK_EQUAL(
    expanded(R"({"os":["deb","arch"],"n":[1,true]})"),
    "(deb, 1) os=deb n=1\n(deb, true) os=deb n=true\n(arch, 1) os=arch n=1\n(arch, true) os=arch n=true\n");
}

CAF_TEST(exclude takes combinations away and must find one) {
  CAF_CHECK_EQUAL(expanded(R"({"a":[1,2],"b":[1,2],"exclude":[{"a":2},{"a":1,"b":2}]})"), "(1, 1) a=1 b=1\n");
  CAF_CHECK(refused(R"({"a":[1,2],"exclude":[{"a":3}]})", "/m/exclude/0: is no combination"));
  CAF_CHECK(refused(R"({"a":[1],"exclude":[{"a":1}]})", "leaves no combination"));
}

CAF_TEST(include adds to the combinations it names or makes one of its own) {
  CAF_CHECK_EQUAL(
    expanded(R"({"cc":["gcc","clang"],"include":[{"cc":"gcc","flags":"-O3"},{"cc":"icc","flags":"-fast"}]})"),
    "(gcc) cc=gcc flags=-O3\n(clang) cc=clang\n(icc, -fast) cc=icc flags=-fast\n");
  CAF_CHECK_EQUAL(expanded(R"({"cc":["gcc","clang"],"include":[{"x":1},{"cc":"gcc","x":2}]})"),
                  "(gcc) cc=gcc x=2\n(clang) cc=clang x=1\n");
  CAF_CHECK_EQUAL(expanded(R"({"include":[{"cc":"gcc"},{"cc":"icc"}]})"), "(gcc) cc=gcc\n(icc) cc=icc\n");
}

CAF_TEST(a matrix that makes no sense is refused at its place) {
  CAF_CHECK(refused("[]", "/m: must be an object"));
  CAF_CHECK(refused("{}", "/m: must be an object"));
  CAF_CHECK(refused(R"({"a":[]})", "/m/a: must be an array"));
  CAF_CHECK(refused(R"({"a":"x"})", "/m/a: must be an array"));
  CAF_CHECK(refused(R"({"a":[1,{}]})", "/m/a/1: must be a text"));
  CAF_CHECK(refused(R"({"a":["x","x"]})", "/m/a/1: is there already"));
  CAF_CHECK(refused(R"({"a b":[1]})", "/m/a b: is no name of an axis"));
  CAF_CHECK(refused(R"({"a-b":[1],"A_b":[1]})", "/m/A_b: has the variable of another axis, MATRIX_A_B"));
  CAF_CHECK(refused(R"({"a":[1],"include":{"a":1}})", "/m/include: must be an array"));
  CAF_CHECK(refused(R"({"a":[1],"include":[{}]})", "/m/include/0: must be an object"));
  CAF_CHECK(refused(R"({"a":[1],"include":[{"b":[1]}]})", "/m/include/0/b: must be a text"));
}

CAF_TEST(a matrix beyond measure is refused before it is made) {
  std::string axes;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    axes += std::string{axes.empty() ? "" : ","} + '"' + name + "\":[";
    for (int i = 0; i < 100; ++i)
      axes += (i == 0 ? "" : ",") + std::to_string(i);
    axes += ']';
  }
  CAF_CHECK(refused('{' + axes + '}', "more than 1000 combinations"));
}

CAF_TEST(places in texts get the values and nothing else changes) {
  CAF_CHECK_EQUAL(
    substituted(R"({"a":"x-${{ matrix.cc }}-${{matrix.n}}","b":["${{ matrix.cc }}",1],"c":"$n ${n} {{}}"})"),
    R"({"a":"x-gcc-12","b":["gcc",1],"c":"$n ${n} {{}}"})");
  CAF_CHECK_EQUAL(substituted(R"(["$${{ matrix.cc }}","$$${{ matrix.cc }}","a$${{"])"),
                  R"(["${{ matrix.cc }}","$${{ matrix.cc }}","a${{"])");
}

CAF_TEST(a field that takes a number gets one) {
  CAF_CHECK_EQUAL(
    substituted(R"({"weight":"${{ matrix.n }}","time_limit_s":"${{ matrix.n }}","name":"${{ matrix.n }}"})"),
    R"({"weight":12,"time_limit_s":12,"name":"12"})");
  CAF_CHECK_EQUAL(
    substituted(R"({"always":"${{ matrix.b }}","weight":"1${{ matrix.n }}","priority":"${{ matrix.cc }}"})"),
    R"({"always":true,"weight":"112","priority":"gcc"})");
}

CAF_TEST(a place that cannot be filled is refused) {
  CAF_CHECK(substituted(R"({"command":"${{ matrix.nope }}"})").find("/j/command: has ${{ matrix.nope }}") !=
            std::string::npos);
  CAF_CHECK(substituted(R"({"command":["x","${{ env.HOME }}"]})").find("/j/command/1: has ${{ env.HOME }}") !=
            std::string::npos);
  CAF_CHECK(substituted(R"(["${{ matrix.cc"])").find("without \"}}\"") != std::string::npos);
}

CAF_TEST(the variable of an axis is in capitals) {
  CAF_CHECK_EQUAL(matrix_variable("c-compiler_2"), "MATRIX_C_COMPILER_2");
}
