/// Replaces secrets in a stream of bytes by `***` before anything is stored or sent.
///
/// Found are each secret itself, its lines (a secret of several lines may be printed indented or with other line ends),
/// and its base64, URL-escaped and JSON-escaped forms, also where a chunk ends in the middle of one. Anything shorter
/// than 4 bytes is not masked: it would tear holes into unrelated output without protecting anything.
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

  [[nodiscard]] bool empty() const noexcept { return nodes_.size() == 1; }

  /// All forms of one secret that are masked. For tests and for the constructor.
  [[nodiscard]] static std::vector<std::string> forms(std::string_view secret);

private:
  friend class secret_masker;
  static constexpr std::uint32_t none = 0xffffffff;

  struct node {
    std::uint32_t first_child = none;
    std::uint32_t next_sibling = none;
    std::uint32_t fallback = 0;
    /// Length of the prefix that this node stands for.
    std::uint32_t depth = 0;
    /// Length of the longest form that ends here, 0 if none does.
    std::uint32_t match = 0;
    unsigned char byte = 0;
  };

  void add(std::string_view form);
  void link();
  [[nodiscard]] std::uint32_t child(std::uint32_t state, unsigned char byte) const noexcept;
  [[nodiscard]] std::uint32_t next(std::uint32_t state, unsigned char byte) const noexcept;

  std::vector<node> nodes_;
  std::array<std::uint32_t, 256> root_{};
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

  void mark(std::uint64_t begin, std::uint64_t end);
  void release(std::uint64_t until, std::string& out);

  std::shared_ptr<const secret_patterns> patterns_;
  std::uint32_t state_ = 0;
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
