/// Replaces secrets in a stream of bytes by `***` before anything is stored or sent.
///
/// Found are each secret itself, its lines (a secret of several lines may be printed indented or with other line ends),
/// and its base64, URL-escaped and JSON-escaped forms as the usual libraries write them (of secrets that have more than
/// 16 KiB together: as the most usual ones do), also where a chunk ends in the middle of one, and base64 also
/// where lines are broken in the middle of it. Anything shorter than 4 bytes is not masked: it would tear holes into
/// unrelated output without protecting anything.
///
/// The search is the automaton of Aho and Corasick ("Efficient string matching", CACM 18(6), 1975): one pass, linear in
/// the input whatever the number of secrets.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kcx {

/// Everything that is searched for; built once per job, shared by the maskers of its streams.
class secret_patterns {
public:
  explicit secret_patterns(const std::vector<std::string>& secrets);

  [[nodiscard]] bool empty() const noexcept { return plain_.empty(); }

  /// All forms of one secret that are masked, each once: at most 70 of a line, a handful of most. With `usual_only`
  /// without the rarer ways to escape. For tests and for the constructor.
  [[nodiscard]] static std::vector<std::string> forms(std::string_view secret, bool usual_only = false);

  /// Those of them that lines may be broken in: base64 that is long enough not to be met by chance.
  [[nodiscard]] static std::vector<std::string> breakable_forms(std::string_view secret);

private:
  friend class secret_masker;

  class automaton {
  public:
    automaton() : nodes_(1) {}

    [[nodiscard]] bool empty() const noexcept { return nodes_.size() == 1; }
    void add(std::string_view form);
    /// Call it once all forms are added.
    void link();
    [[nodiscard]] std::uint32_t next(std::uint32_t state, unsigned char byte) const noexcept;
    /// Length of the prefix that a state stands for.
    [[nodiscard]] std::uint32_t depth(std::uint32_t state) const noexcept { return nodes_[state].depth; }
    /// Length of the longest form that ends in a state, 0 if none does.
    [[nodiscard]] std::uint32_t match(std::uint32_t state) const noexcept { return nodes_[state].match; }

  private:
    static constexpr std::uint32_t none = 0xffffffff;

    struct node {
      std::uint32_t first_child = none;
      std::uint32_t next_sibling = none;
      std::uint32_t fallback = 0;
      std::uint32_t depth = 0;
      std::uint32_t match = 0;
      unsigned char byte = 0;
    };

    [[nodiscard]] std::uint32_t child(std::uint32_t state, unsigned char byte) const noexcept;

    std::vector<node> nodes_;
    std::array<std::uint32_t, 256> root_{};
  };

  automaton plain_;
  /// Runs over the bytes without line breaks and what follows them.
  automaton broken_;
};

/// Masks one stream. Holds back only bytes that may be the begin of a secret: at most the longest form.
class secret_masker {
public:
  explicit secret_masker(std::shared_ptr<const secret_patterns> patterns) : patterns_{std::move(patterns)} {}

  /// Takes the next bytes and appends to `out` what is safe to show.
  void feed(std::string_view bytes, std::string& out);

  /// The stream is over: appends what was held back.
  void flush(std::string& out);

private:
  struct range {
    std::uint64_t begin;
    std::uint64_t end;
    /// Whether its `***` is written out already.
    bool told;
  };

  /// Takes one byte on the way through broken lines; position_ is behind it.
  void feed_broken(unsigned char byte);
  void mark(std::uint64_t begin, std::uint64_t end);
  void release(std::uint64_t until, std::string& out);

  std::shared_ptr<const secret_patterns> patterns_;
  std::uint32_t state_ = 0;
  std::uint32_t broken_state_ = 0;
  /// Where the bytes of its prefix stand; longer than that now and then.
  std::deque<std::uint64_t> broken_places_;
  /// Bytes of base64 in a row, up to here.
  std::size_t base64_run_ = 0;
  /// Bytes of the line break that may lie in the middle of base64, up to here.
  std::size_t break_bytes_ = 0;
  std::string held_;
  /// Stream positions of held_[0] and of the byte to come.
  std::uint64_t held_from_ = 0;
  std::uint64_t position_ = 0;
  /// Found and not yet written out, ascending, apart from each other.
  std::deque<range> found_;
};

/// A text with all secrets masked.
[[nodiscard]] std::string masked(const std::shared_ptr<const secret_patterns>& patterns, std::string_view text);

} // namespace kcx
