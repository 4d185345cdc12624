#define CAF_SUITE claim_json
#include "actors/http/api/claim_json.hpp"

#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace kcx::http;

namespace {

using pointers = std::vector<std::string>;

template <class Value>
pointers refused_fields(const expected<Value>& read) {
  pointers fields;
  if (!read)
    for (const auto& each : read.error().fields)
      fields.push_back(each.pointer);
  return fields;
}

pointers refused(const char* body, claim_end how = claim_end::complete) {
  return refused_fields(parse_report(nlohmann::json::parse(body), how, {{{12}, 1}, 5}));
}

std::string reason_of(const char* body) {
  const auto read = parse_report(nlohmann::json::parse(body), claim_end::complete, {{{12}, 1}, 5});
  return read ? "" : read.error().fields.front().detail;
}

} // namespace

CAF_TEST(a step report names the field whose value is wrong) {
  for (const auto* state : {"5", R"("no state")", R"("running")", "[]"})
    CAF_CHECK_EQUAL(refused((R"({"steps":[{"index":0,"state":)" + std::string{state} + "}]}").c_str()),
                    pointers{"/steps/0/state"});
  CAF_CHECK_EQUAL(reason_of(R"({"steps":[{"index":0,"state":5}]})"),
                  "must be the step's final state, such as succeeded or failed");
  CAF_CHECK_EQUAL(refused(R"({"steps":[{"index":"a","state":"failed"}]})"), pointers{"/steps/0/index"});
  CAF_CHECK_EQUAL(refused(R"({"steps":[{"index":0,"state":"failed"},{"state":null}]})"),
                  (pointers{"/steps/1/index", "/steps/1/state"}));
  CAF_CHECK_EQUAL(refused(R"({"steps":[7]})"), pointers{"/steps/0"});
  CAF_CHECK_EQUAL(refused(R"({"steps":[{"index":0,"state":"failed","exit_code":3}]})"), pointers{});
}

CAF_TEST(a step that is reported twice is refused by its second place) {
  const auto* twice = R"({"steps":[{"index":1,"state":"failed"},{"index":0,"state":"failed"},
                          {"index":1,"state":"succeeded"}]})";
  for (const auto how : {claim_end::complete, claim_end::fail})
    CAF_CHECK_EQUAL(refused(twice, how), pointers{"/steps/2/index"});
  CAF_CHECK_EQUAL(reason_of(twice), "is that of steps/0 already: report each step once");
}

CAF_TEST(an output has one line as that of a job on the node) {
  CAF_CHECK_EQUAL(refused(R"({"outputs":{"A":"a\nb","B":"b"}})"), pointers{"/outputs/A"});
  CAF_CHECK_EQUAL(reason_of(R"({"outputs":{"A":"a\nb"}})"), "must be one line");
  CAF_CHECK_EQUAL(refused(R"({"outputs":{"A":"a\tb","KCX_B":""}})"), pointers{});
}

CAF_TEST(an end by exit code and signal at once names the signal) {
  CAF_CHECK_EQUAL(refused(R"({"exit_code":0,"signal":9})"), pointers{"/signal"});
  const auto* many = R"({"items":[{"token":"1.1.5"},{"token":"2.1.6","exit_code":0,"signal":9}]})";
  CAF_CHECK_EQUAL(refused_fields(parse_reports(nlohmann::json::parse(many), claim_end::complete)),
                  pointers{"/items/1/signal"});
}

CAF_TEST(a field that there is not is refused also without a value) {
  CAF_CHECK_EQUAL(refused(R"({"exit":null})"), pointers{"/exit"});
  CAF_CHECK_EQUAL(refused(R"({"claim":{"labels":null,"label":null}})"), pointers{"/claim/label"});
  CAF_CHECK_EQUAL(refused_fields(parse_claim({{"queue", nullptr}})), pointers{"/queue"});
  CAF_CHECK_EQUAL(refused_fields(parse_reports({{"tokens", {"1.1.5"}}, {"items", nullptr}}, claim_end::release)),
                  pointers{"/items"});
}

CAF_TEST(a report about many names the claim of each) {
  for (const auto* item : {R"({"token":null})", "{}", R"({"token":null,"exit_code":0})"}) {
    const auto many = nlohmann::json::parse(R"({"items":[)" + std::string{item} + "]}");
    for (const auto how : {claim_end::complete, claim_end::fail})
      if (how == claim_end::complete || !many["items"][0].contains("exit_code"))
        CAF_CHECK_EQUAL(refused_fields(parse_reports(many, how)), pointers{"/items/0/token"});
  }
}
