#define CAF_SUITE http_message
#include "actors/http/message/message.hpp"

#include "actors/http/message/auth.hpp"
#include "actors/http/message/host_policy.hpp"
#include "caf/test/unit_test.hpp"

using namespace kcx;
using namespace kcx::http;

CAF_TEST(header fields are found whatever their case) {
  header_fields fields;
  fields.add("Content-Type", " text/plain\t");
  fields.add("X", "1");
  fields.add("x", "2");
  CAF_CHECK(fields.find("content-type") == "text/plain");
  CAF_CHECK(fields.find("X") == "1");
  CAF_CHECK_EQUAL(fields.count("x"), 2u);
  CAF_CHECK(!fields.find("y"));
  auto copy = fields;
  copy.set("X", "3");
  CAF_CHECK(copy.find("x") == "3");
  CAF_CHECK_EQUAL(copy.count("x"), 1u);
  CAF_CHECK_EQUAL(fields.count("x"), 2u);
  CAF_CHECK_EQUAL(std::string{copy.at(0).value}, " text/plain\t");
}

CAF_TEST(percent encoding is undone or refused) {
  CAF_CHECK(percent_decoded("a%20b+c", false) == "a b+c");
  CAF_CHECK(percent_decoded("a%20b+c", true) == "a b c");
  CAF_CHECK(percent_decoded("%C3%a4", false) == "\xc3\xa4");
  CAF_CHECK(percent_decoded("", false) == "");
  for (auto bad : {"%", "%a", "%zz", "a%0", "%00"})
    CAF_CHECK(!percent_decoded(bad, false));
  CAF_CHECK_EQUAL(percent_encoded("a b/\xc3\xa4~"), "a%20b%2F%C3%A4~");
  CAF_CHECK(percent_decoded(percent_encoded("/?&=+ %"), true) == "/?&=+ %");
}

CAF_TEST(a responder without a request takes no answer) {
  responder none;
  CAF_CHECK(!none(response{}));
  CAF_CHECK(none.settled());
}

CAF_TEST(bearer tokens are read from the header) {
  CAF_CHECK(bearer_token("Bearer abc") == "abc");
  CAF_CHECK(bearer_token("bearer  a-._~+/=9 ") == "a-._~+/=9");
  for (auto bad : {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "Bearer a b", "Bearer a,b"})
    CAF_CHECK(!bearer_token(bad));
}

CAF_TEST(tokens are long random and compared whole) {
  auto token = make_token();
  CAF_CHECK_EQUAL(token.size(), 64u);
  CAF_CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
  CAF_CHECK_NOT_EQUAL(token, make_token());
  CAF_CHECK(constant_time_equal(token, std::string{token}));
  CAF_CHECK(!constant_time_equal(token, token.substr(1)));
  CAF_CHECK(!constant_time_equal("abc", "abd"));
  CAF_CHECK(constant_time_equal("", ""));
  CAF_CHECK_EQUAL(token_digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

CAF_TEST(authorities split into name and port) {
  auto check = [](std::string_view text, std::string_view name, int port) {
    auto parts = split_authority(text);
    CAF_REQUIRE(parts);
    CAF_CHECK_EQUAL(std::string{parts->name}, std::string{name});
    CAF_CHECK_EQUAL(parts->port ? int{*parts->port} : -1, port);
  };
  check("a", "a", -1);
  check("a:80", "a", 80);
  check("[::1]", "::1", -1);
  check("[::1]:7070", "::1", 7070);
  for (auto bad : {"", ":80", "a:", "a:b", "a:65536", "[::1", "[]:1", "[::1]x", "u@a", "a b"})
    CAF_CHECK(!split_authority(bad));
}

CAF_TEST(only pages of an allowed origin may read the answers) {
  host_policy::settings settings;
  header_fields page;
  page.add("Origin", "http://pages.example");
  CAF_CHECK_EQUAL(host_policy{settings}.sharing_fields(page), "");
  settings.allowed_origins = {"http://pages.example"};
  const host_policy policy{settings};
  CAF_CHECK(policy.sharing_fields(page).find("Access-Control-Allow-Origin: http://pages.example\r\n") !=
            std::string::npos);
  CAF_CHECK_EQUAL(policy.sharing_fields({}), "Vary: Origin\r\n");
  header_fields other;
  other.add("Origin", "http://pages.example.evil");
  CAF_CHECK_EQUAL(policy.sharing_fields(other), "Vary: Origin\r\n");
}

CAF_TEST(a browser is told ahead what a page of an allowed origin may send) {
  host_policy::settings settings;
  settings.allowed_origins = {"http://pages.example"};
  const host_policy policy{settings};
  header_fields question;
  question.add("Origin", "http://pages.example");
  CAF_CHECK(!policy.preflight("OPTIONS", question));
  question.add("Access-Control-Request-Method", "POST");
  CAF_CHECK(!policy.preflight("POST", question));
  CAF_CHECK_EQUAL(unsigned{policy.preflight("OPTIONS", question)->status}, 204u);
  question.set("Origin", "http://evil.example");
  CAF_CHECK(!policy.preflight("OPTIONS", question));
}

CAF_TEST(a server bound beyond loopback takes every name until some are listed) {
  host_policy::settings settings;
  settings.loopback = false;
  settings.port = 7070;
  header_fields none;
  CAF_CHECK(!host_policy{settings}.check("anything.example:7070", none));
  settings.allowed_hosts = {"ci.example.org:443"};
  CAF_CHECK(!host_policy{settings}.check("ci.example.org:443", none));
  CAF_CHECK(host_policy{settings}.check("ci.example.org:444", none));
  CAF_CHECK(host_policy{settings}.check("anything.example:7070", none));
  CAF_CHECK(!host_policy{settings}.check("localhost:7070", none));
}
