#define CAF_SUITE settings
#include "config/settings.hpp"

#include "caf/test/unit_test.hpp"
#include "config/ini_file.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

using namespace kcx;
using namespace kcx::test;
using namespace std::chrono_literals;

namespace {

expected<settings> parse(std::vector<std::string> words) {
  std::vector<const char*> argv{"kcx-node"};
  for (const auto& word : words)
    argv.push_back(word.c_str());
  return parse_settings(static_cast<int>(argv.size()), argv.data());
}

/// The message of a refusal, or "accepted".
std::string refusal(std::vector<std::string> words) {
  auto parsed = parse(std::move(words));
  if (parsed)
    return "accepted";
  CAF_CHECK_EQUAL(std::string{to_string(parsed.error().code)}, "invalid_setting");
  return parsed.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos)
    return true;
  CAF_MESSAGE("no \"" << part << "\" in \"" << text << "\"");
  return false;
}

struct documented {
  std::string name;
  std::string value;
  std::string comment;
};

/// The settings of config/node.ini, each with the comment above it.
std::vector<documented> documented_settings() {
  std::vector<documented> all;
  std::istringstream lines{read_file(KCX_SOURCE_DIR "/config/node.ini")};
  std::string comment;
  for (std::string line; std::getline(lines, line);) {
    auto equals = line.find(" =");
    if (line.size() > 1 && line[0] == '#' && line[1] != ' ' && equals != std::string::npos) {
      all.push_back({line.substr(1, equals - 1), line.size() > equals + 3 ? line.substr(equals + 3) : "", comment});
      comment.clear();
    } else if (line.empty()) {
      comment.clear();
    } else {
      comment += line.substr(std::min<std::size_t>(2, line.size())) + ' ';
    }
  }
  return all;
}

} // namespace

CAF_TEST(without options every setting has its default) {
  auto parsed = parse({});
  CAF_REQUIRE(parsed.has_value());
  CAF_CHECK_EQUAL(to_string(parsed->http), "127.0.0.1:7070");
  CAF_CHECK_EQUAL(to_string(parsed->inspect), "127.0.0.1:7071");
  CAF_CHECK_EQUAL(parsed->data, "./kcx-data");
  CAF_CHECK_EQUAL(parsed->readers, 2);
  CAF_CHECK(parsed->slots >= 1);
  CAF_CHECK(parsed->drain_timeout == 60s);
  CAF_CHECK(parsed->runner.is_absolute());
  CAF_CHECK_EQUAL(parsed->runner.filename(), "kcx-runner");
  CAF_CHECK(!parsed->fault_injection);
  CAF_CHECK(parsed->answer.empty());
}

CAF_TEST(the command line sets every kind of value) {
  auto parsed = parse({"--data",
                       "/d",
                       "--http",
                       "[::1]:0",
                       "--slots=3",
                       "--drain-timeout",
                       "500ms",
                       "--label",
                       "gpu",
                       "--label",
                       "arch=arm64",
                       "--label",
                       "gpu",
                       "--log-limit",
                       "1M",
                       "--log-level",
                       "debug",
                       "--fault-injection",
                       "--allow-host",
                       "ci.example.org",
                       "--allow-host",
                       "[::1]:80",
                       "--allow-origin",
                       "https://a.example:8443"});
  CAF_REQUIRE(parsed.has_value());
  CAF_CHECK_EQUAL(parsed->data, "/d");
  CAF_CHECK_EQUAL(to_string(parsed->http), "[::1]:0");
  CAF_CHECK_EQUAL(parsed->slots, 3);
  CAF_CHECK(parsed->drain_timeout == 500ms);
  CAF_CHECK((parsed->labels == std::vector<std::string>{"arch=arm64", "gpu"}));
  CAF_CHECK_EQUAL(parsed->log_limit, 1 << 20);
  CAF_CHECK(parsed->log == log_level::debug);
  CAF_CHECK((parsed->allowed_hosts == std::vector<std::string>{"ci.example.org", "[::1]:80"}));
  CAF_CHECK((parsed->allowed_origins == std::vector<std::string>{"https://a.example:8443"}));
  CAF_CHECK(parsed->fault_injection);
}

CAF_TEST(a wrong value is refused with option and value and what is allowed) {
  const std::vector<std::vector<std::string>> cases{{"--slots", "0", "from 1 to 1024"},
                                                    {"--slots", "1025", "from 1 to 1024"},
                                                    {"--slots", "many", "whole number"},
                                                    {"--readers", "65", "from 1 to 64"},
                                                    {"--http", "localhost:1", "numeric"},
                                                    {"--inspect", "127.0.0.1:70000", "port"},
                                                    {"--drain-timeout", "soon", "0s to 7d"},
                                                    {"--drain-timeout", "8d", "0s to 7d"},
                                                    {"--keep", "failed:10", "with its unit"},
                                                    {"--ageing-step", "999ms", "1s to 1d"},
                                                    {"--stop-grace", "2h", "0s to 1h"},
                                                    {"--scheduler-threads", "0", "1 to 64"},
                                                    {"--body-limit", "1", "1K to 1G"},
                                                    {"--log-limit", "2T", "4K to 1T"},
                                                    {"--log-level", "loud", "warning"},
                                                    {"--label", "a b", "letters"},
                                                    {"--allow-host", "https://a", "host name"},
                                                    {"--allow-host", "a:0", "port"},
                                                    {"--allow-host", "a:", "port"},
                                                    {"--allow-host", "::1", "address"},
                                                    {"--allow-host", "[::1", "address"},
                                                    {"--allow-host", "[::1]x", "address"},
                                                    {"--allow-host", "u@a", "host name"},
                                                    {"--allow-host", "", "host name"},
                                                    {"--allow-origin", "ci.example.org", "https://"},
                                                    {"--allow-origin", "https://", "https://"},
                                                    {"--allow-origin", "https://a/", "nothing behind it"},
                                                    {"--allow-origin", "ftp://a", "http://"},
                                                    {"--allow-origin", "null", "http://"},
                                                    {"--data", "", "directory"},
                                                    {"--runner", "", "path"},
                                                    {"--insecure=perhaps", "perhaps", "true or false"},
                                                    {"--fault-injection=1", "1", "true or false"}};
  for (const auto& c : cases) {
    bool joined = c[0].find('=') != std::string::npos;
    auto message = refusal(joined ? std::vector{c[0]} : std::vector{c[0], c[1]});
    CAF_CHECK(contains(message, c[0].substr(0, c[0].find('='))));
    CAF_CHECK(joined || contains(message, '"' + c[1] + '"'));
    CAF_CHECK(contains(message, c[2]));
  }
}

CAF_TEST(unknown options and stray words are refused) {
  CAF_CHECK(contains(refusal({"--slot", "3"}), "\"--slot\""));
  CAF_CHECK(contains(refusal({"start"}), "start"));
  CAF_CHECK(contains(refusal({"--slots"}), "--slots"));
  CAF_CHECK_NOT_EQUAL(refusal({"--slots", "1", "--slots", "2"}), "accepted");
}

CAF_TEST(an address other hosts can reach needs insecure) {
  auto message = refusal({"--http", "0.0.0.0:7070"});
  CAF_CHECK(contains(message, "--http"));
  CAF_CHECK(contains(message, "unencrypted"));
  CAF_CHECK(contains(message, "--insecure"));
  CAF_CHECK(contains(refusal({"--inspect", "[::]:7071"}), "--inspect"));
  CAF_CHECK_EQUAL(refusal({"--http", "0.0.0.0:7070", "--insecure"}), "accepted");
}

CAF_TEST(an address other hosts can reach is fine with TLS and TLS needs both files) {
  CAF_CHECK_EQUAL(refusal({"--http", "0.0.0.0:7070", "--tls-certificate", "c.pem", "--tls-key", "k.pem"}), "accepted");
  CAF_CHECK(contains(refusal({"--tls-certificate", "c.pem"}), "--tls-key"));
  CAF_CHECK(contains(refusal({"--tls-key", "k.pem"}), "--tls-certificate"));
}

CAF_TEST(one port cannot serve both) {
  CAF_CHECK(contains(refusal({"--http", "127.0.0.1:9", "--inspect", "127.0.0.1:9"}), "each needs a port"));
  CAF_CHECK_EQUAL(refusal({"--http", "127.0.0.1:0", "--inspect", "127.0.0.1:0"}), "accepted");
}

CAF_TEST(a file gives settings and the command line wins over it) {
  temp_dir dir;
  write_file(dir / "n.ini", "# comment\n; another\n\n slots = 7 \nreaders=3\ndata = \"/a dir/with # sign\"\n"
                            "label = a\nlabel = b\ninsecure = true\n");
  auto parsed = parse({"--config", dir / "n.ini", "--readers", "4"});
  CAF_REQUIRE(parsed.has_value());
  CAF_CHECK_EQUAL(parsed->slots, 7);
  CAF_CHECK_EQUAL(parsed->readers, 4);
  CAF_CHECK_EQUAL(parsed->data, "/a dir/with # sign");
  CAF_CHECK_EQUAL(parsed->labels.size(), 2u);
  CAF_CHECK(parsed->insecure);
}

CAF_TEST(a wrong line of a file is refused by number) {
  temp_dir dir;
  auto file = dir / "n.ini";
  const std::pair<const char*, const char*> cases[] = {{"\nslotz = 1\n", ":2: unknown setting \"slotz\""},
                                                       {"slots = 0", ":1: option --slots cannot be \"0\""},
                                                       {"slots = 1\nslots = 2", ":2: setting \"slots\""},
                                                       {"[node]\nslots = 1", ":1: \"[node]\""},
                                                       {"slots", ":1: \"slots\""},
                                                       {"config = x", ":1: unknown setting \"config\""},
                                                       {"slots = 4 # four", "cannot be \"4 # four\""},
                                                       {"slots =", "cannot be \"\""}};
  for (const auto& [content, part] : cases) {
    write_file(file, content);
    CAF_CHECK(contains(refusal({"--config", file}), part));
  }
}

CAF_TEST(a file that cannot be read is refused with the cause) {
  temp_dir dir;
  CAF_CHECK(contains(refusal({"--config", dir / "none.ini"}), "No such file"));
  // Reading a pipe could last for ever.
  CAF_REQUIRE_EQUAL(::mkfifo((dir / "pipe.ini").c_str(), 0600), 0);
  CAF_CHECK(contains(refusal({"--config", dir / "pipe.ini"}), "no regular file"));
  CAF_CHECK(contains(refusal({"--config", dir.path()}), "no regular file"));
}

CAF_TEST(help and version answer without checking anything else) {
  auto version = parse({"--version"});
  CAF_REQUIRE(version.has_value());
  CAF_CHECK_EQUAL(version->answer, "kcx-node " KCX_VERSION "\n");
  auto help = parse({"--http", "nonsense", "--help"});
  CAF_REQUIRE(help.has_value());
  CAF_CHECK(contains(help->answer, "--drain-timeout DURATION"));
}

CAF_TEST(help and node ini list the same settings with the same defaults) {
  auto in_file = documented_settings();
  auto known = known_settings();
  auto help = parse({"--help"});
  CAF_REQUIRE(help.has_value());
  CAF_REQUIRE_EQUAL(in_file.size(), known.size());
  std::set<std::string> in_help;
  std::istringstream words{help->answer};
  for (std::string word; words >> word;)
    if (word.starts_with("--"))
      in_help.insert(word.substr(2));
  for (std::size_t i = 0; i < known.size(); ++i) {
    CAF_CHECK_EQUAL(in_file[i].name, std::string{known[i].name});
    CAF_CHECK_EQUAL(in_file[i].value, known[i].default_text);
    // The comment ends with the range, in the very words of a refusal.
    auto comment = in_file[i].comment;
    auto allowed = std::string{known[i].allowed}.substr(1);
    CAF_CHECK(contains(comment, allowed.substr(0, allowed.find(','))));
    CAF_CHECK_EQUAL(in_help.count(std::string{known[i].name}), 1u);
    CAF_CHECK(known[i].default_text.empty() || contains(help->answer, '[' + known[i].default_text + ']'));
  }
  for (const char* other : {"help,-h", "man", "version", "config"})
    in_help.erase(other);
  in_help.erase("help");
  CAF_CHECK_EQUAL(in_help.size(), known.size());
}

CAF_TEST(the configuration page lists every setting) {
  auto page = read_file(KCX_SOURCE_DIR "/docs/configuration.md");
  for (const auto& setting : known_settings())
    CAF_CHECK(contains(page, "| `" + std::string{setting.name} + "` | " +
                               (setting.default_text.empty() ? "none"
                                : setting.default_text.front() == '('
                                  ? setting.default_text.substr(1, setting.default_text.size() - 2)
                                  : '`' + setting.default_text + '`') +
                               " |"));
}

CAF_TEST(the defaults node ini documents are those the node takes) {
  temp_dir dir;
  std::string content;
  for (const auto& setting : documented_settings())
    if (!setting.value.empty() && setting.value.front() != '(')
      content += setting.name + " = " + setting.value + '\n';
  write_file(dir / "n.ini", content);
  auto plain = parse({});
  auto from_file = parse({"--config", dir / "n.ini"});
  CAF_REQUIRE(plain.has_value());
  CAF_REQUIRE(from_file.has_value());
  CAF_CHECK_EQUAL(from_file->data, plain->data);
  CAF_CHECK(from_file->http == plain->http);
  CAF_CHECK(from_file->inspect == plain->inspect);
  CAF_CHECK_EQUAL(from_file->insecure, plain->insecure);
  CAF_CHECK_EQUAL(from_file->body_limit, plain->body_limit);
  CAF_CHECK_EQUAL(from_file->log_limit, plain->log_limit);
  CAF_CHECK(from_file->drain_timeout == plain->drain_timeout);
  CAF_CHECK(from_file->stop_grace == plain->stop_grace);
  CAF_CHECK_EQUAL(from_file->readers, plain->readers);
  CAF_CHECK_EQUAL(from_file->scheduler_threads, plain->scheduler_threads);
  CAF_CHECK(from_file->ageing_step == plain->ageing_step);
  CAF_CHECK(from_file->log == plain->log);
  CAF_CHECK_EQUAL(from_file->fault_injection, plain->fault_injection);
}
