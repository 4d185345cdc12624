#include "actors/http/logs/log_follow.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace kcx::http {

namespace {

/// Bytes of the log per piece: with time stamps or as JSON they grow, which the buffer between takes up.
constexpr std::size_t piece_size = 32 * 1024;

} // namespace

log_follow::log_follow(file_executor files, follow_options options, std::function<void()> gone)
  : files_{std::move(files)}, options_{options}, gone_{std::move(gone)}, offset_{options.offset}, line_open_{
                                                                                                    options.offset >
                                                                                                    0} {}

log_follow::~log_follow() {
  tell_gone();
}

// -- from the bridge --------------------------------------------------------------------------------------------------

void log_follow::attach(std::filesystem::path data_file) {
  {
    const std::lock_guard lock{mutex_};
    if (file_.empty())
      file_ = std::move(data_file);
  }
  wake();
}

void log_follow::wake() {
  std::unique_lock lock{mutex_};
  woken_ = true;
  start_reading(lock);
}

void log_follow::finish(std::uint64_t bytes, std::string end_document, bool cut) {
  {
    const std::lock_guard lock{mutex_};
    if (!end_)
      end_ = finality{bytes, std::move(end_document), cut};
  }
  wake();
}

void log_follow::fail() {
  {
    const std::lock_guard lock{mutex_};
    failed_ = true;
  }
  wake();
}

void log_follow::ping() {
  chunk_handler done;
  {
    const std::lock_guard lock{mutex_};
    if (options_.events && !reading_)
      done = std::exchange(pending_, nullptr);
  }
  if (done)
    done({": ping\n\n", false, false});
}

// -- from the session -------------------------------------------------------------------------------------------------

void log_follow::next(std::size_t max_bytes, chunk_handler done) {
  std::unique_lock lock{mutex_};
  pending_ = std::move(done);
  wanted_ = max_bytes;
  start_reading(lock);
}

void log_follow::cancel() noexcept {
  chunk_handler dropped;
  {
    const std::lock_guard lock{mutex_};
    cancelled_ = true;
    dropped = std::exchange(pending_, nullptr);
  }
  tell_gone();
}

// -- reading ----------------------------------------------------------------------------------------------------------

void log_follow::start_reading(std::unique_lock<std::mutex>& lock) {
  if (reading_ || !pending_ || cancelled_)
    return;
  reading_ = true;
  // An executor may run it at once.
  lock.unlock();
  files_([weak = weak_from_this()] {
    if (const auto self = weak.lock())
      self->read();
  });
}

void log_follow::read() {
  for (;;) {
    std::optional<finality> end;
    {
      const std::lock_guard lock{mutex_};
      woken_ = false;
      end = end_;
    }
    const auto how = out_at_ < out_.size() ? progress::more : produce(end);
    if (how != progress::nothing)
      return deliver(how);
    const std::lock_guard lock{mutex_};
    if (woken_ && !cancelled_)
      continue; // It grew or ended while it was read.
    reading_ = false;
    return;
  }
}

log_follow::progress log_follow::produce(const std::optional<finality>& end) {
  out_.clear();
  out_at_ = 0;
  {
    const std::lock_guard lock{mutex_};
    if (failed_)
      return progress::failed;
  }
  if (end_written_)
    return progress::ended;
  if (const auto opened = open(end); opened != progress::more)
    return opened;
  if (reader_ && (!end || offset_ < end->bytes)) {
    const auto wanted = end ? std::min<std::uint64_t>(piece_size, end->bytes - offset_) : piece_size;
    auto piece = reader_->read(offset_, static_cast<std::size_t>(wanted));
    if (!piece)
      return progress::failed;
    if (!piece->bytes.empty())
      return encode(std::move(*piece), end);
    if (end) {
      spdlog::warn("a log has {} bytes where {} were recorded", offset_, end->bytes);
      return progress::failed;
    }
  }
  return end ? write_end(*end) : progress::nothing;
}

log_follow::progress log_follow::write_end(const finality& end) {
  end_written_ = true;
  // Not even opened where it is empty.
  const auto extent = reader_ ? reader_->extent() : log_extent{};
  if (end.cut && extent && (reader_ || end.bytes == 0) && needs_loss_mark(*extent))
    out_ = (line_open_ ? "\n" : "") + std::string{loss_mark};
  if (options_.events)
    out_ = (out_.empty() ? "" : log_event(out_, offset_, options_.exact)) + end_event(end.document, offset_);
  return out_.empty() ? progress::ended : progress::more;
}

// `more`: open, or not needed any more.
log_follow::progress log_follow::open(const std::optional<finality>& end) {
  if (reader_ || (end && end->bytes <= options_.offset))
    return progress::more;
  std::filesystem::path file;
  {
    const std::lock_guard lock{mutex_};
    file = file_;
  }
  if (file.empty())
    return end ? progress::failed : progress::nothing;
  auto opened = log_reader::open(file);
  if (!opened) {
    // The claim comes before the file.
    if (opened.error().code == ec::not_found && !end)
      return progress::nothing;
    spdlog::warn("a log cannot be followed: {}", opened.error().message);
    return progress::failed;
  }
  if (options_.tail) {
    const auto begin = opened->tail(*options_.tail);
    if (!begin)
      return progress::failed;
    offset_ = *begin;
  }
  reader_ = std::move(*opened);
  return progress::more;
}

log_follow::progress log_follow::encode(log_chunk piece, const std::optional<finality>& end) {
  auto next = piece.next;
  if (end && next > end->bytes) {
    // Stepping over the gap may lead beyond what was asked for.
    const auto excess = std::min<std::uint64_t>(piece.bytes.size(), next - end->bytes);
    piece.bytes.resize(piece.bytes.size() - static_cast<std::size_t>(excess));
    next = end->bytes;
  }
  if (options_.events && !options_.exact && !(end && next >= end->bytes)) {
    // Half a character waits for its other half, unless there is none: at the end, or where the log was cut.
    auto rest = incomplete_utf8(piece.bytes);
    if (rest == piece.bytes.size())
      if (const auto extent = reader_->extent(); extent && extent->gap_end > 0 && extent->gap_begin == next)
        rest = 0;
    piece.bytes.resize(piece.bytes.size() - rest);
    next -= rest;
    if (piece.bytes.empty())
      return progress::nothing;
  }
  if (options_.timestamps) {
    auto stamped = stamper_.stamp(*reader_, piece.bytes, next - piece.bytes.size());
    if (!stamped)
      return progress::failed;
    piece.bytes = std::move(*stamped);
  }
  // What was to come next is gone: without a line between them, two halves would look like a line of the job.
  if (piece.skipped > 0 && !piece.marked)
    piece.bytes.insert(0, (line_open_ ? "\n" : "") + std::string{cut_mark});
  line_open_ = !piece.bytes.ends_with('\n');
  offset_ = next;
  out_ = options_.events ? log_event(piece.bytes, next, options_.exact) : std::move(piece.bytes);
  return progress::more;
}

void log_follow::deliver(progress how) {
  chunk answer;
  chunk_handler done;
  {
    const std::lock_guard lock{mutex_};
    if (how == progress::more) {
      const auto size = std::min(wanted_, out_.size() - out_at_);
      answer.bytes = out_.substr(out_at_, size);
      out_at_ += size;
    }
    answer.last = how == progress::ended || (end_written_ && out_at_ == out_.size());
    answer.failed = how == progress::failed;
    reading_ = false;
    done = std::exchange(pending_, nullptr);
  }
  if (answer.last || answer.failed)
    tell_gone();
  if (done)
    done(std::move(answer));
}

void log_follow::tell_gone() noexcept {
  std::function<void()> gone;
  {
    const std::lock_guard lock{mutex_};
    gone = std::exchange(gone_, nullptr);
  }
  if (gone)
    gone();
}

} // namespace kcx::http
