#include "actors/http/api/events.hpp"

#include "actors/http/api/parameters.hpp"
#include "config/units.hpp"
#include "storage/job_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace kcx::http {

namespace {

error wrong_job(std::string_view value) {
  return {ec::invalid_input, "job is \"" + std::string{value.substr(0, 100)} + "\", allowed is a number from 0", {}};
}

} // namespace

expected<event_filter> parse_event_query(const request& ask) {
  event_filter filter;
  if (const auto job = ask.parameter("job"); job && !job->empty()) {
    const auto number = parse_number(*job, 0, INT64_MAX);
    if (!number)
      return wrong_job(*job);
    filter.job = job_id{*number};
  }
  if (const auto project = ask.parameter("project"); project && !project->empty())
    filter.project = std::string{*project};
  if (const auto queue = ask.parameter("queue"); queue && !queue->empty())
    filter.queue = std::string{*queue};
  auto after = ask.parameter("after");
  // A browser that comes back sends this beside the address it was given first.
  if (const auto last = ask.headers.find("Last-Event-ID"))
    after = last;
  if (after && !after->empty()) {
    filter.after = parse_number(*after, 0, INT64_MAX);
    if (!filter.after)
      return wrong_position("after", *after);
  }
  return filter;
}

std::string encode_events(std::span<const job_event> events) {
  std::string text;
  for (const auto& each : events) {
    auto data = to_event_json(each).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text += "id: " + std::to_string(each.number) + "\nevent: job\ndata: " + std::move(data) + "\n\n";
  }
  return text;
}

void event_feed::put(std::string encoded) {
  std::unique_lock lock{mutex_};
  out_.append(encoded);
  deliver(lock);
}

bool event_feed::hungry() const {
  const std::lock_guard lock{mutex_};
  return pending_ && out_at_ == out_.size();
}

void event_feed::ping() {
  std::unique_lock lock{mutex_};
  if (!pending_ || out_at_ < out_.size())
    return;
  out_ = ": ping\n\n";
  out_at_ = 0;
  deliver(lock);
}

void event_feed::finish() {
  std::unique_lock lock{mutex_};
  ended_ = true;
  deliver(lock);
}

void event_feed::fail() {
  std::unique_lock lock{mutex_};
  failed_ = true;
  deliver(lock);
}

void event_feed::next(std::size_t max_bytes, chunk_handler done) {
  std::unique_lock lock{mutex_};
  pending_ = std::move(done);
  most_ = max_bytes;
  if (failed_ || ended_ || out_at_ < out_.size())
    return deliver(lock);
  const auto wanted = wanted_;
  lock.unlock();
  if (wanted)
    wanted();
}

void event_feed::deliver(std::unique_lock<std::mutex>& lock) {
  if (!pending_ || (!failed_ && !ended_ && out_at_ == out_.size()))
    return;
  chunk piece;
  piece.failed = failed_;
  piece.bytes = out_.substr(out_at_, most_);
  out_at_ += piece.bytes.size();
  if (out_at_ == out_.size()) {
    out_.clear();
    out_at_ = 0;
  }
  piece.last = ended_ && !failed_ && out_.empty();
  const auto done = std::exchange(pending_, nullptr);
  lock.unlock();
  done(std::move(piece));
}

void event_feed::cancel() noexcept {
  std::function<void()> gone;
  chunk_handler dropped;
  {
    const std::lock_guard lock{mutex_};
    gone = std::exchange(gone_, nullptr);
    dropped = std::exchange(pending_, nullptr);
    wanted_ = nullptr;
  }
  if (gone)
    gone();
}

} // namespace kcx::http
