#define CAF_SUITE log_archive
#include "storage/log_archive.hpp"

#include "caf/test/unit_test.hpp"
#include "storage/log_reader.hpp"
#include "storage/log_writer.hpp"
#include "storage/seekable_file.hpp"
#include "tests/support/files.hpp"
#include "tests/support/value_of.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>

using namespace kcx;
using namespace kcx::test;
namespace fs = std::filesystem;

namespace {

std::string lines(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i)
    text += "line " + std::to_string(i) + "\n";
  return text;
}

/// Everything that a reader can tell of a log, to be compared before and after.
std::string portrait(const fs::path& file) {
  const auto log = log_reader::open(file);
  if (!log)
    return log.error().message;
  const auto extent = value_of(log->extent());
  std::string text = std::to_string(extent.size) + ' ' + std::to_string(extent.gap_begin) + ' ' +
                     std::to_string(extent.gap_end) + ' ' + std::to_string(extent.records) + '\n';
  for (std::uint64_t at = 0; at < extent.size;) {
    const auto chunk = value_of(log->read(at, 10'007));
    text += chunk.bytes;
    at = chunk.next;
    if (chunk.bytes.empty())
      break;
  }
  for (const auto number : {1, 10, 5'000})
    text += std::to_string(value_of(log->tail(static_cast<std::uint64_t>(number)))) + ' ';
  for (const auto& each : value_of(log->records(0, 1'000'000)))
    text += std::to_string(each.number) + ':' + std::to_string(each.record.time_ms) + ' ';
  return text + std::to_string(value_of(log->record_at(extent.size / 2)));
}

struct fixture {
  temp_dir data;
  fs::path file = log_path(data.path(), 12, 1);

  /// A closed log of what `write` does.
  void make(const std::function<void(log_writer&)>& write, std::uint64_t limit = 64U << 20) {
    auto log = value_of(log_writer::create(file, limit, 1'000));
    write(log);
    log.close(9'000);
  }

  bool plain() const { return fs::exists(file); }
  bool packed() const { return fs::exists(log_archive_path(file)); }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(log_archive_tests, fixture)

CAF_TEST(a compressed log reads as it did and takes less room) {
  make([](log_writer& log) {
    for (int i = 0; i < 500; ++i) {
      log.append(i % 2 == 0 ? log_stream::out : log_stream::err, 0, lines(i * 100, i * 100 + 99), 1'000 + i * 20);
      log.flush(1'000 + i * 20);
    }
  });
  const auto before = portrait(file);
  const auto bytes = fs::file_size(file);
  CAF_CHECK(wants_archive(file));
  CAF_CHECK(value_of(archive_log(file)));
  CAF_CHECK(!plain() && packed());
  CAF_CHECK(!fs::exists(log_index_path(file)) && fs::exists(log_archive_path(log_index_path(file))));
  CAF_CHECK_LESS(fs::file_size(log_archive_path(file)), bytes / 4);
  CAF_CHECK(portrait(file) == before);
  CAF_CHECK(!wants_archive(file) && !value_of(archive_log(file)));
}

CAF_TEST(a log whose middle was cut reads as it did) {
  make(
    [](log_writer& log) {
      for (int i = 0; i < 2'000; ++i) {
        log.append(log_stream::out, 0, lines(i * 100, i * 100 + 99), 1'000 + i * 20);
        log.flush(1'000 + i * 20);
      }
    },
    256U << 10);
  const auto before = portrait(file);
  CAF_CHECK(value_of(log_reader::open(file)->extent()).gap_end > 0);
  CAF_CHECK(value_of(archive_log(file)));
  CAF_CHECK(portrait(file) == before);
  CAF_CHECK_LESS(fs::file_size(log_archive_path(file)), 256U << 10);
}

CAF_TEST(small logs stay as they are) {
  make([](log_writer& log) { log.append(log_stream::out, 0, "short\n", 1'000); });
  CAF_CHECK(!wants_archive(file) && !value_of(archive_log(file)));
  CAF_CHECK(plain() && !packed());
  CAF_CHECK(!value_of(archive_log(data / "none.log")));
}

CAF_TEST(a reader that was open before goes on) {
  make([](log_writer& log) { log.append(log_stream::out, 0, lines(1, 100'000), 1'000); });
  const auto reader = value_of(log_reader::open(file));
  const auto first = value_of(reader.read(0, 1'000));
  CAF_CHECK(value_of(archive_log(file)));
  const auto size = value_of(reader.extent()).size;
  CAF_CHECK_EQUAL(value_of(reader.read(size - 10, 100)).bytes.size(), 10u);
  CAF_CHECK_EQUAL(value_of(log_reader::open(file)->read(0, 1'000)).bytes, first.bytes);
}

CAF_TEST(a crash at any moment leaves the log whole) {
  make([](log_writer& log) { log.append(log_stream::out, 0, lines(1, 10'000), 1'000); });
  const auto before = portrait(file);
  // Before the new file is in its place, and before the old one is gone.
  write_file(log_archive_path(file).string() + ".part", "half a file");
  CAF_CHECK(portrait(file) == before);
  const auto copy = read_file(file);
  CAF_CHECK(value_of(archive_log(file)));
  write_file(file, copy);
  CAF_CHECK(portrait(file) == before);
  CAF_CHECK(value_of(archive_log(file)));
  CAF_CHECK(!plain() && portrait(file) == before);
}

CAF_TEST(removing a log removes it in every form) {
  make([](log_writer& log) { log.append(log_stream::out, 0, lines(1, 10'000), 1'000); });
  CAF_CHECK(value_of(archive_log(file)));
  write_file(log_archive_path(file).string() + ".part", "half a file");
  CAF_CHECK(remove_log(file));
  CAF_CHECK(fs::is_empty(file.parent_path()));
}

CAF_TEST(a damaged file is told and never taken for the log) {
  make([](log_writer& log) {
    std::mt19937 dice{1};
    std::string noise(600'000, '\0');
    std::generate(noise.begin(), noise.end(), [&] { return static_cast<char>(dice()); });
    log.append(log_stream::out, 0, noise, 1'000);
  });
  CAF_CHECK(value_of(archive_log(file)));
  overwrite_file(log_archive_path(file), 1'000, "XXXXXXXX");
  const auto read = log_reader::open(file)->read(0, 100'000);
  CAF_CHECK(!read && read.error().code == ec::storage_failed);
  fs::resize_file(log_archive_path(file), fs::file_size(log_archive_path(file)) - 1);
  const auto open = log_reader::open(file);
  CAF_CHECK(!open && open.error().code == ec::storage_unusable);
}

CAF_TEST(any place of a seekable file can be read) {
  std::mt19937 dice{7};
  std::string content;
  while (content.size() < 3 * seekable_frame_bytes + 1'234)
    content += std::to_string(dice()) + '\n';
  auto writer = value_of(seekable_writer::create(data / "x.zst"));
  for (std::size_t at = 0; at < content.size(); at += 100'000)
    CAF_REQUIRE(writer.append(std::string_view{content}.substr(at, 100'000)).has_value());
  CAF_REQUIRE(writer.finish().has_value());
  auto reader = value_of(seekable_reader::open(data / "x.zst"));
  CAF_CHECK_EQUAL(reader.size(), content.size());
  for (int i = 0; i < 200; ++i) {
    const auto offset = dice() % content.size();
    std::string piece(dice() % 400'000, '\0');
    piece.resize(reader.read_at(piece.data(), piece.size(), offset));
    CAF_REQUIRE(piece == content.substr(offset, piece.size()));
  }
  CAF_CHECK_EQUAL(reader.read_at(content.data(), 10, content.size()), 0u);
}

CAF_TEST_FIXTURE_SCOPE_END()
