/// The logs that workers elsewhere send of the jobs they hold: what a runner process does for the node's own.
///
/// Bytes are counted as the worker sends them, so that what is sent again is known; secrets are masked before anything
/// is stored. A log survives a restart of the node: it goes on where it was.
#pragma once

#include "config/error.hpp"
#include "storage/job_store.hpp"
#include "storage/log_writer.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::http {

/// Masks one stream of bytes; the call with `last` gives what was held back.
using byte_mask = std::function<std::string(std::string_view bytes, bool last)>;

struct claim_log_options {
  /// Logs lie below it (log_path()).
  std::filesystem::path data_dir;
  /// Of jobs that do not say.
  std::function<log_bounds()> bounds;
  /// Hides the given secrets.
  std::function<byte_mask(const std::vector<std::string>& secrets)> make_mask;
};

/// All members may be called from any thread; put() and close() touch the disk.
class claim_logs {
public:
  explicit claim_logs(claim_log_options options) : options_{std::move(options)} {}

  /// Whether open() was called for this attempt of this claim.
  [[nodiscard]] bool knows(attempt_key key, std::uint64_t nonce) const;
  /// The attempt may have a log from now on. An older one of the job is closed with the next close().
  void open(const job_grant& grant);

  /// Adds what comes at `offset` of the log as its worker counts; what was there before is passed over. Answers how
  /// much the worker has sent in all. Fails with conflict if bytes before `offset` are missing, or the log is closed.
  [[nodiscard]] expected<std::uint64_t> put(attempt_key key, std::uint64_t offset, std::string_view bytes,
                                            timestamp now);
  /// Bytes of the log as readers see them; 0 if there is none.
  [[nodiscard]] std::uint64_t size(attempt_key key) const;

  /// The log is complete. Nothing if it was never opened here.
  std::optional<log_summary> close(attempt_key key, timestamp now);
  /// The attempts of this job that have a log here.
  [[nodiscard]] std::vector<attempt_key> of_job(job_id job) const;

private:
  struct entry {
    std::mutex mutex{};
    std::uint64_t nonce = 0;
    log_bounds bounds{};
    byte_mask mask{};
    bool has_secrets = false;
    std::optional<log_writer> writer{};
    /// What the worker has sent.
    std::uint64_t taken = 0;
    bool closed = false;
  };

  [[nodiscard]] std::shared_ptr<entry> find(attempt_key key) const;
  outcome open_file(entry& log, attempt_key key, std::uint64_t offset, timestamp now) const;

  claim_log_options options_;
  mutable std::mutex mutex_;
  std::map<attempt_key, std::shared_ptr<entry>> logs_;
};

} // namespace kcx::http
