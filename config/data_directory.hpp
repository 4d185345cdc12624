/// The data directory of a node: its layout, the lock that keeps a second node out, and the two files that `kcx` reads.
///
///     DIR/node.lock    locked while a node runs; holds its process id, unless the disk was full when it started
///     DIR/node.json    where the node listens; there only while it serves
///     DIR/admin.token  the first token, made at first start, mode 0600
///     DIR/reserve      space held back for a full disk; see storage/disk_reserve.hpp
///     DIR/kcx.db, logs/, workspaces/, artifacts/
///
/// What survives a crash: everything; the kernel drops the lock and the next node removes a stale node.json.
#pragma once

#include "config/error.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// What node.json tells.
struct node_addresses {
  std::string http;    ///< "http://127.0.0.1:7070"
  std::string inspect; ///< "http://127.0.0.1:7071"
};

class data_directory {
public:
  /// Creates what is missing (directories 0700; for root 0711, as jobs of other accounts work below), takes the lock
  /// and reads or makes the admin token. Waits up to `patience` for the lock, since a node that was killed a moment ago
  /// may still have it. Fails with ec::data_in_use (another node has it; the message names its process),
  /// ec::invalid_setting (on a network file system, or full of files that are not KCX's) or ec::system_failed.
  static expected<data_directory> open(const std::filesystem::path& path,
                                       std::chrono::milliseconds patience = std::chrono::milliseconds{3'000});

  data_directory(data_directory&& other) noexcept;
  data_directory& operator=(data_directory&&) = delete;
  /// Removes node.json if announced, then drops the lock.
  ~data_directory();

  /// Absolute, as are the others.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path database() const { return path_ / "kcx.db"; }
  [[nodiscard]] std::filesystem::path reserve() const { return path_ / "reserve"; }
  [[nodiscard]] std::filesystem::path logs() const { return path_ / "logs"; }
  [[nodiscard]] std::filesystem::path workspaces() const { return path_ / "workspaces"; }
  [[nodiscard]] std::filesystem::path artifacts() const { return path_ / "artifacts"; }

  [[nodiscard]] const std::string& admin_token() const noexcept { return token_; }
  /// Sentences for the log about what was put right at open, e.g. a token file others could read.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  /// Writes node.json by rename: call when the node is ready. Fails with ec::system_failed.
  outcome announce(const node_addresses& where);
  /// Removes node.json: call when the node stops taking requests. Does nothing if there is none.
  void retract() noexcept;

private:
  data_directory(std::filesystem::path path, int lock) : path_{std::move(path)}, lock_{lock} {}

  outcome make_folders();
  outcome load_token();

  std::filesystem::path path_;
  int lock_ = -1;
  bool announced_ = false;
  std::string token_;
  std::vector<std::string> warnings_;
};

/// The name of a file system whose locks or syncs SQLite cannot rely on, by its statfs type; nothing for others.
[[nodiscard]] std::optional<std::string_view> unreliable_file_system(long type) noexcept;

/// Writes a file so that a reader and a crash see all of it or the one before: a temporary file beside it, fsync,
/// rename, fsync of the directory. Mode 0600. Fails with ec::system_failed.
[[nodiscard]] outcome replace_file(const std::filesystem::path& file, std::string_view content);

/// What marks the processes of a node's jobs: the identity of its database, and the place of its data directory on the
/// disk, which a move keeps and a copy does not share. Without the latter if the directory is not there.
[[nodiscard]] std::string process_mark(const std::string& node_id, const std::filesystem::path& directory);

} // namespace kcx
