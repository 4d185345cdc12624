#define CAF_SUITE log_copy
#include "storage/log_copy.hpp"

#include "caf/test/unit_test.hpp"
#include "storage/log_archive.hpp"
#include "storage/log_reader.hpp"
#include "storage/log_writer.hpp"
#include "tests/support/files.hpp"
#include "tests/support/value_of.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace kcx;
using namespace kcx::test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t limit = 64 * 1024;

struct fixture {
  temp_dir data;
  fs::path file = log_path(data.path(), 12, 1);
  fs::path target = log_path(data / "copy", 12, 1);
  int lines = 0;

  fixture() { fs::create_directories(target.parent_path()); }

  log_writer writer(std::uint64_t most = limit) { return value_of(log_writer::create(file, most, 1'000)); }

  /// Lines of ten bytes with their own number, a record for each hundred.
  void add(log_writer& log, int count) {
    for (; count > 0; count -= 100) {
      std::string text;
      for (int i = 0; i < 100; ++i) {
        const auto number = std::to_string(lines++);
        text += std::string(9 - number.size(), '.') + number + '\n';
      }
      log.append(log_stream::out, 0, text, 1'000 + lines);
      log.flush(1'000 + lines);
    }
  }

  /// The numbers of the lines that can be read; -1 for the mark of a cut. Anything else fails the test.
  static std::vector<int> read(const fs::path& file) {
    const auto log = value_of(log_reader::open(file));
    const auto extent = value_of(log.extent());
    std::string text;
    for (std::uint64_t at = 0; at < extent.size;) {
      const auto chunk = value_of(log.read(at, 10'007));
      text += chunk.bytes;
      at = std::max(chunk.next, at + 1);
    }
    std::vector<int> numbers;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      CAF_REQUIRE_NOT_EQUAL(end, std::string::npos);
      const auto line = text.substr(at, end - at) + '\n';
      const bool plain = line.size() == 10 && line.find_first_not_of(".0123456789\n") == std::string::npos;
      CAF_REQUIRE(plain || line == cut_mark);
      numbers.push_back(plain ? std::stoi(line.substr(line.find_first_not_of('.'))) : -1);
      at = end + 1;
    }
    return numbers;
  }

  /// What is read of the copy is a first part up to a mark and a last part, each without a break; the number of lines
  /// in the last part.
  int check_cut_copy(int last_line) {
    const auto numbers = read(target);
    const auto mark = std::ranges::find(numbers, -1);
    CAF_REQUIRE(mark != numbers.end() && mark != numbers.begin());
    for (auto at = numbers.begin(); at != mark; ++at)
      CAF_REQUIRE_EQUAL(*at, at - numbers.begin());
    for (auto at = mark + 1; at != numbers.end(); ++at)
      CAF_REQUIRE_EQUAL(*at, last_line - (numbers.end() - at));
    check_records();
    return static_cast<int>(numbers.end() - mark) - 1;
  }

  /// Records and bytes of the copy fit: each byte that is read has its record, and the mark is a notice.
  void check_records() {
    const auto log = value_of(log_reader::open(target));
    const auto extent = value_of(log.extent());
    std::uint64_t at = 0;
    for (const auto& each : value_of(log.records(0, 1'000'000))) {
      if (at == extent.gap_begin)
        at = std::max(at, extent.gap_end);
      if (each.record.offset >= extent.gap_begin && each.record.offset < extent.gap_end)
        continue;
      CAF_REQUIRE_EQUAL(each.record.offset, at);
      CAF_REQUIRE((each.record.stream == log_stream::notice) == (at == extent.mark_begin && extent.gap_end > 0));
      at += each.record.length;
    }
    if (at == extent.gap_begin)
      at = std::max(at, extent.gap_end);
    CAF_REQUIRE_EQUAL(at, extent.size);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(log_copy_tests, fixture)

CAF_TEST(a log that is written is copied as it was when it was opened) {
  auto log = writer();
  add(log, 500);
  const auto copy = value_of(log_copy::open(file));
  add(log, 500);
  CAF_REQUIRE(copy.write(target).has_value());
  CAF_CHECK_EQUAL(read(target).size(), 500u);
  check_records();
}

CAF_TEST(a compressed log is copied as it lies there) {
  auto log = writer(1 << 20);
  add(log, 5'000);
  log.close(9'000);
  CAF_REQUIRE(value_of(archive_log(file)));
  CAF_CHECK_GREATER(value_of(value_of(log_copy::open(file)).write(target)), 0u);
  CAF_CHECK(!fs::exists(target) && fs::exists(log_archive_path(target)));
  CAF_CHECK_EQUAL(read(target).size(), 5'000u);
  check_records();
}

CAF_TEST(a log that is compressed or removed while it is copied is copied whole) {
  auto log = writer(1 << 20);
  add(log, 5'000);
  log.close(9'000);
  const auto plain = value_of(log_copy::open(file));
  CAF_REQUIRE(value_of(archive_log(file)));
  CAF_REQUIRE(plain.write(target).has_value());
  CAF_CHECK_EQUAL(read(target).size(), 5'000u);
  const auto packed = value_of(log_copy::open(file));
  CAF_REQUIRE(remove_log(file) && remove_log(target));
  CAF_REQUIRE(packed.write(target).has_value());
  CAF_CHECK_EQUAL(read(target).size(), 5'000u);
  check_records();
}

CAF_TEST(a log of which only one file is compressed is copied) {
  auto log = writer(1 << 20);
  add(log, 500);
  log.close(9'000);
  CAF_REQUIRE(value_of(archive_log(file)));
  CAF_REQUIRE(fs::exists(log_index_path(file)) && fs::exists(log_archive_path(file)));
  CAF_REQUIRE(value_of(log_copy::open(file)).write(target).has_value());
  CAF_CHECK_EQUAL(read(target).size(), 500u);
  check_records();
}

CAF_TEST(a log that is not there or only just being made is not found) {
  const auto none = log_copy::open(file);
  CAF_CHECK(!none && none.error().code == ec::not_found);
  fs::create_directories(file.parent_path());
  write_file(file, "");
  CAF_CHECK(!log_copy::open(file));
  write_file(log_index_path(file), "");
  const auto empty = log_copy::open(file);
  CAF_CHECK(!empty && empty.error().code == ec::not_found);
}

CAF_TEST(what is cut while a log is copied is missing from the copy as a gap) {
  auto log = writer();
  add(log, 20'000);
  const auto copy = value_of(log_copy::open(file));
  const auto before = lines;
  // Cuts come with an eighth of the tail: some of what was there goes, not all.
  add(log, 1'500);
  CAF_REQUIRE(copy.write(target).has_value());
  CAF_CHECK_GREATER(check_cut_copy(before), 0);
  CAF_CHECK_EQUAL(value_of(value_of(log_reader::open(target)).extent()).size, static_cast<std::uint64_t>(before) * 10);
}

CAF_TEST(a log whose whole tail is cut while it is copied has its head in the copy) {
  auto log = writer();
  add(log, 20'000);
  const auto copy = value_of(log_copy::open(file));
  const auto before = lines;
  add(log, 20'000);
  CAF_REQUIRE(copy.write(target).has_value());
  CAF_CHECK_EQUAL(check_cut_copy(before), 0);
}

CAF_TEST(a log that is cut for the first time while it is copied is copied anew) {
  auto log = writer();
  add(log, 5'000);
  const auto copy = value_of(log_copy::open(file));
  add(log, 20'000);
  CAF_REQUIRE(copy.write(target).has_value());
  CAF_CHECK_GREATER(check_cut_copy(lines), 0);
  CAF_CHECK(read(target) == read(file));
}

CAF_TEST(every copy of a log that another thread writes and cuts is a log) {
  auto log = writer();
  std::atomic<bool> written{false};
  std::thread other{[&] {
    add(log, 100'000);
    written = true;
  }};
  const auto at_end = [&] {
    other.join();
    return true;
  };
  int copies = 0;
  for (bool last = false; !last; ++copies) {
    // The last one is of the log at rest.
    last = written && at_end();
    const auto copy = log_copy::open(file);
    if (!copy || !copy->write(target)) {
      CAF_ERROR("no copy was made");
      break;
    }
    const auto all = static_cast<int>(value_of(value_of(log_reader::open(target)).extent()).size / 10);
    auto numbers = read(target);
    std::erase(numbers, -1);
    const auto gap = std::ranges::adjacent_find(numbers, [](int one, int next) { return next != one + 1; });
    CAF_CHECK(numbers.empty() || numbers.front() == 0);
    CAF_CHECK(gap == numbers.end() || numbers.back() == all - 1);
    CAF_CHECK(gap == numbers.end() || std::ranges::is_sorted(gap + 1, numbers.end()));
    check_records();
    CAF_CHECK(remove_log(target));
  }
  if (other.joinable())
    other.join();
  CAF_CHECK_GREATER(copies, 1);
}

CAF_TEST(the copy of a log that was cut meanwhile is gone on with) {
  auto log = writer();
  add(log, 20'000);
  const auto copy = value_of(log_copy::open(file));
  lines = 20'000;
  add(log, 1'500);
  CAF_REQUIRE(copy.write(target).has_value());
  lines = 20'000;
  auto further = value_of(log_writer::resume(target, {limit}));
  add(further, 10'000);
  CAF_CHECK_GREATER(check_cut_copy(lines), 0);
  const auto sizes = further.close(99'000);
  CAF_CHECK_LESS_OR_EQUAL(sizes.stored, limit);
}

CAF_TEST_FIXTURE_SCOPE_END()
