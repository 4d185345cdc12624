#define CAF_SUITE exit_code
#include "actors/cli/exit_code.hpp"

#include "caf/test/unit_test.hpp"

#include <csignal>
#include <utility>

using namespace kcx::cli;
using nlohmann::json;

CAF_TEST(a final job gives the code of its end) {
  const std::pair<json, int> cases[] = {
    {{{"state", "succeeded"}, {"exit_code", 0}}, 0},
    {{{"state", "failed"}, {"exit_code", 3}}, 3},
    {{{"state", "failed"}, {"exit_code", 255}}, 255},
    {{{"state", "failed"}, {"exit_code", nullptr}, {"signal", "SIGSEGV"}}, 128 + SIGSEGV},
    {{{"state", "failed"}, {"exit_code", nullptr}, {"signal", "SIGKILL"}}, 137},
    {{{"state", "failed"}, {"signal", "SIG40"}}, 168},
    {{{"state", "failed"}, {"exit_code", nullptr}, {"signal", nullptr}, {"reason", "spawn_failed"}}, 1},
    {{{"state", "timed_out"}, {"exit_code", nullptr}, {"signal", "SIGTERM"}}, 124},
    {{{"state", "cancelled"}, {"exit_code", 0}}, 130},
    {{{"state", "interrupted"}}, 75},
    {{{"state", "skipped"}}, 76}};
  for (const auto& [job, code] : cases) {
    CAF_CHECK(is_final(job));
    CAF_CHECK_EQUAL(exit_code_of(job), code);
  }
}

CAF_TEST(a failed job never gives success) {
  for (const auto& job : {json{{"state", "failed"}, {"exit_code", 0}}, json{{"state", "failed"}, {"exit_code", 256}},
                          json{{"state", "failed"}, {"exit_code", "0"}}, json{{"state", "failed"}}})
    CAF_CHECK_NOT_EQUAL(exit_code_of(job), 0);
}

CAF_TEST(what is not known to be final is never success) {
  for (const auto& job : {json{{"state", "running"}}, json{{"state", "queued"}}, json{{"state", "of_the_future"}},
                          json{{"state", 7}}, json::object(), json{}, json::array()}) {
    CAF_CHECK(!is_final(job));
    CAF_CHECK_EQUAL(exit_code_of(job), exit_codes::unreachable);
  }
}
