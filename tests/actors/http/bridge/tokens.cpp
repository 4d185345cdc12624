#define CAF_SUITE bridge_tokens
#include "actors/http/api/token_table.hpp"
#include "actors/http/message/auth.hpp"
#include "caf/test/unit_test.hpp"
#include "tests/actors/http/bridge/harness.hpp"

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

std::string made_token(bridge_harness& bridge, const std::string& body) {
  const auto answer = bridge.post("/v1/tokens", body);
  CAF_REQUIRE_EQUAL(answer->status(), 201u);
  return answer->json().value("token", "");
}

unsigned status_with(bridge_harness& bridge, const std::string& token, const std::string& method,
                     const std::string& target) {
  return bridge.ask(method, target, {{}, {}, true, token})->status();
}

http::request request_with(const std::string& token) {
  http::request ask;
  ask.method = "GET";
  ask.path = "/v1/jobs";
  ask.headers.add("Authorization", "Bearer " + token);
  return ask;
}

} // namespace

CAF_TEST(a token is shown once and stored as its digest) {
  bridge_harness bridge;
  const auto answer = bridge.post("/v1/tokens", R"({"name":"ci","scopes":["read","submit"]})");
  CAF_REQUIRE_EQUAL(answer->status(), 201u);
  CAF_CHECK_EQUAL(answer->header("Location"), "/v1/tokens/1");
  const auto token = answer->json().value("token", "");
  CAF_CHECK_EQUAL(token.size(), 68u);
  CAF_REQUIRE_EQUAL(bridge.node.tokens.size(), 1u);
  CAF_CHECK_EQUAL(bridge.node.tokens[0].what.digest, http::token_digest(token));
  CAF_CHECK_EQUAL(bridge.node.tokens[0].what.created_by, "admin");
  const auto list = bridge.ask("GET", "/v1/tokens");
  CAF_CHECK_EQUAL(list->json()["items"][0]["name"], "ci");
  CAF_CHECK(list->answer->body.find(token) == std::string::npos);
  CAF_CHECK(list->answer->body.find(http::token_digest(token)) == std::string::npos);
}

CAF_TEST(a scope allows its calls and no others) {
  bridge_harness bridge;
  bridge.node.jobs[1] = some_job(1, job_state::queued);
  const auto reader = made_token(bridge, R"({"name":"reader","scopes":["read"]})");
  CAF_CHECK_EQUAL(status_with(bridge, reader, "GET", "/v1/jobs/1"), 200u);
  const auto refused = bridge.ask("POST", "/v1/jobs/1/cancel", {{}, {}, true, reader});
  CAF_CHECK_EQUAL(refused->status(), 403u);
  CAF_CHECK_EQUAL(refused->code(), "forbidden");
  CAF_CHECK(refused->json().value("detail", "").find("cancel") != std::string::npos);
  CAF_CHECK_EQUAL(status_with(bridge, reader, "GET", "/v1/tokens"), 403u);
  const auto admin = made_token(bridge, R"({"name":"second admin","scopes":["admin"]})");
  CAF_CHECK_EQUAL(status_with(bridge, admin, "GET", "/v1/tokens"), 200u);
  CAF_CHECK_EQUAL(status_with(bridge, admin, "GET", "/v1/jobs/1"), 200u);
}

CAF_TEST(who cancels is told by the name of the token) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"nightly","scopes":["cancel"]})");
  status_with(bridge, token, "POST", "/v1/jobs/1/cancel");
  CAF_CHECK_EQUAL(bridge.node.cancelled_by, std::vector<std::string>{"nightly"});
}

CAF_TEST(a revoked token is refused at once) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  CAF_CHECK_EQUAL(status_with(bridge, token, "GET", "/v1/jobs"), 200u);
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 204u);
  CAF_CHECK_EQUAL(status_with(bridge, token, "GET", "/v1/jobs"), 401u);
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 404u);
}

CAF_TEST(a token whose revocation nobody confirmed is refused all the same) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  bridge.node.database_silent = true;
  const auto unknown = bridge.ask("DELETE", "/v1/tokens/1");
  bridge.advance(10'001ms);
  CAF_CHECK_EQUAL(unknown->code(), "outcome_unknown");
  CAF_CHECK_EQUAL(status_with(bridge, token, "GET", "/v1/jobs"), 401u);
}

CAF_TEST(a token that is stored no more is refused once its revocation says so) {
  bridge_harness bridge;
  bridge.node.jobs[7] = some_job(7, job_state::running, 1);
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  const auto open = bridge.ask("GET", "/v1/jobs/7?wait=30s", {{}, {}, true, token});
  bridge.node.tokens.clear();
  CAF_CHECK_EQUAL(bridge.ask("DELETE", "/v1/tokens/1")->status(), 404u);
  CAF_CHECK_EQUAL(open->status(), 401u);
  CAF_CHECK_EQUAL(status_with(bridge, token, "GET", "/v1/jobs"), 401u);
}

CAF_TEST(a token ends at its time) {
  bridge_harness bridge;
  bridge.now = *parse_rfc3339("2026-01-01T00:00:00Z");
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"],"expires_at":"2026-01-01T00:01:00Z"})");
  bridge.now += 59s;
  CAF_CHECK_EQUAL(status_with(bridge, token, "GET", "/v1/jobs"), 200u);
  bridge.now += 1s;
  const auto refused = bridge.ask("GET", "/v1/jobs", {{}, {}, true, token});
  CAF_CHECK_EQUAL(refused->status(), 401u);
  CAF_CHECK(refused->json().value("detail", "").find("expired") != std::string::npos);
}

CAF_TEST(wrong fields of a token are named) {
  bridge_harness bridge;
  const std::pair<const char*, const char*> cases[] = {
    {R"({"scopes":["read"]})", "/name"},
    {R"({"name":"x"})", "/scopes"},
    {R"({"name":"x","scopes":[]})", "/scopes"},
    {R"({"name":"x","scopes":["fly"]})", "/scopes/0"},
    {R"({"name":"x\n","scopes":["read"]})", "/name"},
    {R"({"name":"x","scopes":["read"],"rate_limit":0})", "/rate_limit"},
    {R"({"name":"x","scopes":["read"],"expires_at":"1970-01-01T00:00:00Z"})", "/expires_at"},
    {R"({"name":"x","scopes":["read"],"power":9})", "/power"},
    {R"([])", ""},
  };
  for (const auto& [body, pointer] : cases) {
    const auto refused = bridge.post("/v1/tokens", body);
    CAF_CHECK_EQUAL(refused->code(), "invalid_input");
    CAF_CHECK_EQUAL(refused->json()["errors"][0].value("pointer", "?"), pointer);
  }
  CAF_CHECK(bridge.node.tokens.empty());
}

CAF_TEST(a token that sends too much is told when to come back) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"],"rate_limit":2})");
  const auto first = bridge.ask("GET", "/v1/jobs", {{}, {}, true, token});
  CAF_CHECK_EQUAL(first->header("RateLimit-Limit"), "2");
  const auto ask = request_with(token);
  CAF_CHECK(!bridge.tokens->admit(ask).refusal);
  CAF_CHECK(!bridge.tokens->admit(ask).refusal);
  const auto refused = bridge.tokens->admit(ask).refusal;
  CAF_REQUIRE(refused);
  CAF_CHECK_EQUAL(refused->status, 429u);
  CAF_CHECK_EQUAL(refused->headers.find("Retry-After").value_or(""), "30");
  CAF_CHECK_EQUAL(refused->headers.find("RateLimit-Remaining").value_or(""), "0");
  bridge.now += 30s;
  CAF_CHECK(!bridge.tokens->admit(ask).refusal);
  CAF_CHECK(bridge.tokens->admit(ask).refusal);
  // The admin is never locked out.
  for (int i = 0; i < 100; ++i)
    CAF_CHECK(!bridge.tokens->admit(request_with(std::string{bridge_harness::token})).refusal);
}

CAF_TEST(when a token was used is written down once a minute) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  for (int i = 0; i < 5; ++i)
    status_with(bridge, token, "GET", "/v1/jobs");
  CAF_CHECK(bridge.node.token_uses.empty());
  bridge.advance(60s);
  CAF_REQUIRE_EQUAL(bridge.node.token_uses.size(), 1u);
  CAF_CHECK_EQUAL(bridge.node.token_uses[0].first, 1);
  CAF_CHECK(bridge.node.token_uses[0].second == bridge.now);
}

CAF_TEST(a browser calls with its cookie until the session ends) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  const auto begun = bridge.ask("POST", "/v1/session", {{}, {}, true, token});
  CAF_REQUIRE_EQUAL(begun->status(), 204u);
  const auto set = begun->header("Set-Cookie");
  CAF_CHECK(set.find("HttpOnly") != std::string::npos && set.find("SameSite=Strict") != std::string::npos);
  const auto cookie = "theme=dark; " + set.substr(0, set.find(';'));
  const auto call = [&](const char* method, const char* target) {
    return bridge.ask(method, target, {{}, {{"Cookie", cookie}}, false, {}})->status();
  };
  CAF_CHECK_EQUAL(call("GET", "/v1/jobs"), 200u);
  CAF_CHECK_EQUAL(call("GET", "/v1/tokens"), 403u);
  CAF_CHECK_EQUAL(call("DELETE", "/v1/session"), 204u);
  CAF_CHECK_EQUAL(call("GET", "/v1/jobs"), 401u);
}

CAF_TEST(who comes with a session that is over is told so) {
  bridge_harness bridge;
  const auto set = bridge.ask("POST", "/v1/session")->header("Set-Cookie");
  const auto cookie = set.substr(0, set.find(';'));
  bridge.ask("DELETE", "/v1/session", {{}, {{"Cookie", cookie}}, false, {}});
  const auto refused = bridge.ask("GET", "/v1/jobs", {{}, {{"Cookie", cookie}}, false, {}});
  CAF_CHECK_EQUAL(refused->status(), 401u);
  CAF_CHECK(refused->json()["detail"].get<std::string>().starts_with("the session of this cookie is over"));
  const auto without = bridge.ask("GET", "/v1/jobs", {{}, {}, false, {}});
  CAF_CHECK(without->json()["detail"].get<std::string>().starts_with("this call needs the header"));
}

CAF_TEST(a code begins one session with the rights of its token) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  const auto made = bridge.ask("POST", "/v1/session/code", {{}, {}, true, token});
  CAF_REQUIRE_EQUAL(made->status(), 201u);
  CAF_CHECK_EQUAL(made->header("Cache-Control"), "no-store");
  const auto code = made->json()["code"].get<std::string>();
  CAF_CHECK_EQUAL(made->json()["expires_at"].get<std::string>(), to_rfc3339(bridge.now + 1min));
  // It is no token.
  CAF_CHECK_EQUAL(status_with(bridge, code, "GET", "/v1/jobs"), 401u);
  CAF_CHECK_EQUAL(status_with(bridge, code, "DELETE", "/v1/session"), 401u);
  const auto begun = bridge.ask("POST", "/v1/session", {{}, {}, true, code});
  CAF_REQUIRE_EQUAL(begun->status(), 204u);
  const auto set = begun->header("Set-Cookie");
  const auto call = [&](const char* target) {
    return bridge.ask("GET", target, {{}, {{"Cookie", set.substr(0, set.find(';'))}}, false, {}})->status();
  };
  CAF_CHECK_EQUAL(call("/v1/jobs"), 200u);
  CAF_CHECK_EQUAL(call("/v1/tokens"), 403u);
  CAF_CHECK_EQUAL(status_with(bridge, code, "POST", "/v1/session"), 401u);
}

CAF_TEST(a session begins no other and makes no code) {
  bridge_harness bridge;
  const auto set = bridge.ask("POST", "/v1/session")->header("Set-Cookie");
  const auto call = [&](const char* target) {
    return bridge.ask("POST", target, {{}, {{"Cookie", set.substr(0, set.find(';'))}}, false, {}})->status();
  };
  CAF_CHECK_EQUAL(call("/v1/session"), 403u);
  CAF_CHECK_EQUAL(call("/v1/session/code"), 403u);
}

CAF_TEST(each node has a cookie of its own name) {
  http::token_table one{{.admin_digest = http::token_digest("a")}};
  http::token_table again{{.admin_digest = http::token_digest("a")}};
  http::token_table other{{.admin_digest = http::token_digest("b")}};
  const auto name_of = [](http::token_table& tokens) {
    const auto set = *tokens.begin_session({});
    return set.substr(0, set.find('='));
  };
  CAF_CHECK_EQUAL(name_of(one), name_of(again));
  CAF_CHECK_NOT_EQUAL(name_of(one), name_of(other));
}

CAF_TEST(no token takes the name of the admin) {
  bridge_harness bridge;
  const auto answer = bridge.post("/v1/tokens", R"({"name":"admin","scopes":["read"]})");
  CAF_CHECK_EQUAL(answer->status(), 422u);
  CAF_CHECK_EQUAL(answer->json()["errors"][0]["pointer"].get<std::string>(), "/name");
}

CAF_TEST(a code ends with its minute and with its token) {
  bridge_harness bridge;
  const auto token = made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  const auto code_of = [&](const std::string& by) {
    return bridge.ask("POST", "/v1/session/code", {{}, {}, true, by})->json()["code"].get<std::string>();
  };
  const auto late = code_of(std::string{bridge_harness::token});
  bridge.now += 1min;
  CAF_CHECK_EQUAL(status_with(bridge, late, "POST", "/v1/session"), 401u);
  const auto orphan = code_of(token);
  bridge.ask("DELETE", "/v1/tokens/1");
  CAF_CHECK_EQUAL(status_with(bridge, orphan, "POST", "/v1/session"), 401u);
}

CAF_TEST(one token has a thousand codes at the most and takes none from another) {
  bridge_harness bridge;
  const auto other = bridge.tokens->make_code(http::caller{}).text;
  made_token(bridge, R"({"name":"ci","scopes":["read"]})");
  const http::caller greedy{1};
  const auto first = bridge.tokens->make_code(greedy).text;
  bridge.now += 1ms;
  std::string last;
  for (int i = 0; i < 1'000; ++i)
    last = bridge.tokens->make_code(greedy).text;
  CAF_CHECK_EQUAL(status_with(bridge, first, "POST", "/v1/session"), 401u);
  CAF_CHECK_EQUAL(status_with(bridge, last, "POST", "/v1/session"), 204u);
  CAF_CHECK_EQUAL(status_with(bridge, other, "POST", "/v1/session"), 204u);
}

CAF_TEST(a session ends with its token and with its time) {
  bridge_harness bridge;
  const auto cookie_of = [&](const std::string& token) {
    const auto set = bridge.ask("POST", "/v1/session", {{}, {}, true, token})->header("Set-Cookie");
    return set.substr(0, set.find(';'));
  };
  const auto call = [&](const std::string& cookie) {
    return bridge.ask("GET", "/v1/jobs", {{}, {{"Cookie", cookie}}, false, {}})->status();
  };
  const auto first = cookie_of(made_token(bridge, R"({"name":"a","scopes":["read"]})"));
  const auto second = cookie_of(made_token(bridge, R"({"name":"b","scopes":["read"]})"));
  CAF_CHECK_EQUAL(call(first), 200u);
  bridge.ask("DELETE", "/v1/tokens/1");
  CAF_CHECK_EQUAL(call(first), 401u);
  CAF_CHECK_EQUAL(call(second), 200u);
  bridge.now += 12h;
  CAF_CHECK_EQUAL(call(second), 401u);
}
