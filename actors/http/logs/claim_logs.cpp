#include "actors/http/logs/claim_logs.hpp"

#include <utility>

namespace kcx::http {

namespace {

std::int64_t to_ms(timestamp at) {
  return at.time_since_epoch().count();
}

} // namespace

std::shared_ptr<claim_logs::entry> claim_logs::find(attempt_key key) const {
  const std::lock_guard lock{mutex_};
  const auto found = logs_.find(key);
  return found == logs_.end() ? nullptr : found->second;
}

bool claim_logs::knows(attempt_key key, std::uint64_t nonce) const {
  const auto log = find(key);
  return log && log->nonce == nonce;
}

void claim_logs::open(const job_grant& grant) {
  auto log = std::make_shared<entry>();
  log->nonce = grant.nonce;
  log->bounds = options_.bounds();
  if (grant.spec.log_limit_bytes)
    log->bounds.limit_bytes = static_cast<std::uint64_t>(*grant.spec.log_limit_bytes);
  std::vector<std::string> secrets;
  for (const auto& [name, value] : grant.spec.secrets)
    secrets.push_back(value);
  log->has_secrets = !secrets.empty();
  if (log->has_secrets)
    log->mask = options_.make_mask(secrets);
  const std::lock_guard lock{mutex_};
  logs_.emplace(grant.key, std::move(log));
}

outcome claim_logs::open_file(entry& log, attempt_key key, std::uint64_t offset, timestamp now) const {
  const auto path = log_path(options_.data_dir, key.job.value, key.attempt);
  auto made = log_writer::create(path, log.bounds, to_ms(now));
  if (!made && made.error().code == ec::conflict) {
    // An earlier life of this node began it. What was masked is shorter or longer than what was sent, so the worker's
    // word is taken for where it goes on.
    made = log_writer::resume(path, log.bounds);
    if (made)
      log.taken = log.has_secrets ? offset : made->size();
  }
  if (!made)
    return std::move(made).error();
  log.writer.emplace(*std::move(made));
  return done{};
}

expected<std::uint64_t> claim_logs::put(attempt_key key, std::uint64_t offset, std::string_view bytes, timestamp now) {
  const auto log = find(key);
  if (!log)
    return error{ec::stale_attempt, "this claim has no log any more", {}};
  const std::lock_guard lock{log->mutex};
  if (log->closed)
    return error{ec::conflict, "the log is closed", {}};
  if (!log->writer)
    if (auto opened = open_file(*log, key, offset, now); !opened)
      return std::move(opened).error();
  if (offset > log->taken)
    return error{ec::conflict,
                 "the log has " + std::to_string(log->taken) + " bytes: send what comes behind them, not from " +
                   std::to_string(offset),
                 {}};
  const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(log->taken - offset, bytes.size()));
  const auto fresh = bytes.substr(known);
  if (!fresh.empty()) {
    log->writer->append(log_stream::out, 0, log->mask ? log->mask(fresh, false) : std::string{fresh}, to_ms(now));
    log->writer->flush(to_ms(now));
    log->taken += fresh.size();
  }
  return log->taken;
}

std::uint64_t claim_logs::size(attempt_key key) const {
  const auto log = find(key);
  if (!log)
    return 0;
  const std::lock_guard lock{log->mutex};
  return log->writer ? log->writer->size() : 0;
}

std::optional<log_summary> claim_logs::close(attempt_key key, timestamp now) {
  const auto log = find(key);
  if (!log)
    return std::nullopt;
  std::optional<log_summary> result;
  {
    const std::lock_guard lock{log->mutex};
    log->closed = true;
    if (log->writer) {
      if (log->mask)
        log->writer->append(log_stream::out, 0, log->mask({}, true), to_ms(now));
      const auto sizes = log->writer->close(to_ms(now));
      result = log_summary{static_cast<std::int64_t>(sizes.bytes), sizes.cut};
    }
  }
  const std::lock_guard lock{mutex_};
  logs_.erase(key);
  return result;
}

std::vector<attempt_key> claim_logs::of_job(job_id job) const {
  const std::lock_guard lock{mutex_};
  std::vector<attempt_key> found;
  for (auto each = logs_.lower_bound({job, 0}); each != logs_.end() && each->first.job == job; ++each)
    found.push_back(each->first);
  return found;
}

} // namespace kcx::http
