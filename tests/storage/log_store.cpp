#define CAF_SUITE log_store
#include "caf/test/unit_test.hpp"
#include "storage/log_reader.hpp"
#include "storage/log_writer.hpp"
#include "tests/support/files.hpp"
#include "tests/support/value_of.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kcx;
using test::value_of;

namespace {

struct fixture {
  test::temp_dir data;
  std::filesystem::path file = log_path(data.path(), 1234, 1);

  log_writer writer(std::uint64_t limit = 1 << 20) {
    auto made = log_writer::create(file, limit, 1000);
    CAF_REQUIRE(made.has_value());
    return std::move(*made);
  }

  log_reader reader() {
    auto opened = log_reader::open(file);
    CAF_REQUIRE(opened.has_value());
    return std::move(*opened);
  }
};

std::string read_all(const log_reader& reader, std::size_t piece = 1 << 16) {
  std::string text;
  for (std::uint64_t at = 0;;) {
    const auto chunk = reader.read(at, piece);
    CAF_REQUIRE(chunk.has_value());
    if (chunk->bytes.empty())
      return text;
    text += chunk->bytes;
    at = chunk->next;
  }
}

// Byte i of the stream; any reader can check any offset.
char byte_at(std::uint64_t i) {
  return static_cast<char>('a' + (i * 2654435761U >> 7) % 26);
}

std::string stream(std::uint64_t from, std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = byte_at(from + i);
  return text;
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(log_store_tests, fixture)

CAF_TEST(a log lies where its id says and is private) {
  CAF_CHECK_EQUAL(file.string(), (data / "logs/1/1234-1.log").string());
  auto log = writer();
  struct stat status {};
  CAF_REQUIRE(::stat(file.c_str(), &status) == 0);
  CAF_CHECK_EQUAL(status.st_mode & 0777U, 0600U);
  CAF_REQUIRE(::stat(log_index_path(file).c_str(), &status) == 0);
  CAF_CHECK_EQUAL(status.st_mode & 0777U, 0600U);
  CAF_CHECK(remove_log(file));
  CAF_CHECK(remove_log(file));
  CAF_CHECK(!std::filesystem::exists(file));
}

CAF_TEST(a log is created once) {
  auto log = writer();
  const auto again = log_writer::create(file, 1 << 20, 1000);
  CAF_REQUIRE(!again);
  CAF_CHECK(again.error().code == ec::conflict);
}

CAF_TEST(bytes come back as written with time stream and step) {
  auto log = writer();
  const std::string odd{"\0\xff\r\n\x1b[0m", 8};
  log.append(log_stream::out, 0, odd, 1000);
  log.append(log_stream::err, 1, "error\n", 1001);
  log.append(log_stream::err, 1, "more", 1500);
  log.flush(1500);
  const auto now = reader().extent();
  CAF_REQUIRE(now.has_value());
  CAF_CHECK_EQUAL(now->size, 18u);
  CAF_CHECK(!now->closed);
  CAF_CHECK_EQUAL(read_all(reader(), 3), odd + "error\nmore");
  const auto records = reader().records(0, 10);
  CAF_REQUIRE(records.has_value());
  CAF_REQUIRE_EQUAL(records->size(), 3u);
  CAF_CHECK_EQUAL((*records)[0].record.length, 8u);
  CAF_CHECK((*records)[1].record.stream == log_stream::err);
  CAF_CHECK_EQUAL((*records)[1].record.step, 1u);
  CAF_CHECK_EQUAL((*records)[1].record.offset, 8u);
  CAF_CHECK_EQUAL((*records)[2].record.time_ms, 1500);
  CAF_CHECK_EQUAL(value_of(reader().record_at(0)), 0u);
  CAF_CHECK_EQUAL(value_of(reader().record_at(13)), 1u);
  CAF_CHECK_EQUAL(value_of(reader().record_at(14)), 2u);
  CAF_CHECK_EQUAL(value_of(reader().record_at(99)), 3u);
}

CAF_TEST(bytes are visible after a flush and not before) {
  auto log = writer();
  log.append(log_stream::out, 0, "abc", 1000);
  CAF_CHECK(log.pending());
  CAF_CHECK_EQUAL(value_of(reader().extent()).size, 0u);
  log.flush(1001);
  CAF_CHECK_EQUAL(value_of(reader().extent()).size, 3u);
}

CAF_TEST(small pieces share a record and long silence parts them) {
  auto log = writer();
  for (int i = 0; i < 100; ++i)
    log.append(log_stream::out, 0, "x", 1000 + i / 20);
  log.append(log_stream::out, 0, "y", 1100);
  const auto sizes = log.close(1100);
  CAF_CHECK_EQUAL(sizes.records, 3u);
  CAF_CHECK_EQUAL(sizes.bytes, 101u);
}

CAF_TEST(a closed log says so and never changes) {
  auto log = writer();
  log.append(log_stream::out, 0, "text\n", 1000);
  const auto sizes = log.close(1001);
  CAF_CHECK_EQUAL(sizes.bytes, 5u);
  CAF_CHECK_EQUAL(sizes.stored, 5u);
  CAF_CHECK(!sizes.cut);
  log.append(log_stream::out, 0, "late", 1002);
  log.notice(0, "late", 1002);
  CAF_CHECK(log.close(1003) == sizes);
  CAF_CHECK(reader().extent()->closed);
  CAF_CHECK_EQUAL(read_all(reader()), "text\n");
  CAF_CHECK_EQUAL(value_of(reader().read(5, 10)).bytes, "");
  CAF_CHECK_EQUAL(value_of(reader().read(77, 10)).next, 77u);
}

CAF_TEST(a notice stands on a line of its own) {
  auto log = writer();
  log.notice(0, "first", 1000);
  log.append(log_stream::out, 0, "half a line", 1000);
  log.notice(0, "second", 1000);
  log.close(1000);
  CAF_CHECK_EQUAL(read_all(reader()), "kcx: first\nhalf a line\nkcx: second\n");
}

CAF_TEST(tail finds the begin of the last lines) {
  auto log = writer();
  log.append(log_stream::out, 0, "one\ntwo\n\nfour", 1000);
  log.flush(1000);
  CAF_CHECK_EQUAL(value_of(reader().tail(0)), 13u);
  CAF_CHECK_EQUAL(value_of(reader().tail(1)), 9u);
  CAF_CHECK_EQUAL(value_of(reader().tail(2)), 8u);
  CAF_CHECK_EQUAL(value_of(reader().tail(3)), 4u);
  CAF_CHECK_EQUAL(value_of(reader().tail(4)), 0u);
  CAF_CHECK_EQUAL(value_of(reader().tail(99)), 0u);
  log.append(log_stream::out, 0, "\n", 1000);
  log.flush(1000);
  CAF_CHECK_EQUAL(value_of(reader().tail(1)), 9u);
}

CAF_TEST(tail goes on before the gap) {
  auto log = writer(4'096);
  for (int i = 0; i < 2'000; ++i)
    log.append(log_stream::out, 0, std::to_string(1'000'000 + i) + '\n', 1000);
  log.close(1000);
  const auto extent = value_of(reader().extent());
  CAF_REQUIRE(extent.mark_begin < extent.gap_begin);
  const auto text = read_all(reader()).substr(extent.gap_begin);
  const auto lines = static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
  CAF_CHECK_EQUAL(value_of(reader().tail(lines - 1)), extent.gap_end + 8);
  CAF_CHECK_EQUAL(value_of(reader().tail(lines)), extent.gap_end);
  CAF_CHECK_EQUAL(value_of(reader().tail(lines + 1)), extent.mark_begin);
  CAF_CHECK_EQUAL(value_of(reader().tail(lines + 2)), extent.mark_begin - 8);
  CAF_CHECK_EQUAL(value_of(reader().tail(1'000'000)), 0u);
}

CAF_TEST(one very long line is no problem) {
  auto log = writer(64 << 20);
  log.append(log_stream::out, 0, "first\n", 1000);
  std::string line;
  line.resize(10'000'000, 'a');
  log.append(log_stream::out, 0, line, 1000);
  const auto sizes = log.close(1000);
  CAF_CHECK_EQUAL(sizes.bytes, 10'000'006u);
  CAF_CHECK_EQUAL(value_of(reader().tail(1)), 6u);
  CAF_CHECK_EQUAL(read_all(reader()).size(), 10'000'006u);
}

CAF_TEST(beyond its limit a log keeps begin and end at their offsets) {
  constexpr std::uint64_t limit = 64 << 10;
  constexpr std::uint64_t total = 5 << 20;
  auto log = writer(limit);
  for (std::uint64_t at = 0; at < total; at += 1000)
    log.append(log_stream::out, 0, stream(at, 1000), 1000 + static_cast<std::int64_t>(at / 1000));
  const auto sizes = log.close(9999);
  CAF_CHECK(sizes.cut);
  const auto now = *reader().extent();
  CAF_CHECK_LESS_OR_EQUAL(now.gap_begin, limit / 2);
  CAF_CHECK_GREATER(now.gap_begin, limit / 2 - 100);
  CAF_CHECK_GREATER(now.gap_end, total - limit / 2);
  CAF_CHECK_LESS_OR_EQUAL(sizes.stored, limit);
  CAF_CHECK_EQUAL(sizes.stored, now.size - (now.gap_end - now.gap_begin));
  const auto head = *reader().read(0, 1 << 20);
  CAF_CHECK(head.bytes == stream(0, now.mark_begin) + '\n' + std::string{cut_mark});
  const auto tail = *reader().read(head.next, 1 << 20);
  CAF_CHECK_EQUAL(tail.offset, now.gap_end);
  CAF_CHECK_EQUAL(tail.skipped, now.gap_end - now.gap_begin);
  const auto written = (total + 999) / 1000 * 1000;
  CAF_CHECK_EQUAL(tail.bytes.substr(0, written - tail.offset), stream(tail.offset, written - tail.offset));
  CAF_CHECK_NOT_EQUAL(tail.bytes.find("kcx: the log passed its limit of 65536 bytes"), std::string::npos);
  struct stat status {};
  CAF_REQUIRE(::stat(file.c_str(), &status) == 0);
  CAF_CHECK_LESS(static_cast<std::uint64_t>(status.st_blocks) * 512, limit + 16384);
}

CAF_TEST(a log that was cut shows whole lines of the job and one between its parts) {
  // In pieces as a pipe gives them, line by line, and bytes at a time.
  for (const std::size_t piece : {65'536U, 5'000U, 7U, 1U}) {
    for (const std::uint64_t limit : {1'024U, 4'096U, 50'000U}) {
      std::string text;
      for (int i = 0; i < 40'000; ++i)
        text += std::to_string(1'000'000 + i) + '\n';
      remove_log(file);
      auto log = writer(limit);
      for (std::size_t at = 0; at < text.size(); at += piece)
        log.append(log_stream::out, 0, std::string_view{text}.substr(at, piece),
                   1000 + static_cast<std::int64_t>(at / 8));
      const auto sizes = log.close(9'999'999);
      CAF_CHECK_LESS_OR_EQUAL(sizes.stored, limit + 150);
      const auto kept = read_all(reader());
      CAF_CHECK_EQUAL(kept.size(), sizes.stored);
      const auto extent = value_of(reader().extent());
      // Its offset is that of the byte at which the cut begins.
      CAF_CHECK_NOT_EQUAL(kept.find("from offset " + std::to_string(extent.mark_begin) + " on"), std::string::npos);
      std::istringstream lines{kept};
      std::vector<std::string> notices;
      std::size_t torn = 0;
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("kcx: "))
          notices.push_back(line + '\n');
        else
          torn += line.size() == 7 && text.find(line + '\n') % 8 == 0 ? 0 : 1;
      }
      CAF_REQUIRE_EQUAL(notices.size(), 2u);
      CAF_CHECK_EQUAL(notices.front(), cut_mark);
      // What comes byte by byte has no line begin where the cut falls now and then.
      CAF_CHECK_LESS_OR_EQUAL(torn, piece == 65'536 ? 0u : 2u);
    }
  }
}

CAF_TEST(a log at its limit is whole and has no line of a cut) {
  auto log = writer(4'096);
  for (int i = 0; i < 500; ++i)
    log.append(log_stream::out, 0, "seven..\n", 1000);
  log.close(1000);
  CAF_CHECK_EQUAL(value_of(reader().extent()).gap_end, 0u);
  CAF_CHECK_EQUAL(read_all(reader()).size(), 4'000u);
  CAF_CHECK_EQUAL(read_all(reader()).find("kcx"), std::string::npos);
}

CAF_TEST(a log as large as its limit is whole and one that is larger names the limit) {
  for (const std::uint64_t limit : {1'024U, 1'025U, 4'095U, 4'096U, 50'000U}) {
    for (const std::size_t piece : {65'536U, 5'000U, 80U, 33U}) {
      for (const std::uint64_t size : {limit - 40, limit - 1, limit, limit + 1}) {
        remove_log(file);
        auto log = writer(limit);
        const auto text = stream(0, size);
        // Each piece a record of its own.
        for (std::size_t at = 0; at < text.size(); at += piece)
          log.append(log_stream::out, 0, std::string_view{text}.substr(at, piece), 1000 + std::int64_t(at) * 20);
        const auto sizes = log.close(9'999'999);
        CAF_CHECK_EQUAL(sizes.cut, size > limit);
        if (size <= limit)
          CAF_CHECK(read_all(reader()) == text);
        else
          CAF_CHECK_NOT_EQUAL(read_all(reader()).find("passed its limit of " + std::to_string(limit) + " bytes;"),
                              std::string::npos);
      }
    }
  }
}

CAF_TEST(a log of very many pieces that is cut for them says so) {
  auto log = writer(4'096);
  for (int i = 0; i < 4'000; ++i)
    log.append(log_stream::out, 0, "x", 1000 + i * 20);
  CAF_CHECK(log.close(99'999).cut);
  CAF_CHECK_NOT_EQUAL(read_all(reader()).find("kcx: the log came in more pieces than its limit of 4096 bytes allows; "),
                      std::string::npos);
}

CAF_TEST(a log goes on behind the line of its cut) {
  {
    auto log = writer(4'096);
    for (int i = 0; i < 1'000; ++i)
      log.append(log_stream::out, 0, "seven..\n", 1000);
    log.flush(1000);
  }
  const auto before = value_of(reader().extent());
  CAF_REQUIRE(before.gap_end > 0);
  auto log = value_of(log_writer::resume(file, log_bounds{4'096, 0}));
  for (int i = 0; i < 1'000; ++i)
    log.append(log_stream::out, 0, "seven..\n", 2000);
  log.close(2000);
  const auto now = value_of(reader().extent());
  CAF_CHECK_EQUAL(now.mark_begin, before.mark_begin);
  CAF_CHECK_EQUAL(now.gap_begin, before.gap_begin);
  const auto text = read_all(reader());
  CAF_CHECK_LESS_OR_EQUAL(text.size(), 4'096u + 150u);
  CAF_CHECK_EQUAL(text.find(cut_mark), text.rfind(cut_mark));
}

CAF_TEST(a log that goes on in its second half keeps to its limit) {
  {
    auto log = writer(4'096);
    for (int i = 0; i < 480; ++i)
      log.append(log_stream::out, 0, "seven..\n", 1000);
    log.flush(1000);
  }
  CAF_CHECK_EQUAL(value_of(reader().extent()).gap_end, 0u);
  auto log = value_of(log_writer::resume(file, log_bounds{4'096, 0}));
  for (int i = 0; i < 1'000; ++i)
    log.append(log_stream::out, 0, "seven..\n", 2000);
  const auto sizes = log.close(2000);
  CAF_CHECK_LESS_OR_EQUAL(sizes.stored, 4'096u + 150u);
  CAF_CHECK_EQUAL(read_all(reader()).find("seven.."), 0u);
}

CAF_TEST(records step over the gap) {
  auto log = writer(8 << 10);
  for (std::uint64_t i = 0; i < 2000; ++i)
    log.append(log_stream::out, 0, stream(i * 100, 100), 1000 + static_cast<std::int64_t>(i) * 20);
  log.close(99999);
  const auto now = *reader().extent();
  const auto records = *reader().records(0, 100'000);
  std::uint64_t at = 0;
  for (const auto& item : records) {
    if (item.record.offset != at) {
      CAF_CHECK_EQUAL(at, now.gap_begin);
      CAF_CHECK_EQUAL(item.record.offset, now.gap_end);
    }
    at = item.record.offset + item.record.length;
  }
  CAF_CHECK_EQUAL(at, now.size);
  const auto first_kept = *reader().record_at(now.gap_begin + 10);
  CAF_CHECK_EQUAL(std::uint64_t{value_of(reader().records(first_kept, 1)).front().record.offset}, now.gap_end);
}

CAF_TEST(single bytes on both streams do not grow the index without end) {
  auto log = writer(64 << 10);
  for (int i = 0; i < 200'000; ++i)
    log.append(i % 2 == 0 ? log_stream::out : log_stream::err, 0, "x", 1000);
  log.close(1000);
  struct stat status {};
  CAF_REQUIRE(::stat(log_index_path(file).c_str(), &status) == 0);
  CAF_CHECK_LESS(status.st_blocks * 512, 128 << 10);
  CAF_CHECK(reader().extent()->gap_end > 0);
}

CAF_TEST(readers follow a writer that cuts the log under them) {
  constexpr std::uint64_t total = 8 << 20;
  auto log = writer(256 << 10);
  const auto child = ::fork();
  CAF_REQUIRE(child >= 0);
  if (child == 0) {
    for (std::uint64_t at = 0; at < total; at += 4096)
      log.append(log_stream::out, 0, stream(at, 4096), 1000 + static_cast<std::int64_t>(at / 4096) * 11);
    log.close(99999);
    ::_exit(0);
  }
  const auto follower = reader();
  std::uint64_t at = 0;
  std::uint64_t wrong = 0;
  std::uint64_t skipped = 0;
  while (true) {
    const auto closed = follower.extent()->closed;
    const auto chunk = follower.read(at, 10'000);
    CAF_REQUIRE(chunk.has_value());
    skipped += chunk->skipped;
    if (at + chunk->skipped != chunk->offset)
      ++wrong;
    // A line tells of the cut where the first bytes that were cut stood.
    const auto mark = follower.extent()->mark_begin;
    const bool marked = mark > 0 && chunk->offset <= mark && chunk->next > mark &&
                        std::string_view{chunk->bytes}.substr(mark - chunk->offset).starts_with("\nkcx: ");
    for (std::size_t i = 0; i < chunk->bytes.size() && !(marked && chunk->offset + i >= mark); ++i)
      if (chunk->offset + i < total && chunk->bytes[i] != byte_at(chunk->offset + i))
        ++wrong;
    if (closed && chunk->bytes.empty())
      break;
    at = chunk->next;
  }
  CAF_CHECK_EQUAL(wrong, 0u);
  CAF_CHECK_EQUAL(at, value_of(follower.extent()).size);
  int status = 0;
  ::waitpid(child, &status, 0);
  CAF_CHECK_EQUAL(status, 0);
}

CAF_TEST(what a full disk refuses is counted and told when there is room again) {
  auto log = writer(1 << 20);
  log.append(log_stream::out, 0, "before\n", 1000);
  log.flush(1000);
  // A limit on file size stands in for the full disk: writing beyond it fails in the middle of a chunk.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  log.append(log_stream::out, 0, std::string(5000, 'x'), 1001);
  log.append(log_stream::out, 0, std::string(5000, 'y'), 1002);
  ::setrlimit(RLIMIT_FSIZE, &old);
  log.append(log_stream::out, 0, "too early", 1500);
  log.append(log_stream::out, 0, "after\n", 2500);
  const auto sizes = log.close(2500);
  CAF_CHECK(sizes.cut);
  CAF_CHECK_EQUAL(sizes.lost, 5000u + 5000u + 9u - (1000u - 7u));
  CAF_CHECK(reader().extent()->lost);
  const auto text = read_all(reader());
  CAF_CHECK_EQUAL(text.substr(0, 10), "before\nxxx");
  CAF_CHECK_NOT_EQUAL(text.find("\nkcx: 9016 bytes of output are missing here: File too large\nafter\n"),
                      std::string::npos);
}

CAF_TEST(a disk that stays full still leaves a log that closes) {
  auto log = writer(1 << 20);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{200, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (int i = 0; i < 100; ++i)
    log.append(log_stream::out, 0, "0123456789", 1000 + i * 100);
  const auto sizes = log.close(99999);
  const rlimit large{RLIM_INFINITY, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &large);
  CAF_CHECK(sizes.cut);
  CAF_CHECK_EQUAL(sizes.bytes + sizes.lost, 1000u);
  CAF_CHECK_EQUAL(read_all(reader()).size(), sizes.bytes);
}

CAF_TEST(a log whose last notice found no room either says so in its index) {
  auto log = writer(1 << 20);
  log.append(log_stream::out, 0, std::string(4'000, 'x'), 1000);
  log.flush(1000);
  ::signal(SIGXFSZ, SIG_IGN);
  // The index is far smaller, and takes what comes.
  const rlimit small{4'000, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &small);
  log.append(log_stream::out, 0, "swallowed", 1100);
  CAF_CHECK(!value_of(reader().extent()).untold);
  const auto sizes = log.close(9000);
  CAF_CHECK(sizes.cut);
  CAF_CHECK_EQUAL(sizes.bytes, 4'000u);
  const auto now = value_of(reader().extent());
  CAF_CHECK(now.closed);
  CAF_CHECK(now.untold);
  CAF_CHECK(needs_loss_mark(now));
}

CAF_TEST(a log leaves the reserve of its disk to others but for the notice at its end) {
  auto log = value_of(log_writer::create(file, log_bounds{1 << 20, std::uint64_t{1} << 60}, 1000));
  log.append(log_stream::out, 0, "swallowed", 1000);
  log.append(log_stream::out, 0, "swallowed", 5000);
  const auto sizes = log.close(9000);
  CAF_CHECK(sizes.cut);
  CAF_CHECK_EQUAL(sizes.lost, 18u);
  // But the last word about it.
  CAF_CHECK_EQUAL(read_all(reader()),
                  "kcx: 18 bytes of output are missing here: the disk has no room besides the 1152921504606846976 "
                  "bytes that the option min-free keeps for the database\n");
  CAF_CHECK(!needs_loss_mark(value_of(reader().extent())));
}

CAF_TEST(what is not a log is refused) {
  CAF_CHECK(log_reader::open(file).error().code == ec::not_found);
  auto log = writer();
  CAF_CHECK_EQUAL(value_of(reader().extent()).size, 0u);
  test::write_file(log_index_path(file), "something else entirely, and long enough");
  CAF_CHECK(log_reader::open(file).error().code == ec::storage_unusable);
}

CAF_TEST(a log that is just being made is not there yet) {
  writer();
  std::filesystem::resize_file(log_index_path(file), 0);
  CAF_CHECK(log_reader::open(file).error().code == ec::not_found);
}

CAF_TEST(a torn last record is not seen) {
  auto log = writer();
  log.append(log_stream::out, 0, "whole", 1000);
  log.flush(1000);
  test::write_file(log_index_path(file), test::read_file(log_index_path(file)) + "torn");
  CAF_CHECK_EQUAL(value_of(reader().extent()).size, 5u);
  CAF_CHECK_EQUAL(read_all(reader()), "whole");
}

CAF_TEST_FIXTURE_SCOPE_END()
