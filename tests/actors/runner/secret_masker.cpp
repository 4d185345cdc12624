#define CAF_SUITE secret_masker
#include "actors/runner/secret_masker.hpp"

#include "caf/test/unit_test.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

using namespace kcx;

namespace {

std::shared_ptr<const secret_patterns> patterns(const std::vector<std::string>& secrets) {
  return std::make_shared<const secret_patterns>(secrets);
}

std::string in_chunks(const std::vector<std::string>& secrets, const std::string& text, std::size_t size) {
  secret_masker masker{patterns(secrets)};
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size)
    masker.feed(std::string_view{text}.substr(at, size), out);
  masker.flush(out);
  return out;
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8) | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : alphabet[(group >> (18 - 6 * k)) & 63U];
  }
  return text;
}

std::string broken(const std::string& text, std::size_t width, const std::string& line_end) {
  std::string lines;
  for (std::size_t at = 0; at < text.size(); at += width)
    lines += (at == 0 ? "" : line_end) + text.substr(at, width);
  return lines;
}

void check(const std::vector<std::string>& secrets, const std::string& text, const std::string& wanted) {
  for (std::size_t size = 1; size <= text.size(); ++size)
    CAF_CHECK_EQUAL(in_chunks(secrets, text, size), wanted);
}

} // namespace

CAF_TEST(a secret is masked wherever chunks end) {
  check({"hunter22"}, "the password is hunter22, hunter2 is not", "the password is ***, hunter2 is not");
  check({"hunter22"}, "hunter22hunter22", "******");
  check({"abab"}, "xabababx", "x***x");
  check({"abcdef", "cdefgh"}, "-abcdefgh-", "-***-");
  check({"abcd", "abcdefgh"}, "-abcdefg-abcdefgh-", "-***efg-***-");
  check({"bcde", "abcdex"}, "abcdey", "a***y");
}

CAF_TEST(a secret of several lines is masked as a whole and line by line) {
  check({"first\nsecond"}, "first\nsecond", "***");
  check({"first\nsecond"}, "  first\r\n  second", "  ***\r\n  ***");
}

CAF_TEST(short secrets mask nothing) {
  check({"a", "abc", ""}, "a abc abcabc", "a abc abcabc");
  CAF_CHECK(secret_patterns{{"abc"}}.empty());
}

CAF_TEST(escaped forms are masked) {
  check({"p@ss w/rd"}, "url p%40ss%20w%2Frd p%40ss+w%2frd end", "url *** *** end");
  check({"p@ss\"w\nline2"}, R"({"x":"p@ss\"w\nline2"})", R"({"x":"***"})");
  check({"tab\there"}, R"(tab\there)", "***");
}

CAF_TEST(JSON is masked as each of the usual libraries writes it) {
  const std::string secret = "p\xc3\xa4ss<w&r>\xf0\x9f\x94\x91'/\"\x01\x7f";
  for (const auto* text : {
         R"(p\u00e4ss<w&r>\ud83d\udd11'/\"\u0001\u007f)",                             // Python
         R"(p\u00E4ss<w&r>\uD83D\uDD11'/\"\u0001\u007F)",                             // with capital digits
         R"(p\u00e4ss<w&r>\ud83d\udd11'\/\"\u0001\u007f)",                            // PHP
         "p\xc3\xa4ss<w&r>\xf0\x9f\x94\x91'/\\\"\\u0001\x7f",                         // JavaScript
         "p\xc3\xa4ss\\u003cw\\u0026r\\u003e\xf0\x9f\x94\x91'/\\\"\\u0001\x7f",       // Go
         "p\xc3\xa4ss\\u003cw\\u0026r\\u003e\xf0\x9f\x94\x91\\u0027/\\\"\\u0001\x7f", // Gson
         R"(p\u00E4ss\u003Cw\u0026r\u003E\uD83D\uDD11\u0027/\u0022\u0001\u007F)",     // .NET
       })
    CAF_CHECK_EQUAL(in_chunks({secret}, text, 5), "***");
  // What is no UTF-8, as Python has it in os.environ.
  check({"ab\xe9 cd\xc3"}, R"("ab\udce9 cd\udcc3")", R"("***")");
}

CAF_TEST(URL escapes are masked as each of the usual libraries writes them) {
  const std::string secret = "p~s *w/r&d+'$\xc3\xa9";
  for (const auto* text : {
         "p~s%20%2Aw%2Fr%26d%2B%27%24%C3%A9", // RFC 3986
         "p~s%20%2aw%2fr%26d%2b%27%24%c3%a9", // with small digits
         "p~s+%2Aw%2Fr%26d%2B%27%24%C3%A9",   // Go's QueryEscape, Python's quote_plus
         "p~s%20*w%2Fr%26d%2B'%24%C3%A9",     // JavaScript's encodeURIComponent
         "p~s%20*w/r&d+'$%C3%A9",             // JavaScript's encodeURI
         "p%7Es+*w%2Fr%26d%2B%27%24%C3%A9",   // Java's URLEncoder
         "p%7Es+%2Aw%2Fr%26d%2B%27%24%C3%A9", // PHP's urlencode
         "p~s%20%2Aw%2Fr&d+%27$%C3%A9",       // Go's PathEscape
         "p~s%20%2Aw/r%26d%2B%27%24%C3%A9",   // Python's quote
       })
    CAF_CHECK_EQUAL(in_chunks({secret}, text, 5), "***");
}

CAF_TEST(the forms of a secret are few and each is there once) {
  CAF_CHECK_EQUAL(secret_patterns::forms("abcdEFGH1234").size(), 8u); // as it is, and base64
  std::string odd;
  for (int c = 1; c < 256; ++c)
    if (c != '\n' && c != '\r')
      odd += static_cast<char>(c);
  auto forms = secret_patterns::forms(odd);
  CAF_CHECK_LESS_OR_EQUAL(forms.size(), 70u);
  std::ranges::sort(forms);
  CAF_CHECK(std::ranges::adjacent_find(forms) == forms.end());
  CAF_CHECK_LESS(secret_patterns::forms(odd, true).size(), forms.size());
}

CAF_TEST(base64 is masked in each of its three positions) {
  // "user:" is 5 bytes, so the secret begins in the middle of a group of three.
  for (const auto* text : {"czNjcmV0LXRva2Vu", "dXNlcjpzM2NyZXQtdG9rZW4=", "eHMzY3JldC10b2tlbg=="}) {
    const auto shown = in_chunks({"s3cret-token"}, text, 3);
    CAF_CHECK_NOT_EQUAL(shown.find("***"), std::string::npos);
    CAF_CHECK_LESS(shown.size(), std::size_t{16});
  }
}

CAF_TEST(base64 is masked to its last character and padding) {
  for (std::size_t size = 4; size < 24; ++size) {
    const auto secret = std::string{"\xfb\xff~s3cret-token-of-24-bytes"}.substr(0, size);
    for (std::size_t before = 0; before < 3; ++before) {
      const auto standard = base64(std::string(before, 'x') + secret);
      auto for_urls = standard;
      std::ranges::replace(for_urls, '+', '-');
      std::ranges::replace(for_urls, '/', '_');
      for (const auto& padded : {standard, for_urls}) {
        const auto shared = padded.substr(0, before == 0 ? 0 : before + 1);
        for (const auto& text : {padded, padded.substr(0, padded.find('='))})
          CAF_CHECK_EQUAL(in_chunks({secret}, text + "\n", 5), shared + "***\n");
      }
    }
  }
}

CAF_TEST(base64 is masked where its lines are broken in the middle of the secret) {
  const std::string secret = "s3cret-token-of-24-bytes";
  for (std::size_t before = 0; before < 80; ++before) {
    const auto encoded = base64(std::string(before, 'x') + secret + std::string(60, 'y'));
    for (const std::size_t width : {16U, 64U, 76U}) {
      for (const auto* line_end : {"\n", "\r\n", "\n    "}) {
        const auto shown = in_chunks({secret}, broken(encoded, width, line_end) + "\nend\n", 5);
        CAF_REQUIRE(shown.find("***") != std::string::npos);
        CAF_CHECK(shown.ends_with("\nend\n"));
        // Whoever joins the lines again gets nothing of the secret but what it shares with its neighbours.
        std::string joined;
        std::ranges::copy_if(shown, std::back_inserter(joined),
                             [](char c) { return std::isalnum(c) != 0 || c == '+'; });
        for (std::size_t at = 2; at + 6 < secret.size(); ++at)
          for (const auto& form : secret_patterns::forms(secret.substr(at, 6)))
            if (form != secret.substr(at, 6) && form.size() >= 7)
              CAF_CHECK_EQUAL(joined.find(form), std::string::npos);
      }
    }
  }
}

CAF_TEST(a line of text is not held back for the next one) {
  secret_masker masker{patterns({"hunter22-and-more"})};
  const auto first = base64("hunter22-and-more").substr(0, 6);
  std::string out;
  masker.feed("short " + first + "\n", out);
  CAF_CHECK_EQUAL(out, "short " + first + "\n");
  masker.feed(std::string(100, 'x') + first + "\n", out);
  CAF_CHECK(!out.ends_with("\n"));
  masker.feed(std::string(100, ' '), out);
  CAF_CHECK(out.ends_with(std::string(80, ' '))); // blanks for ever are no broken line
}

CAF_TEST(no more is held back than may become a secret) {
  secret_masker masker{patterns({"hunter22"})};
  std::string out;
  masker.feed("password: hunt", out);
  CAF_CHECK_EQUAL(out, "password: ");
  masker.feed("ing", out);
  CAF_CHECK_EQUAL(out, "password: hunting");
  masker.feed(" hunter2", out);
  masker.flush(out);
  CAF_CHECK_EQUAL(out, "password: hunting hunter2");
}

CAF_TEST(a stream of nothing but overlapping secrets is not held back) {
  secret_masker masker{patterns({"aaaa"})};
  std::string out;
  masker.feed(std::string(1'000'000, 'a'), out);
  masker.feed("b", out);
  CAF_CHECK_EQUAL(out, "***b");
}

CAF_TEST(text without secrets passes unchanged) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i)
    every_byte += static_cast<char>(i);
  check({}, every_byte, every_byte);
  check({"not in there"}, every_byte, every_byte);
}
