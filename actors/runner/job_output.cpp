#include "actors/runner/job_output.hpp"

#include <fcntl.h>

namespace kcx {

namespace {

constexpr std::size_t chunk_bytes = 64 * 1024;
/// A pipe holds 64 KiB, or 1 MiB where a process enlarged it: this takes all that was in it, and comes to an end while
/// somebody keeps on writing.
constexpr int max_chunks = 17;
constexpr std::chrono::milliseconds show_within{20};

} // namespace

std::int64_t wall_ms() noexcept {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

expected<std::unique_ptr<job_output>> job_output::create(const std::string& log_file, log_bounds bounds,
                                                         const std::vector<std::string>& secrets) {
  auto log = log_writer::create(log_file, bounds, wall_ms());
  if (!log)
    return std::move(log).error();
  std::unique_ptr<job_output> output{new job_output{std::move(*log), std::make_shared<const secret_patterns>(secrets)}};
  for (auto& pipe : output->pipes_) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return system_failure("cannot make a pipe");
    pipe.read_end.reset(ends[0]);
    pipe.write_end.reset(ends[1]);
    // Only our end: the job's must block.
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  return output;
}

job_output::job_output(log_writer log, std::shared_ptr<const secret_patterns> patterns)
  : log_{std::move(log)}, patterns_{std::move(patterns)}, pipes_{
                                                            {{{}, {}, log_stream::out, secret_masker{patterns_}},
                                                             {{}, {}, log_stream::err, secret_masker{patterns_}}}} {}

bool job_output::take() {
  bool any = false;
  for (auto& pipe : pipes_)
    any = take_from(pipe) || any;
  if (any)
    last_output_ = std::chrono::steady_clock::now();
  if (log_.pending() && !flush_at_)
    flush_at_ = std::chrono::steady_clock::now() + show_within;
  return any;
}

bool job_output::take_from(source& from) {
  static char buffer[chunk_bytes];
  bool any = false;
  for (int i = 0; i < max_chunks && from.read_end; ++i) {
    const auto n = ::read(from.read_end.value(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      break;
    if (n == 0) {
      from.read_end.reset();
      break;
    }
    any = true;
    const std::string_view bytes{buffer, static_cast<std::size_t>(n)};
    if (patterns_->empty()) {
      log_.append(from.stream, step_, bytes, wall_ms());
    } else {
      shown_.clear();
      from.masker.feed(bytes, shown_);
      log_.append(from.stream, step_, shown_, wall_ms());
    }
    if (bytes.size() < sizeof buffer)
      break;
  }
  return any;
}

void job_output::end() {
  take();
  for (auto& pipe : pipes_) {
    // Before the flush: what came behind it could be the other half of a secret.
    pipe.read_end.reset();
    pipe.write_end.reset();
    shown_.clear();
    pipe.masker.flush(shown_);
    log_.append(pipe.stream, step_, shown_, wall_ms());
  }
  if (log_.pending() && !flush_at_)
    flush_at_ = std::chrono::steady_clock::now() + show_within;
}

void job_output::close_write_ends() noexcept {
  for (auto& pipe : pipes_)
    pipe.write_end.reset();
}

void job_output::wants(std::vector<pollfd>& polled) const {
  for (const auto& pipe : pipes_)
    if (pipe.read_end)
      polled.push_back({pipe.read_end.value(), POLLIN, 0});
}

void job_output::notice(const std::string& text) {
  const auto last = last_output_;
  take();
  // What a masker holds back stays there: shown now it could be half a secret, and the other half follow the notice.
  log_.notice(step_, mask(text), wall_ms());
  last_output_ = last;
}

void job_output::flush() {
  log_.flush(wall_ms());
  flush_at_.reset();
}

log_sizes job_output::close() {
  end();
  flush_at_.reset();
  return log_.close(wall_ms());
}

} // namespace kcx
