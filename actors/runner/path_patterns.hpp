/// The globs of a job's `artifacts`, matched against a directory tree on the way down: what no pattern can reach is
/// never looked into. Used by tree_copy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kcx {

/// `*`, `?` and `[…]` stand for parts of one name, `**` for any number of directories. As in a shell, none of them
/// stands for the dot that a name begins with. A pattern that names a directory means everything in it.
class path_patterns {
public:
  /// Relative paths without ".."; a "./" in front and a "/" behind mean nothing.
  explicit path_patterns(const std::vector<std::string>& patterns);

  /// A segment that the next name may match.
  struct place {
    std::uint16_t pattern = 0;
    std::uint16_t segment = 0;
    auto operator<=>(const place&) const = default;
  };
  using places = std::vector<place>;

  /// What an entry of a directory is to the patterns.
  struct step_result {
    /// Where they stand inside it, if it is a directory. Empty: nothing in it can match.
    places inside;
    /// A pattern ends with it.
    bool matched = false;
  };

  /// Where the patterns begin.
  [[nodiscard]] const places& begin() const noexcept { return begin_; }

  /// Goes on from the places of a directory to one of its entries.
  [[nodiscard]] step_result step(const places& from, const std::string& name);

  /// The patterns that no entry has matched, as they were given.
  [[nodiscard]] std::vector<std::string> unmatched() const;

private:
  struct pattern {
    std::string text;
    std::vector<std::string> segments;
    bool matched = false;
  };

  /// Adds a place, and those behind it that a "**" which stands for nothing leads to.
  void add(places& to, place where) const;

  std::vector<pattern> patterns_;
  places begin_;
};

} // namespace kcx
