#include "actors/cli/view/screen.hpp"

#include "actors/cli/view/text.hpp"
#include "config/posix.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kcx::cli {

namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

} // namespace

std::string cannot_write_output(int number) {
  const std::string line = "kcx: cannot write standard output";
  return number == 0 ? line : line + ": " + std::strerror(number);
}

bool can_redraw(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && term != nullptr && std::string_view{term} != "dumb";
}

look look_of(int fd) {
  look how;
  if (::isatty(fd) == 0)
    return how;
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0;
  how.width = known && size.ws_col > 0 ? size.ws_col : 80;
  how.height = known && size.ws_row > 0 ? size.ws_row : 24;
  how.colours = !is_set("NO_COLOR") && can_redraw(fd);
  return how;
}

screen::screen(bool quiet)
  : quiet_{quiet}, shares_terminal_{::isatty(STDOUT_FILENO) != 0}, has_status_{!quiet && can_redraw(STDERR_FILENO)} {}

screen::~screen() {
  status({});
}

bool screen::write(std::string_view bytes) {
  const std::lock_guard lock{mutex_};
  if (closed_ || bytes.empty())
    return !closed_;
  if (shares_terminal_)
    erase_status();
  closed_ = !write_all(STDOUT_FILENO, bytes);
  if (closed_) {
    const auto line = cannot_write_output(errno) + '\n';
    erase_status();
    write_all(STDERR_FILENO, line);
  }
  mid_line_ = shares_terminal_ && bytes.back() != '\n';
  draw_status();
  return !closed_;
}

bool screen::broken() {
  const std::lock_guard lock{mutex_};
  return closed_;
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

void screen::status(std::vector<cell> lines) {
  const std::lock_guard lock{mutex_};
  const auto same = [](const cell& a, const cell& b) { return a.text == b.text && a.paint == b.paint; };
  if (!has_status_ || std::equal(lines.begin(), lines.end(), status_.begin(), status_.end(), same))
    return;
  erase_status();
  status_ = std::move(lines);
  draw_status();
}

void screen::erase_status() {
  if (drawn_ == 0)
    return;
  std::string back = "\r";
  for (std::size_t line = 1; line < drawn_; ++line)
    back += "\x1b[A";
  write_all(STDERR_FILENO, back + "\x1b[J");
  drawn_ = 0;
}

void screen::draw_status() {
  if (status_.empty() || mid_line_ || drawn_ > 0)
    return;
  const auto how = look_of(STDERR_FILENO);
  // One column less than there are: some terminals wrap at the last.
  const auto width = std::max<std::size_t>(how.width, 2) - 1;
  std::string text;
  for (const auto& line : status_) {
    if (drawn_ + 1 >= std::max<std::size_t>(how.height, 2))
      break;
    text += (drawn_++ == 0 ? "" : "\n") + painted(shortened(line.text, width), how.colours ? line.paint : colour::none);
  }
  if (!write_all(STDERR_FILENO, text))
    drawn_ = 0;
}

} // namespace kcx::cli
