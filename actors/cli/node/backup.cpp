#include "actors/cli/node/backup.hpp"

#include "config/posix.hpp"
#include "config/units.hpp"
#include "storage/log_copy.hpp"
#include "storage/sparse_copy.hpp"
#include "storage/sqlite/maintenance.hpp"

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

/// False if the file is not there any more.
expected<bool> copy_file(const fs::path& from, const fs::path& to, std::uint64_t& bytes) {
  const named_file source{unique_fd{::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)}, from};
  if (!source.fd)
    return errno == ENOENT ? expected<bool>{false} : expected<bool>{system_failure("cannot read " + from.string())};
  struct stat about {};
  if (::fstat(source.fd.value(), &about) != 0)
    return system_failure("cannot read " + from.string());
  const auto target = make_file(to);
  if (!target)
    return target.error();
  const auto copied = copy_sparse(source, *target, static_cast<std::uint64_t>(about.st_size));
  if (!copied)
    return copied.error();
  bytes += *copied;
  return true;
}

outcome make_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure("cannot make " + directory.string());
  return done{};
}

using attempts = std::unordered_map<std::int64_t, std::int32_t>;

/// Whether the copied database knows the attempt ("12-1"). What it does not know was begun after the copy: it would be
/// in the way of an attempt that gets the same numbers.
bool is_known(std::string_view name, const attempts& latest) {
  const auto dash = name.find('-');
  const auto job = parse_number(name.substr(0, dash), 1, INT64_MAX);
  const auto attempt =
    dash == std::string_view::npos ? std::nullopt : parse_number(name.substr(dash + 1), 1, INT32_MAX);
  const auto found = job ? latest.find(*job) : latest.end();
  return attempt && found != latest.end() && *attempt <= found->second;
}

/// Copies the regular files of a tree and the directories they lie in. False if something of it went meanwhile. A
/// directory that is not there is an empty one.
expected<bool> copy_tree(const fs::path& from, const fs::path& to, copied_files& facts) {
  std::error_code failed;
  bool whole = true;
  fs::directory_iterator entry{from, failed};
  if (!failed)
    if (auto made = make_directory(to); !made)
      return std::move(made).error();
  for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed)) {
    const auto target = to / entry->path().filename();
    std::error_code ignored;
    if (entry->is_symlink(ignored))
      continue;
    if (entry->is_directory(ignored)) {
      auto below = copy_tree(entry->path(), target, facts);
      if (!below)
        return below;
      whole = whole && *below;
      continue;
    }
    if (!entry->is_regular_file(ignored))
      continue;
    auto copied = copy_file(entry->path(), target, facts.bytes);
    if (!copied)
      return copied;
    whole = whole && *copied;
    facts.files += *copied ? 1 : 0;
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    return system_failure("cannot read " + from.string(), failed.value());
  return whole && !failed;
}

/// Every attempt that the copied database knows is asked for by name: a listing could miss a log that is given the name
/// of its compressed form meanwhile. One that is not there was removed, and its job's row answers that.
outcome copy_logs(const fs::path& data, const fs::path& to, const attempts& latest, copied_files& facts) {
  for (const auto& [job, last] : latest)
    for (std::int32_t attempt = 1; attempt <= last; ++attempt) {
      const auto log = log_copy::open(log_path(data, job, attempt));
      if (!log && log.error().code == ec::not_found)
        continue;
      if (!log)
        return log.error();
      const auto target = log_path(to, job, attempt);
      for (const auto& folder : {target.parent_path().parent_path(), target.parent_path()})
        if (auto made = make_directory(folder); !made)
          return made;
      const auto copied = log->write(target);
      if (!copied)
        return copied.error();
      ++facts.files;
      facts.bytes += *copied;
    }
  return done{};
}

/// The artifacts of an attempt never change, but may be removed: then they are left out as a whole.
outcome copy_artifacts(const fs::path& data, const fs::path& to, const attempts& latest, copied_files& facts) {
  const auto from = data / "artifacts";
  std::error_code failed;
  fs::directory_iterator entry{from, failed};
  for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed)) {
    const auto name = entry->path().filename();
    if (!is_known(name.string(), latest))
      continue;
    if (auto made = make_directory(to / "artifacts"); !made)
      return made;
    auto all = facts;
    const auto target = to / "artifacts" / name;
    const auto copied = copy_tree(entry->path(), target, all);
    if (!copied)
      return copied.error();
    std::error_code ignored;
    if (*copied && fs::exists(entry->path(), ignored))
      facts = all;
    else
      fs::remove_all(target, ignored);
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    return system_failure("cannot read " + from.string(), failed.value());
  return done{};
}

outcome fill(const fs::path& data, const fs::path& to, backup_parts with, backup_facts& facts) {
  if (auto copied = copy_database(data / "kcx.db", to / "kcx.db"); !copied)
    return copied;
  std::error_code failed;
  facts.database_bytes = fs::file_size(to / "kcx.db", failed);
  const auto latest = latest_attempts(to / "kcx.db");
  if (!latest)
    return latest.error();
  // After the database: nothing of what it knows can be missing but by removal.
  if (with.logs)
    if (auto copied = copy_logs(data, to, *latest, facts.logs); !copied)
      return copied;
  if (with.artifacts)
    if (auto copied = copy_artifacts(data, to, *latest, facts.artifacts); !copied)
      return copied;
  const unique_fd folder{::open(to.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder || ::syncfs(folder.value()) != 0)
    return system_failure("cannot sync " + to.string());
  return done{};
}

/// Where the backup is to stand, if it can.
expected<fs::path> checked_target(const fs::path& data, const fs::path& target) {
  std::error_code failed;
  if (target.empty())
    return no_backup("the directory of the backup needs a name");
  auto whole = fs::absolute(target, failed).lexically_normal();
  if (!whole.has_filename())
    whole = whole.parent_path();
  const auto there = fs::exists(data / "kcx.db", failed);
  if (failed)
    return no_backup("cannot look into " + data.string() + ": " + failed.message());
  if (!there)
    return no_backup(data.string() + " is no data directory of a node: there is no kcx.db in it");
  // Inside, it would copy itself, and the next backup would copy it again.
  const auto inside = fs::weakly_canonical(whole, failed).lexically_relative(fs::canonical(data, failed));
  if (!inside.empty() && *inside.begin() != "..")
    return no_backup(whole.string() + " lies inside of the data directory: name a place outside of it");
  for (const auto& each : {whole, fs::path{whole.string() + ".partial"}})
    if (fs::exists(fs::symlink_status(each, failed)))
      return no_backup(each.string() + " exists already; " +
                       (each == whole ? "name a new directory" : "a backup that was broken off left it, remove it"));
  return whole;
}

} // namespace

expected<backup_facts> make_backup(const fs::path& data, const fs::path& target, backup_parts with) {
  auto whole = checked_target(data, target);
  if (!whole)
    return std::move(whole).error();
  const fs::path partial{whole->string() + ".partial"};
  if (::mkdir(partial.c_str(), 0700) != 0)
    return system_failure("cannot make " + partial.string());
  backup_facts facts;
  auto filled = fill(data, partial, with, facts);
  if (filled && ::rename(partial.c_str(), whole->c_str()) != 0)
    filled = system_failure("cannot rename " + partial.string());
  if (!filled) {
    std::error_code failed;
    fs::remove_all(partial, failed);
    return std::move(filled).error();
  }
  if (!sync_directory(whole->parent_path()))
    return system_failure("cannot sync " + whole->parent_path().string());
  return facts;
}

} // namespace kcx::cli
