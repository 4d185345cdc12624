/// What a followed job shows: its log on standard output, notes on standard error, and on a terminal a status
/// below both that never mixes with them.
#pragma once

#include "actors/cli/view/describe.hpp"
#include "actors/cli/view/text.hpp"

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

/// The file descriptor is a terminal that can be drawn on: TERM is set and not "dumb".
[[nodiscard]] bool can_redraw(int fd);

/// What the file descriptor can take: the terminal's size, and colours unless NO_COLOR is set or TERM is "dumb".
[[nodiscard]] look look_of(int fd);

/// "kcx: cannot write standard output: No space left on device".
[[nodiscard]] std::string cannot_write_output(int number);

/// All members may be called from any thread.
class screen {
public:
  /// `quiet` drops notes and the status line.
  explicit screen(bool quiet);
  /// Takes the status line away.
  ~screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  /// Writes all bytes to standard output as they are. False if that is not possible (any more): the first time this is
  /// told on standard error, and further output goes nowhere.
  bool write(std::string_view bytes);
  /// Something could not be written.
  [[nodiscard]] bool broken();

  /// A line on standard error.
  void note(std::string_view line);

  /// The lines of the status below all other output; shown on a terminal only, and none that is too many for it. No
  /// lines take it away.
  void status(std::vector<cell> lines);

private:
  void erase_status();
  void draw_status();

  std::mutex mutex_;
  const bool quiet_;
  const bool shares_terminal_;
  const bool has_status_;
  bool closed_ = false;
  /// Standard output stands in the middle of a line, where a status line must not begin.
  bool mid_line_ = false;
  /// Lines of the status that stand on the terminal.
  std::size_t drawn_ = 0;
  std::vector<cell> status_;
};

} // namespace kcx::cli
