#include "actors/cli/screen.hpp"

#include "actors/cli/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kcx::cli {

namespace {

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

} // namespace

look look_of(int fd) {
  look how;
  if (::isatty(fd) == 0)
    return how;
  winsize size{};
  how.width = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  const char* term = std::getenv("TERM");
  how.colours = !is_set("NO_COLOR") && term != nullptr && std::string_view{term} != "dumb";
  return how;
}

screen::screen(bool quiet)
  : quiet_{quiet}, shares_terminal_{::isatty(STDOUT_FILENO) != 0}, has_status_{!quiet &&
                                                                               look_of(STDERR_FILENO).colours} {}

screen::~screen() {
  status("");
}

bool screen::write(std::string_view bytes) {
  const std::lock_guard lock{mutex_};
  if (closed_ || bytes.empty())
    return !closed_;
  if (shares_terminal_)
    erase_status();
  closed_ = !write_all(STDOUT_FILENO, bytes);
  mid_line_ = shares_terminal_ && bytes.back() != '\n';
  draw_status();
  return !closed_;
}

void screen::note(std::string_view line) {
  const std::lock_guard lock{mutex_};
  if (quiet_)
    return;
  erase_status();
  std::string text{mid_line_ ? "\n" : ""};
  mid_line_ = false;
  write_all(STDERR_FILENO, text.append(line) + '\n');
  draw_status();
}

void screen::status(std::string_view line) {
  const std::lock_guard lock{mutex_};
  if (!has_status_ || line == status_)
    return;
  erase_status();
  status_ = line;
  draw_status();
}

void screen::erase_status() {
  if (drawn_)
    write_all(STDERR_FILENO, "\r\x1b[K");
  drawn_ = false;
}

void screen::draw_status() {
  if (status_.empty() || mid_line_ || drawn_)
    return;
  // One column less than there are: some terminals wrap at the last.
  auto width = std::max<std::size_t>(look_of(STDERR_FILENO).width, 2) - 1;
  drawn_ = write_all(STDERR_FILENO, painted(shortened(status_, width), colour::grey));
}

} // namespace kcx::cli
