#define CAF_SUITE inspector
#include "caf/test/unit_test.hpp"
#include "tests/actors/inspector/inspector_harness.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

nlohmann::json body_of(const std::optional<http::response>& answer) {
  return answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
}

/// The entry of an actor in the answer to /actors; null if it is not there.
nlohmann::json entry(const nlohmann::json& document, std::uint64_t id) {
  for (const auto& each : document["actors"]) {
    if (each["id"] == id)
      return each;
  }
  return {};
}

bool has(const std::optional<http::response>& answer, std::string_view line) {
  return answer && answer->body.find(line) != std::string::npos;
}

unsigned status(const std::shared_ptr<std::optional<http::response>>& answer) {
  return *answer ? (*answer)->status : 0;
}

http::header_fields bearing(std::string_view token) {
  http::header_fields fields;
  fields.add("Authorization", "Bearer " + std::string{token});
  return fields;
}

http::header_fields with_cookie(const http::response& answer) {
  const auto set = std::string{answer.headers.find("Set-Cookie").value_or("")};
  http::header_fields fields;
  fields.add("Cookie", set.substr(0, set.find(';')));
  return fields;
}

} // namespace

CAF_TEST(the actors are shown with their figures and what they say) {
  inspector_harness inspector;
  inspector.stats.jobs_by_state[job_state::running] = 2;
  const auto document = body_of(*inspector.ask("GET", "/actors"));
  const auto itself = entry(document, inspector.inspector_id());
  CAF_CHECK_EQUAL(itself["name"].get<std::string>(), "inspector");
  CAF_CHECK(itself["handled"].get<int>() >= 1);
  // It answers from within a handler of its own.
  CAF_CHECK(itself["in_handler_ms"].is_number());
  CAF_CHECK(itself["status"].is_null());
  const auto database = entry(document, inspector.database_id());
  CAF_CHECK_EQUAL(database["status"]["commits"].get<int>(), 12);
  CAF_CHECK(database["in_handler_ms"].is_null());
  CAF_CHECK_EQUAL(database["thread"].get<std::string>(), "pool");
  CAF_CHECK_EQUAL(document["queue"]["jobs"]["running"].get<int>(), 2);
  CAF_CHECK_EQUAL(document["node"]["version"].get<std::string>(), "1.2.3");
}

CAF_TEST(an actor that does not answer is shown without its words) {
  inspector_harness inspector;
  inspector.database_silent = true;
  const auto slot = inspector.ask("GET", "/actors");
  CAF_CHECK(!slot->has_value());
  inspector.advance(101ms);
  CAF_REQUIRE(slot->has_value());
  const auto database = entry(body_of(*slot), inspector.database_id());
  CAF_CHECK_EQUAL(database["name"].get<std::string>(), "database");
  CAF_CHECK(database["status"].is_null());
}

CAF_TEST(a queue that cannot be read is shown as unknown) {
  inspector_harness inspector;
  inspector.reader_silent = true;
  const auto slot = inspector.ask("GET", "/actors");
  inspector.advance(1'001ms);
  CAF_REQUIRE(slot->has_value());
  const auto document = body_of(*slot);
  CAF_CHECK(document["queue"].is_null());
  CAF_CHECK(!document["actors"].empty());
}

CAF_TEST(jobs are counted once a second at the most) {
  inspector_harness inspector;
  for (const char* path : {"/actors", "/metrics", "/readyz", "/actors"})
    inspector.ask("GET", path);
  CAF_CHECK_EQUAL(inspector.counts, 1);
  inspector.now += 1s;
  inspector.stats.jobs_by_state[job_state::queued] = 3;
  const auto document = body_of(*inspector.ask("GET", "/actors"));
  CAF_CHECK_EQUAL(document["queue"]["jobs"]["queued"].get<int>(), 3);
  CAF_CHECK_EQUAL(inspector.counts, 2);
}

CAF_TEST(whoever asks during a count joins it) {
  inspector_harness inspector;
  inspector.reader_silent = true;
  std::vector<std::shared_ptr<std::optional<http::response>>> asked;
  for (const char* path : {"/actors", "/metrics", "/readyz", "/actors"})
    asked.push_back(inspector.ask("GET", path));
  CAF_CHECK_EQUAL(inspector.counts, 1);
  inspector.advance(1'001ms);
  for (const auto& each : asked)
    CAF_CHECK(each->has_value());
}

CAF_TEST(a count that failed is not begun again at once) {
  inspector_harness inspector;
  inspector.reader_silent = true;
  inspector.ask("GET", "/actors");
  inspector.now += 2s;
  inspector.advance(1'001ms);
  CAF_CHECK(body_of(*inspector.ask("GET", "/actors"))["queue"].is_null());
  inspector.now += 1'999ms;
  inspector.ask("GET", "/metrics");
  CAF_CHECK_EQUAL(inspector.counts, 1);
  inspector.now += 1ms;
  inspector.reader_silent = false;
  CAF_CHECK(!body_of(*inspector.ask("GET", "/actors"))["queue"].is_null());
}

CAF_TEST(the number of slots is that of now) {
  inspector_harness inspector;
  inspector.slots = 3;
  CAF_CHECK_EQUAL(body_of(*inspector.ask("GET", "/actors"))["node"]["slots"].get<int>(), 3);
}

CAF_TEST(a node that drains is not ready) {
  inspector_harness inspector;
  inspector.start_draining();
  const auto refused = inspector.ask("GET", "/readyz");
  CAF_CHECK_EQUAL(status(refused), 503u);
  CAF_CHECK_EQUAL(body_of(*refused)["code"].get<std::string>(), "draining");
  CAF_CHECK_EQUAL(status(inspector.ask("GET", "/healthz")), 200u);
}

CAF_TEST(a commit that takes long makes no node unready) {
  inspector_harness inspector;
  inspector.database_silent = true;
  const auto slot = inspector.ask("GET", "/readyz");
  inspector.advance(900ms);
  CAF_CHECK(!slot->has_value());
  inspector.end_silence();
  CAF_CHECK_EQUAL(status(slot), 200u);
}

CAF_TEST(an actor that ended in peace counts as no restart) {
  inspector_harness inspector;
  inspector.stop_and_replace();
  const auto after = body_of(*inspector.ask("GET", "/actors"));
  CAF_CHECK_EQUAL(entry(after, inspector.inspector_id())["restarts"].get<int>(), 0);
}

CAF_TEST(a replaced actor counts as a restart) {
  inspector_harness inspector;
  const auto before = body_of(*inspector.ask("GET", "/actors"));
  CAF_CHECK_EQUAL(entry(before, inspector.inspector_id())["restarts"].get<int>(), 0);
  inspector.crash_and_replace();
  const auto after = body_of(*inspector.ask("GET", "/actors"));
  CAF_CHECK_EQUAL(entry(after, inspector.inspector_id())["restarts"].get<int>(), 1);
}

CAF_TEST(an inspector that ended holds no other actor) {
  inspector_harness inspector;
  const auto before = inspector.holders_of_database();
  inspector.crash_and_replace();
  CAF_CHECK_EQUAL(inspector.holders_of_database(), before);
}

CAF_TEST(metrics come from actors and queue and database) {
  inspector_harness inspector;
  inspector.stats.jobs_by_state[job_state::queued] = 5;
  inspector.stats.oldest_queued_at = timestamp{40s};
  const auto slot = inspector.ask("GET", "/metrics");
  CAF_REQUIRE(slot->has_value());
  CAF_CHECK(has(*slot, "kcx_jobs{state=\"queued\"} 5"));
  CAF_CHECK(has(*slot, "kcx_oldest_queued_age_seconds 60"));
  CAF_CHECK(has(*slot, "kcx_commits_total 12"));
  CAF_CHECK(has(*slot, "kcx_actor_mailbox_depth{actor=\"database\"} 0"));
}

CAF_TEST(metrics are answered while database and readers hang) {
  inspector_harness inspector;
  inspector.reader_silent = true;
  inspector.database_silent = true;
  const auto slot = inspector.ask("GET", "/metrics");
  inspector.advance(1'001ms);
  CAF_REQUIRE(slot->has_value());
  CAF_CHECK_EQUAL((*slot)->status, 200u);
  CAF_CHECK(has(*slot, "kcx_queue_readable 0"));
  CAF_CHECK(has(*slot, "kcx_database_answering 0"));
  CAF_CHECK(!has(*slot, "kcx_commits_total"));
}

CAF_TEST(health is told apart from readiness) {
  inspector_harness inspector;
  CAF_CHECK_EQUAL(unsigned{(*inspector.ask("GET", "/healthz"))->status}, 200u);
  CAF_CHECK_EQUAL(unsigned{(*inspector.ask("GET", "/readyz"))->status}, 200u);
  inspector.database_silent = true;
  const auto slot = inspector.ask("GET", "/readyz");
  inspector.advance(1'001ms);
  CAF_REQUIRE(slot->has_value());
  CAF_CHECK_EQUAL((*slot)->status, 503u);
  CAF_CHECK_EQUAL(unsigned{(*inspector.ask("GET", "/healthz"))->status}, 200u);
}

CAF_TEST(other paths and methods are refused) {
  inspector_harness inspector;
  CAF_CHECK_EQUAL(unsigned{(*inspector.ask("GET", "/v1/jobs"))->status}, 404u);
  const auto detail = [&](const char* path) {
    return body_of(*inspector.ask("GET", path))["detail"].get<std::string>();
  };
  CAF_CHECK_EQUAL(detail("/v1/jobs"),
                  "nothing is at /v1/jobs: this is the inspection port, the API is at http://127.0.0.1:7070");
  CAF_CHECK_EQUAL(detail("/nothing"), "nothing is at /nothing");
  CAF_CHECK_EQUAL(unsigned{(*inspector.ask("GET", "/../app.js"))->status}, 404u);
  const auto slot = inspector.ask("POST", "/actors");
  CAF_CHECK_EQUAL((*slot)->status, 405u);
  CAF_CHECK_EQUAL(std::string{(*slot)->headers.find("Allow").value_or("")}, "GET, HEAD");
  CAF_CHECK_EQUAL(unsigned{(*inspector.ask("HEAD", "/"))->status}, 200u);
}

CAF_TEST(jobs are shown to who may read alone) {
  inspector_harness inspector;
  inspector.jobs.resize(1);
  inspector.jobs[0].id = job_id{7};
  CAF_CHECK_EQUAL(status(inspector.ask("GET", "/jobs")), 401u);
  CAF_CHECK_EQUAL(status(inspector.ask("GET", "/jobs", bearing("another"))), 401u);
  const auto shown = body_of(*inspector.ask("GET", "/jobs", bearing(inspector_harness::admin_token)));
  CAF_CHECK_EQUAL(shown["caller"].get<std::string>(), "admin");
  CAF_CHECK_EQUAL(shown["items"][0]["id"].get<int>(), 7);
}

CAF_TEST(jobs that no reader tells are no empty list) {
  inspector_harness inspector;
  inspector.reader_silent = true;
  const auto slot = inspector.ask("GET", "/jobs", bearing(inspector_harness::admin_token));
  inspector.advance(1'001ms);
  CAF_CHECK_EQUAL(status(slot), 503u);
}

CAF_TEST(a code signs a browser in once until it signs out) {
  inspector_harness inspector;
  const auto code = inspector.tokens().make_code({}).text;
  CAF_CHECK_EQUAL(status(inspector.ask("GET", "/jobs", bearing(code))), 401u);
  const auto begun = inspector.ask("POST", "/session", bearing(code));
  CAF_REQUIRE_EQUAL(status(begun), 204u);
  const auto cookie = with_cookie(**begun);
  CAF_CHECK_EQUAL(status(inspector.ask("GET", "/jobs", cookie)), 200u);
  CAF_CHECK_EQUAL(status(inspector.ask("POST", "/session", bearing(code))), 401u);
  CAF_CHECK_EQUAL(status(inspector.ask("DELETE", "/session", cookie)), 204u);
  CAF_CHECK_EQUAL(status(inspector.ask("GET", "/jobs", cookie)), 401u);
}

CAF_TEST(a session is no page to get) {
  inspector_harness inspector;
  const auto refused = inspector.ask("GET", "/session");
  CAF_CHECK_EQUAL(status(refused), 405u);
  CAF_CHECK_EQUAL((*refused)->headers.find("Allow").value_or(""), "POST, DELETE");
}
