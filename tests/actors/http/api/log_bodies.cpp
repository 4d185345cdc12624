#define CAF_SUITE log_bodies
#include "actors/http/logs/file_thread.hpp"
#include "actors/http/logs/log_encoding.hpp"
#include "actors/http/logs/log_follow.hpp"
#include "actors/http/logs/log_slice.hpp"
#include "caf/test/unit_test.hpp"
#include "storage/log_writer.hpp"
#include "tests/support/files.hpp"

#include <atomic>
#include <csignal>
#include <future>
#include <sys/resource.h>
#include <thread>

using namespace kcx;
using namespace kcx::http;

namespace {

struct written_log {
  test::temp_dir dir;
  std::filesystem::path file = dir / "1-1.log";
  log_writer writer;

  explicit written_log(std::uint64_t limit = 1 << 20) : writer{create(file, limit)} {}

  static log_writer create(const std::filesystem::path& file, std::uint64_t limit) {
    auto made = log_writer::create(file, limit, 0);
    CAF_REQUIRE(made.has_value());
    return std::move(*made);
  }

  void write(std::string_view text, std::int64_t at = 0) {
    writer.append(log_stream::out, 0, text, at);
    writer.flush(at);
  }

  log_reader reader() const {
    auto opened = log_reader::open(file);
    CAF_REQUIRE(opened.has_value());
    return std::move(*opened);
  }
};

/// Blocks for one piece, as a session with a client of its own would.
chunk pull(body_source& body, std::size_t most) {
  std::promise<chunk> came;
  body.next(most, [&](chunk piece) { came.set_value(std::move(piece)); });
  return came.get_future().get();
}

std::string pull_all(body_source& body, std::size_t most) {
  std::string text;
  for (;;) {
    const auto piece = pull(body, most);
    text += piece.bytes;
    if (piece.failed)
      return text + "<failed>";
    if (piece.last)
      return text;
  }
}

} // namespace

CAF_TEST(a follower on threads loses no byte and no wake - up) {
  file_threads files;
  written_log log;
  std::atomic<int> gone{0};
  auto body = std::make_shared<log_follow>(files.executor(), follow_options{}, [&] { ++gone; });
  body->attach(log.file);
  std::string expected;
  std::thread writer{[&] {
    for (int i = 0; i < 2'000; ++i) {
      const auto line = "line " + std::to_string(i) + "\n";
      log.write(line);
      expected += line;
      body->wake();
    }
    body->finish(log.writer.close(0).bytes, {});
  }};
  const auto text = pull_all(*body, 100);
  writer.join();
  CAF_CHECK(text == expected);
  CAF_CHECK_EQUAL(gone.load(), 1);
}

CAF_TEST(no piece is larger than what was asked for) {
  file_threads files;
  written_log log;
  log.write(std::string(10'000, '"'));
  auto body = std::make_shared<log_follow>(files.executor(), follow_options{0, {}, false, true}, nullptr);
  body->attach(log.file);
  body->finish(10'000, "{}");
  std::string text;
  for (;;) {
    const auto piece = pull(*body, 64);
    CAF_REQUIRE(piece.bytes.size() <= 64);
    text += piece.bytes;
    if (piece.last)
      break;
  }
  CAF_CHECK(text.ends_with("id: 10000\nevent: end\ndata: {}\n\n"));
}

CAF_TEST(a final size bounds what is read) {
  file_threads files;
  written_log log;
  log.write("kept, not this");
  auto body = std::make_shared<log_follow>(files.executor(), follow_options{}, nullptr);
  body->attach(log.file);
  body->finish(4, {});
  CAF_CHECK_EQUAL(pull_all(*body, 100), "kept");
}

CAF_TEST(a log shorter than recorded is cut off and never passed as whole) {
  file_threads files;
  written_log log;
  log.write("short");
  auto body = std::make_shared<log_follow>(files.executor(), follow_options{}, nullptr);
  body->attach(log.file);
  body->finish(9, {});
  CAF_CHECK_EQUAL(pull_all(*body, 100), "short<failed>");
}

CAF_TEST(half a character waits for its other half) {
  written_log log;
  log.write("a\xE2\x82");
  std::vector<chunk> came;
  auto body = std::make_shared<log_follow>([](const std::function<void()>& work) { work(); },
                                           follow_options{0, {}, false, true}, nullptr);
  body->attach(log.file);
  const auto ask = [&] { body->next(1'000, [&](chunk piece) { came.push_back(std::move(piece)); }); };
  ask();
  CAF_REQUIRE_EQUAL(came.size(), 1u);
  CAF_CHECK_EQUAL(came[0].bytes, "id: 1\ndata: {\"text\":\"a\"}\n\n");
  ask();
  CAF_CHECK_EQUAL(came.size(), 1u);
  log.write("\xAC");
  body->wake();
  CAF_REQUIRE_EQUAL(came.size(), 2u);
  CAF_CHECK_EQUAL(came[1].bytes, "id: 4\ndata: {\"text\":\"\xE2\x82\xAC\"}\n\n");
}

CAF_TEST(bytes that are no text are replaced in events only) {
  file_threads files;
  written_log log;
  log.write("\xFF\x80x");
  auto events = std::make_shared<log_follow>(files.executor(), follow_options{0, {}, false, true}, nullptr);
  events->attach(log.file);
  events->finish(3, "{}");
  CAF_CHECK(pull_all(*events, 1'000).starts_with("id: 3\ndata: {\"text\":\"\xEF\xBF\xBD\xEF\xBF\xBDx\"}\n\n"));
  auto raw = std::make_shared<log_follow>(files.executor(), follow_options{}, nullptr);
  raw->attach(log.file);
  raw->finish(3, {});
  CAF_CHECK_EQUAL(pull_all(*raw, 1'000), "\xFF\x80x");
}

CAF_TEST(exact events carry every byte) {
  file_threads files;
  written_log log;
  log.write("\xFF\x80x");
  log.write("\xE2\x82");
  auto events = std::make_shared<log_follow>(files.executor(), follow_options{0, {}, false, true, true}, nullptr);
  events->attach(log.file);
  events->finish(5, "{}");
  CAF_CHECK(pull_all(*events, 1'000).starts_with("id: 5\ndata: {\"base64\":\"/4B44oI=\"}\n\n"));
  CAF_CHECK_EQUAL(log_event("plain", 7, true), "id: 7\ndata: {\"text\":\"plain\"}\n\n");
}

CAF_TEST(a character that the cut goes through holds nothing up) {
  file_threads files;
  written_log log{4'100};
  // A log is cut between two records, which here are two bytes of a text whose characters have three.
  std::string text;
  for (int i = 0; i < 3'000; ++i)
    text += "\xE2\x82\xAC";
  for (std::size_t at = 0; at < text.size(); at += 2)
    log.write(std::string_view{text}.substr(at, 2), static_cast<std::int64_t>(at));
  const auto size = log.writer.close(0).bytes;
  const auto extent = log.reader().extent();
  CAF_REQUIRE(extent.has_value());
  CAF_REQUIRE(extent->mark_begin % 3 != 0);
  auto events = std::make_shared<log_follow>(files.executor(), follow_options{0, {}, false, true}, nullptr);
  events->attach(log.file);
  events->finish(size, "{}");
  CAF_CHECK(pull_all(*events, 1'000).find("event: end") != std::string::npos);
}

CAF_TEST(a cancelled follower tells once and asks for nothing more) {
  written_log log;
  int gone = 0;
  int answers = 0;
  {
    auto body = std::make_shared<log_follow>([](const std::function<void()>& work) { work(); }, follow_options{},
                                             [&] { ++gone; });
    body->attach(log.file);
    body->next(10, [&](const chunk&) { ++answers; });
    body->cancel();
    log.write("late");
    body->wake();
  }
  CAF_CHECK_EQUAL(gone, 1);
  CAF_CHECK_EQUAL(answers, 0);
}

CAF_TEST(a follower can begin with the last lines) {
  file_threads files;
  written_log log;
  log.write("a\nb\nc\n");
  auto body = std::make_shared<log_follow>(files.executor(), follow_options{0, 1, false, false}, nullptr);
  body->attach(log.file);
  body->finish(6, {});
  CAF_CHECK_EQUAL(pull_all(*body, 100), "c\n");
}

CAF_TEST(each line carries the time it began) {
  file_threads files;
  written_log log;
  log.write("a\nbe", 1'000);
  log.write("gun\nc\n", 2'000);
  auto body = std::make_shared<log_follow>(files.executor(), follow_options{0, {}, true, false}, nullptr);
  body->attach(log.file);
  body->finish(10, {});
  CAF_CHECK_EQUAL(pull_all(*body, 7),
                  "1970-01-01T00:00:01.000Z a\n1970-01-01T00:00:01.000Z begun\n1970-01-01T00:00:02.000Z c\n");
  // In the middle of a line there is no stamp.
  auto later = std::make_shared<log_follow>(files.executor(), follow_options{3, {}, true, false}, nullptr);
  later->attach(log.file);
  later->finish(10, {});
  CAF_CHECK_EQUAL(pull_all(*later, 100), "egun\n1970-01-01T00:00:02.000Z c\n");
}

CAF_TEST(a cut log is sent as its two parts) {
  file_threads files;
  written_log log{4'096};
  for (int i = 0; i < 5'000; ++i)
    log.write("line " + std::to_string(i) + "\n", i * 100);
  const auto size = log.writer.close(0).bytes;
  auto reader = log.reader();
  const auto extent = reader.extent();
  CAF_REQUIRE(extent.has_value());
  CAF_REQUIRE(extent->gap_end > extent->gap_begin);
  const auto ranges = readable(*extent, 0, size);
  CAF_REQUIRE_EQUAL(ranges.size(), 2u);
  auto slice = std::make_shared<log_slice>(files.executor(), std::move(reader), ranges);
  const auto kept = total_size(ranges);
  CAF_CHECK_EQUAL(slice->size().value_or(0), kept);
  const auto text = pull_all(*slice, 1'000);
  CAF_CHECK_EQUAL(text.size(), kept);
  CAF_CHECK(text.starts_with("line 0\nline 1\n"));
  auto followed = std::make_shared<log_follow>(files.executor(), follow_options{}, nullptr);
  followed->attach(log.file);
  followed->finish(size, {});
  CAF_CHECK(pull_all(*followed, 1'000) == text);
  // A client that comes back where it had been in the middle finds the line as well.
  auto back =
    std::make_shared<log_follow>(files.executor(), follow_options{extent->gap_begin + 10, {}, false, false}, nullptr);
  back->attach(log.file);
  back->finish(size, {});
  CAF_CHECK_EQUAL(pull_all(*back, 1'000), '\n' + text.substr(text.find(cut_mark)));
}

CAF_TEST(a log that lost its end without a word is shown with one) {
  file_threads files;
  written_log log;
  log.write("whole\nhalf a line");
  ::signal(SIGXFSZ, SIG_IGN);
  // A limit on file size stands in for the full disk. The index takes nothing more either.
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{17, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  log.write("lost");
  const auto sizes = log.writer.close(0);
  ::setrlimit(RLIMIT_FSIZE, &old);
  CAF_REQUIRE(sizes.cut);
  CAF_REQUIRE_EQUAL(sizes.bytes, 17u);
  const auto all = "whole\nhalf a line\n" + std::string{loss_mark};
  const auto follow = [&](follow_options options, bool cut) {
    auto body = std::make_shared<log_follow>(files.executor(), options, nullptr);
    body->attach(log.file);
    body->finish(17, "{}", cut);
    return pull_all(*body, 10);
  };
  CAF_CHECK_EQUAL(follow({}, true), all);
  CAF_CHECK_EQUAL(follow({}, false), "whole\nhalf a line");
  CAF_CHECK(follow({0, {}, false, true}, true)
              .ends_with("id: 17\ndata: {\"text\":\"\\n" + std::string{loss_mark}.substr(0, loss_mark.size() - 1) +
                         "\\n\"}\n\nid: 17\nevent: end\ndata: {}\n\n"));
  auto slice = std::make_shared<log_slice>(files.executor(), log.reader(), log_ranges{{0, 17}}, "\nbehind");
  CAF_CHECK_EQUAL(slice->size().value_or(0), 24u);
  CAF_CHECK_EQUAL(pull_all(*slice, 10), "whole\nhalf a line\nbehind");
  // Nothing of it was stored at all: not even opened.
  auto empty = std::make_shared<log_follow>(files.executor(), follow_options{}, nullptr);
  empty->attach(log.dir / "none");
  empty->finish(0, {}, true);
  CAF_CHECK_EQUAL(pull_all(*empty, 100), std::string{loss_mark});
}

CAF_TEST(ranges are sliced across the gap) {
  const log_ranges ranges{{0, 10}, {100, 110}};
  CAF_CHECK(sliced(ranges, 8, 12) == (log_ranges{{8, 10}, {100, 102}}));
  CAF_CHECK(sliced(ranges, 10, 20) == (log_ranges{{100, 110}}));
  CAF_CHECK(sliced(ranges, 20, 30).empty());
  const log_extent extent{110, 10, 100, 5, false, true};
  CAF_CHECK(readable(extent, 5, 110) == (log_ranges{{5, 10}, {100, 110}}));
  CAF_CHECK(readable(extent, 50, 105) == (log_ranges{{100, 105}}));
}

CAF_TEST(incomplete characters are counted in bytes) {
  CAF_CHECK_EQUAL(incomplete_utf8("abc"), 0u);
  CAF_CHECK_EQUAL(incomplete_utf8("\xC3"), 1u);
  CAF_CHECK_EQUAL(incomplete_utf8("\xC3\xA9"), 0u);
  CAF_CHECK_EQUAL(incomplete_utf8("\xF0\x9F\x98"), 3u);
  CAF_CHECK_EQUAL(incomplete_utf8("\xF0\x9F\x98\x80"), 0u);
  CAF_CHECK_EQUAL(incomplete_utf8("\x80\x80\x80\x80"), 0u);
  CAF_CHECK_EQUAL(incomplete_utf8(""), 0u);
}
