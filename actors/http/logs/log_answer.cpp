#include "actors/http/logs/log_answer.hpp"

#include "actors/http/api/ranges.hpp"
#include "actors/http/logs/log_follow.hpp"
#include "actors/http/logs/log_slice.hpp"
#include "actors/http/message/problem.hpp"

#include <utility>

namespace kcx::http {

namespace {

response log_head(unsigned status) {
  response answer;
  answer.status = status;
  answer.headers.add("Content-Type", "text/plain; charset=utf-8");
  // A job's output is never a page: a browser must not guess otherwise.
  answer.headers.add("X-Content-Type-Options", "nosniff");
  answer.headers.add("Cache-Control", "no-store");
  answer.headers.add("Accept-Ranges", "bytes");
  return answer;
}

std::string etag_of(const log_source& source, std::uint64_t size) {
  return "\"" + std::to_string(source.key.job.value) + "-" + std::to_string(source.key.attempt) + "-" +
         std::to_string(size) + "\"";
}

response missing(const log_source& source, const error& failure) {
  if (failure.code != ec::not_found)
    return problem(failure);
  if (!source.final || source.summary.bytes == 0)
    return empty_log();
  return problem(ec::gone, "the log of attempt " + std::to_string(source.key.attempt) + " of job " +
                             std::to_string(source.key.job.value) + " is no longer on the disk");
}

response range_answer(const file_executor& files, log_reader reader, const log_ranges& ranges, byte_range range,
                      response answer) {
  if (const auto part = make_partial(answer, range, total_size(ranges), "log"))
    answer.stream = std::make_shared<log_slice>(files, std::move(reader), sliced(ranges, part->first, part->second));
  return answer;
}

response stamped_answer(const file_executor& files, const log_source& source, std::uint64_t begin, std::uint64_t size) {
  auto answer = log_head(200);
  auto body =
    std::make_shared<log_follow>(files, follow_options{begin, std::nullopt, true, false}, std::function<void()>{});
  body->attach(source.file);
  body->finish(size, {}, source.final && source.summary.cut);
  answer.stream = std::move(body);
  return answer;
}

/// Who reads the log alone must not take it for whole.
std::string loss_mark_of(const log_source& source, const log_reader& reader, const log_extent& extent,
                         std::uint64_t size) {
  if (!source.final || !source.summary.cut || !needs_loss_mark(extent))
    return {};
  const auto last = size > 0 ? reader.read(size - 1, 1) : log_chunk{};
  const bool within_line = last && !last->bytes.empty() && last->bytes != "\n";
  return (within_line ? "\n" : "") + std::string{loss_mark};
}

} // namespace

response empty_log() {
  return log_head(200);
}

response log_answer(const file_executor& files, const log_source& source, const log_query& query) {
  auto reader = log_reader::open(source.file);
  if (!reader)
    return missing(source, reader.error());
  const auto extent = reader->extent();
  if (!extent)
    return problem(extent.error());
  const auto size = source.final ? static_cast<std::uint64_t>(source.summary.bytes) : extent->size;
  if (extent->size < size)
    return problem(ec::storage_failed, "the log on the disk is shorter than recorded: " + std::to_string(extent->size) +
                                         " of " + std::to_string(size) + " bytes");
  auto begin = query.offset;
  if (query.tail) {
    const auto found = reader->tail(*query.tail);
    if (!found)
      return problem(found.error());
    begin = *found;
  }
  if (query.timestamps)
    return stamped_answer(files, source, begin, size);

  // Who comes back into what was left out meanwhile is told so, as who follows is.
  if (begin >= extent->gap_begin && begin < extent->gap_end)
    begin = extent->mark_begin;
  const auto ranges = readable(*extent, begin, size);
  auto answer = log_head(200);
  const auto etag = etag_of(source, size);
  if (source.final)
    answer.headers.add("ETag", etag);
  const bool same = query.if_range.empty() || (source.final && query.if_range == etag);
  if (query.range && same)
    return range_answer(files, std::move(*reader), ranges, *query.range, std::move(answer));
  auto behind = loss_mark_of(source, *reader, *extent, size);
  answer.stream = std::make_shared<log_slice>(files, std::move(*reader), ranges, std::move(behind));
  return answer;
}

} // namespace kcx::http
