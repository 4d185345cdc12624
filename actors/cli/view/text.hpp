/// Text for people: tables, durations, sizes, and names that come from elsewhere made safe to print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kcx::cli {

/// Control characters (also those of C1) become "\xNN" and invalid UTF-8 "?": a job's name cannot move the cursor.
[[nodiscard]] std::string visible(std::string_view text);

/// Columns the text takes, one per code point.
[[nodiscard]] std::size_t columns(std::string_view text) noexcept;

/// At most `width` columns, "…" at the end where something was cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

/// "0.4 s", "12.3 s", "4 min 05 s", "3 h 02 min", "2 d 03 h".
[[nodiscard]] std::string duration_text(double seconds);

/// "0 jobs", "1 job", "3 jobs".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view what);

/// "512 B", "1.5 KiB" …
[[nodiscard]] std::string size_text(double bytes);

enum class colour { none, green, red, yellow, blue, grey };

/// The text between the terminal's escapes for the colour; the text itself for none.
[[nodiscard]] std::string painted(std::string_view text, colour how);

/// The colour of a job's or step's state.
[[nodiscard]] colour colour_of(std::string_view state) noexcept;

struct cell {
  std::string text;
  colour paint = colour::none;
};

struct table {
  std::vector<std::string> header;
  std::vector<std::vector<cell>> rows;
  /// Columns that give way, widest first, when the table is too wide; they keep at least 8 columns.
  std::vector<std::size_t> flexible;
  /// The same, once that was not enough.
  std::vector<std::size_t> last_resort = {};
  /// Widths that the columns have at the least, where there is room: those of a part that was shown before.
  std::vector<std::size_t> least = {};
  /// The header is shown, not only counted.
  bool headed = true;
};

/// What the columns need, header and `least` included.
[[nodiscard]] std::vector<std::size_t> natural_widths(const table& what);

/// One line per row, columns two blanks apart, no blanks at line ends. `width` 0: as wide as it needs.
[[nodiscard]] std::string render(const table& what, std::size_t width, bool colours);

} // namespace kcx::cli
