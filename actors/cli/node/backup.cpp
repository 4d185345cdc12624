#include "actors/cli/node/backup.hpp"

#include "config/posix.hpp"
#include "config/units.hpp"
#include "storage/sqlite/maintenance.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace kcx::cli {

namespace {

namespace fs = std::filesystem;

error no_backup(std::string message) {
  return {ec::invalid_setting, std::move(message), {}};
}

/// Copies bytes from `begin` to `end`. Another reason to stop than a failure: the file became shorter.
outcome copy_bytes(int from, int to, off_t begin, off_t end, const fs::path& name, std::uint64_t& bytes) {
  std::array<char, 128 * 1024> buffer;
  while (begin < end) {
    const auto wanted = std::min<std::size_t>(buffer.size(), static_cast<std::size_t>(end - begin));
    const auto got = ::pread(from, buffer.data(), wanted, begin);
    if (got < 0)
      return system_failure("cannot read a log for " + name.string());
    if (got == 0)
      break;
    for (ssize_t at = 0; at < got;) {
      const auto put = ::pwrite(to, buffer.data() + at, static_cast<std::size_t>(got - at), begin + at);
      if (put < 0)
        return system_failure("cannot write " + name.string());
      at += put;
    }
    begin += got;
    bytes += static_cast<std::uint64_t>(got);
  }
  return done{};
}

/// Leaves holes out: the cut middle of a log may be a thousand times as large as what is kept of it.
outcome copy_sparse(const fs::path& from, const fs::path& to, std::uint64_t& bytes) {
  const unique_fd source{::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!source)
    // Retention may have removed it meanwhile; its job's row is in the copy, and answers that the log is gone.
    return errno == ENOENT ? outcome{done{}} : outcome{system_failure("cannot open " + from.string())};
  struct stat about {};
  if (::fstat(source.value(), &about) != 0)
    return system_failure("cannot examine " + from.string());
  const unique_fd target{::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!target)
    return system_failure("cannot make " + to.string());
  off_t at = 0;
  while (at < about.st_size) {
    const auto begin = ::lseek(source.value(), at, SEEK_DATA);
    if (begin < 0)
      break; // only a hole is left
    const auto hole = ::lseek(source.value(), begin, SEEK_HOLE);
    at = hole < 0 ? about.st_size : std::min<off_t>(hole, about.st_size);
    if (auto copied = copy_bytes(source.value(), target.value(), begin, at, to, bytes); !copied)
      return copied;
  }
  if (::ftruncate(target.value(), about.st_size) != 0)
    return system_failure("cannot write " + to.string());
  return done{};
}

using attempts = std::unordered_map<std::int64_t, std::int32_t>;

/// Whether the copied database knows the attempt whose log this is ("12-1.log"). A log it does not know was begun after
/// the copy: it would be in the way of an attempt that gets the same numbers.
bool is_known(const fs::path& file, const attempts& latest) {
  const auto name = file.stem().string();
  const auto dash = name.find('-');
  const auto job = parse_number(std::string_view{name}.substr(0, dash), 1, INT64_MAX);
  const auto attempt =
    dash == std::string::npos ? std::nullopt : parse_number(std::string_view{name}.substr(dash + 1), 1, INT32_MAX);
  const auto found = job ? latest.find(*job) : latest.end();
  return attempt && found != latest.end() && *attempt <= found->second;
}

/// The files of one pass. What an index covers is in its log already, so indexes are copied first: then no copied one
/// can tell of bytes that its log has not.
outcome copy_logs(const fs::path& from, const fs::path& to, bool indexes, const attempts& latest, backup_facts& facts) {
  std::error_code failed;
  for (fs::recursive_directory_iterator entry{from, failed}, end; !failed && entry != end; entry.increment(failed)) {
    const auto target = to / entry->path().lexically_relative(from);
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (::mkdir(target.c_str(), 0700) != 0 && errno != EEXIST)
        return system_failure("cannot make " + target.string());
      continue;
    }
    if (!entry->is_regular_file(ignored) || (entry->path().extension() == ".idx") != indexes ||
        !is_known(entry->path(), latest))
      continue;
    if (auto copied = copy_sparse(entry->path(), target, facts.log_bytes); !copied)
      return copied;
    facts.log_files += indexes ? 0 : 1;
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    return system_failure("cannot read " + from.string(), failed.value());
  return done{};
}

outcome fill(const fs::path& data, const fs::path& to, bool logs, backup_facts& facts) {
  if (auto copied = copy_database(data / "kcx.db", to / "kcx.db"); !copied)
    return copied;
  std::error_code failed;
  facts.database_bytes = fs::file_size(to / "kcx.db", failed);
  const auto latest = latest_attempts(to / "kcx.db");
  if (!latest)
    return latest.error();
  // After the database: none of those it knows can be missing but by removal.
  for (const bool indexes : {true, false}) {
    if (!logs)
      break;
    if (::mkdir((to / "logs").c_str(), 0700) != 0 && errno != EEXIST)
      return system_failure("cannot make " + (to / "logs").string());
    if (auto copied = copy_logs(data / "logs", to / "logs", indexes, *latest, facts); !copied)
      return copied;
  }
  const unique_fd folder{::open(to.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder || ::syncfs(folder.value()) != 0)
    return system_failure("cannot sync " + to.string());
  return done{};
}

} // namespace

expected<backup_facts> make_backup(const fs::path& data, const fs::path& target, bool logs) {
  std::error_code failed;
  auto whole = fs::absolute(target, failed).lexically_normal();
  if (!whole.has_filename())
    whole = whole.parent_path();
  auto partial = whole;
  partial += ".partial";
  if (!fs::exists(data / "kcx.db", failed))
    return no_backup(data.string() + " is no data directory of a node: there is no kcx.db in it");
  for (const auto& each : {whole, partial})
    if (fs::exists(fs::symlink_status(each, failed)))
      return no_backup(each.string() + " exists already; " +
                       (each == partial ? "a backup that was broken off left it, remove it" : "name a new directory"));
  if (::mkdir(partial.c_str(), 0700) != 0)
    return system_failure("cannot make " + partial.string());
  backup_facts facts;
  auto filled = fill(data, partial, logs, facts);
  if (filled && ::rename(partial.c_str(), whole.c_str()) != 0)
    filled = system_failure("cannot rename " + partial.string());
  if (!filled) {
    fs::remove_all(partial, failed);
    return std::move(filled).error();
  }
  const unique_fd parent{::open(whole.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!parent || ::fsync(parent.value()) != 0)
    return system_failure("cannot sync " + whole.parent_path().string());
  return facts;
}

} // namespace kcx::cli
