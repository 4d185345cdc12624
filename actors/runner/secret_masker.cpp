#include "actors/runner/secret_masker.hpp"

#include "config/base64.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

namespace kcx {

namespace {

constexpr std::size_t min_length = 4;
/// Below it, the ends of two lines would meet by chance.
constexpr std::size_t min_breakable = 8;
/// Shorter lines of base64 are not broken ones: the rest of each line of text would have to wait for the next.
constexpr std::size_t min_line = 16;
/// A line end with the blanks that the next line begins with: what is held back must not grow without bound.
constexpr std::size_t most_break = 64;

bool is_base64(unsigned char byte) noexcept {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '+' ||
         byte == '/' || byte == '-' || byte == '_';
}

std::string percent_escaped(std::string_view secret, std::string_view kept, bool upper, bool plus) {
  const std::string_view digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  for (const char c : secret) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || kept.find(c) != std::string_view::npos) {
      out += c;
    } else if (plus && c == ' ') {
      out += '+';
    } else {
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 15U];
    }
  }
  return out;
}

/// The code point that begins a text, and its bytes taken off it. Of what is no UTF-8 one byte, as Python has it in a
/// string: as half a surrogate pair.
std::uint32_t next_code_point(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t more = lead < 0x80 ? 0 : lead >> 5 == 0x6 ? 1 : lead >> 4 == 0xe ? 2 : lead >> 3 == 0x1e ? 3 : 4;
  std::uint32_t point = more == 0 ? lead : lead & (0x3fU >> more);
  bool whole = more < 4 && text.size() > more;
  for (std::size_t i = 1; whole && i <= more; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    whole = byte >> 6 == 2;
    point = (point << 6) | (byte & 0x3fU);
  }
  text.remove_prefix(whole ? more + 1 : 1);
  return whole ? point : 0xdc00U + lead;
}

void add_unicode_escape(std::string& out, std::uint32_t unit, bool upper) {
  const std::string_view digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4)
    out += digits[(unit >> shift) & 15U];
}

struct json_style {
  /// Whether all beyond ASCII, and DEL, is written as \uXXXX.
  bool ascii;
  /// Further characters that are.
  std::string_view as_unicode;
  /// Whether a slash is written as "\/".
  bool slash;
};

std::string json_escaped(std::string_view secret, const json_style& style, bool upper) {
  constexpr std::string_view named = "\"\\\n\r\t\b\f";
  constexpr std::string_view letters = "\"\\nrtbf";
  std::string out;
  while (!secret.empty()) {
    const auto c = secret.front();
    if (style.ascii && static_cast<unsigned char>(c) >= 0x7f) {
      const auto point = next_code_point(secret);
      if (point >= 0x10000)
        add_unicode_escape(out, 0xd7c0U + (point >> 10), upper);
      add_unicode_escape(out, point >= 0x10000 ? 0xdc00U + (point & 0x3ffU) : point, upper);
      continue;
    }
    secret.remove_prefix(1);
    if (style.as_unicode.find(c) != std::string_view::npos) {
      add_unicode_escape(out, static_cast<unsigned char>(c), upper);
    } else if (const auto at = named.find(c); at != std::string_view::npos) {
      out += '\\';
      out += letters[at];
    } else if (style.slash && c == '/') {
      out += "\\/";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      add_unicode_escape(out, static_cast<unsigned char>(c), upper);
    } else {
      out += c;
    }
  }
  return out;
}

// Who writes what. Most secrets come out of many of them in the same form, and each form is searched for once.

/// What is left as it is besides letters and digits. Each with either case of its hexadecimal digits, and with "+" or
/// "%20" for a blank.
constexpr std::string_view percent_styles[] = {
  "-_.~",                 // RFC 3986; Go's QueryEscape
  "-_.!~*'()",            // JavaScript's encodeURIComponent
  "-_.~/",                // Python's quote
  "-_.!~*'();/?:@&=+$,#", // JavaScript's encodeURI
  "-_.*",                 // Java's URLEncoder, forms of browsers
  "-_.",                  // PHP's urlencode
  "-_.~$&+=:@",           // Go's PathEscape
  "-_.~$&+,/:;=@",        // paths of Go's URLs
};

/// Each with either case of its hexadecimal digits.
constexpr json_style json_styles[] = {
  {false, "", false},        // JavaScript, Rust, most others
  {false, "", true},         // PHP with JSON_UNESCAPED_UNICODE
  {true, "", false},         // Python
  {true, "", true},          // PHP
  {false, "&<>", false},     // Go, Rails
  {false, "&<>='", false},   // Gson
  {true, "&<>'", false},     // Python's web frameworks
  {true, "\"&'+<>`", false}, // .NET
};

/// Of each table for a job with very large secrets: an automaton with all forms could take a hundred times their size.
constexpr std::size_t usual_styles = 3;
constexpr std::size_t large_secrets = 16 * 1024;

std::vector<std::string> lines_of(std::string_view secret) {
  std::vector<std::string> lines;
  while (!secret.empty()) {
    const auto end = secret.find_first_of("\r\n");
    if (end != 0)
      lines.emplace_back(secret.substr(0, end));
    secret.remove_prefix(end == std::string_view::npos ? secret.size() : end + 1);
  }
  return lines;
}

void add_escaped(std::set<std::string>& found, std::string_view text, bool usual_only) {
  const auto styles_of = [usual_only](const auto& table) {
    return std::span{table}.first(usual_only ? usual_styles : std::size(table));
  };
  for (const bool upper : {true, false}) {
    for (const auto kept : styles_of(percent_styles))
      for (const bool plus : {true, false})
        found.insert(percent_escaped(text, kept, upper, plus));
    for (const auto& style : styles_of(json_styles))
      found.insert(json_escaped(text, style, upper));
  }
}

/// In the alphabets of files and of URLs.
void add_base64_text(std::set<std::string>& found, std::string text) {
  found.insert(text);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  found.insert(std::move(text));
}

void add_base64(std::set<std::string>& found, std::string_view secret) {
  // As many bytes of something else precede it in its group of three.
  for (std::size_t before = 0; before < 3; ++before) {
    // What is shared with those is no part of it.
    const auto text = to_base64(std::string(before, '\0') + std::string{secret}).substr(before == 0 ? 0 : before + 1);
    const auto unpadded = text.substr(0, text.find('='));
    add_base64_text(found, text);
    add_base64_text(found, unpadded);
    // Where something follows, the last character has bits of that, too, which nobody knows.
    if (unpadded.size() < text.size())
      add_base64_text(found, unpadded.substr(0, unpadded.size() - 1));
  }
}

} // namespace

std::vector<std::string> secret_patterns::forms(std::string_view secret, bool usual_only) {
  std::set<std::string> found;
  if (secret.size() >= min_length) {
    found.emplace(secret);
    add_escaped(found, secret, usual_only);
    add_base64(found, secret);
  }
  for (const auto& line : lines_of(secret)) {
    if (line.size() < min_length)
      continue;
    found.insert(line);
    add_escaped(found, line, usual_only);
    add_base64(found, line);
  }
  std::vector<std::string> result;
  std::copy_if(found.begin(), found.end(), std::back_inserter(result),
               [](const std::string& form) { return form.size() >= min_length; });
  return result;
}

std::vector<std::string> secret_patterns::breakable_forms(std::string_view secret) {
  std::set<std::string> found;
  if (secret.size() >= min_length)
    add_base64(found, secret);
  std::vector<std::string> result;
  std::copy_if(found.begin(), found.end(), std::back_inserter(result),
               [](const std::string& form) { return form.size() >= min_breakable; });
  return result;
}

secret_patterns::secret_patterns(const std::vector<std::string>& secrets) {
  std::size_t total = 0;
  for (const auto& secret : secrets)
    total += secret.size();
  for (const auto& secret : secrets) {
    for (const auto& form : forms(secret, total > large_secrets))
      plain_.add(form);
    for (const auto& form : breakable_forms(secret))
      broken_.add(form);
  }
  plain_.link();
  broken_.link();
}

std::uint32_t secret_patterns::automaton::child(std::uint32_t state, unsigned char byte) const noexcept {
  auto at = nodes_[state].first_child;
  while (at != none && nodes_[at].byte != byte)
    at = nodes_[at].next_sibling;
  return at;
}

void secret_patterns::automaton::add(std::string_view form) {
  std::uint32_t state = 0;
  for (const char c : form) {
    const auto byte = static_cast<unsigned char>(c);
    auto at = child(state, byte);
    if (at == none) {
      at = static_cast<std::uint32_t>(nodes_.size());
      node fresh;
      fresh.byte = byte;
      fresh.depth = nodes_[state].depth + 1;
      fresh.next_sibling = nodes_[state].first_child;
      nodes_.push_back(fresh);
      nodes_[state].first_child = at;
    }
    state = at;
  }
  nodes_[state].match = nodes_[state].depth;
}

void secret_patterns::automaton::link() {
  std::deque<std::uint32_t> queue;
  for (auto at = nodes_[0].first_child; at != none; at = nodes_[at].next_sibling) {
    root_[nodes_[at].byte] = at;
    queue.push_back(at);
  }
  while (!queue.empty()) {
    const auto state = queue.front();
    queue.pop_front();
    for (auto at = nodes_[state].first_child; at != none; at = nodes_[at].next_sibling) {
      nodes_[at].fallback = next(nodes_[state].fallback, nodes_[at].byte);
      nodes_[at].match = std::max(nodes_[at].match, nodes_[nodes_[at].fallback].match);
      queue.push_back(at);
    }
  }
}

std::uint32_t secret_patterns::automaton::next(std::uint32_t state, unsigned char byte) const noexcept {
  while (state != 0) {
    if (const auto at = child(state, byte); at != none)
      return at;
    state = nodes_[state].fallback;
  }
  return root_[byte];
}

void secret_masker::feed(std::string_view bytes, std::string& out) {
  if (patterns_->empty()) {
    out += bytes;
    return;
  }
  held_ += bytes;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    state_ = patterns_->plain_.next(state_, byte);
    ++position_;
    if (const auto length = patterns_->plain_.match(state_); length > 0)
      mark(position_ - length, position_);
    if (!patterns_->broken_.empty())
      feed_broken(byte);
  }
  // Everything before the prefixes that the automata are in can no longer become part of a secret.
  auto until = position_ - patterns_->plain_.depth(state_);
  if (const auto depth = patterns_->broken_.depth(broken_state_); depth > 0)
    until = std::min(until, broken_places_[broken_places_.size() - depth]);
  release(until, out);
}

void secret_masker::feed_broken(unsigned char byte) {
  const auto& broken = patterns_->broken_;
  const bool line_end = byte == '\n' || byte == '\r';
  // Lines that go on may be indented.
  const bool goes_on = break_bytes_ > 0 ? line_end || byte == ' ' || byte == '\t' : line_end && base64_run_ >= min_line;
  if (goes_on && ++break_bytes_ <= most_break)
    return;
  break_bytes_ = 0;
  base64_run_ = is_base64(byte) ? base64_run_ + 1 : 0;
  broken_state_ = broken.next(broken_state_, byte);
  broken_places_.push_back(position_ - 1);
  if (const auto length = broken.match(broken_state_); length > 0)
    mark(broken_places_[broken_places_.size() - length], position_);
  while (broken_places_.size() > broken.depth(broken_state_))
    broken_places_.pop_front();
}

void secret_masker::mark(std::uint64_t begin, std::uint64_t end) {
  bool told = false;
  while (!found_.empty() && found_.back().end > begin) {
    begin = std::min(begin, found_.back().begin);
    told = told || found_.back().told;
    found_.pop_back();
  }
  found_.push_back({begin, end, told});
}

void secret_masker::release(std::uint64_t until, std::string& out) {
  auto from = held_from_;
  while (!found_.empty() && found_.front().begin < until) {
    auto& hit = found_.front();
    out.append(held_, from - held_from_, hit.begin - from);
    if (!hit.told)
      out += "***";
    from = std::min(hit.end, until);
    if (hit.end > until) {
      // Another secret may begin inside this one: what follows decides how far the hidden part reaches.
      hit = {until, hit.end, true};
      break;
    }
    found_.pop_front();
  }
  if (until > from) {
    out.append(held_, from - held_from_, until - from);
    from = until;
  }
  held_.erase(0, from - held_from_);
  held_from_ = from;
}

void secret_masker::flush(std::string& out) {
  release(position_, out);
  state_ = broken_state_ = 0;
  broken_places_.clear();
  base64_run_ = 0;
  break_bytes_ = 0;
}

std::string masked(const std::shared_ptr<const secret_patterns>& patterns, std::string_view text) {
  std::string out;
  secret_masker masker{patterns};
  masker.feed(text, out);
  masker.flush(out);
  return out;
}

} // namespace kcx
