#include "actors/runner/path_patterns.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <string_view>

namespace kcx {

namespace {

constexpr std::string_view any_depth = "**";

std::vector<std::string> segments_of(std::string_view text) {
  std::vector<std::string> segments;
  while (!text.empty()) {
    const auto slash = text.find('/');
    const auto segment = text.substr(0, slash);
    if (!segment.empty() && segment != ".")
      segments.emplace_back(segment);
    text.remove_prefix(slash == std::string_view::npos ? text.size() : slash + 1);
  }
  return segments;
}

} // namespace

path_patterns::path_patterns(const std::vector<std::string>& patterns) {
  for (const auto& text : patterns)
    patterns_.push_back({text, segments_of(text), false});
  for (std::size_t i = 0; i < patterns_.size(); ++i)
    add(begin_, {static_cast<std::uint16_t>(i), 0});
}

void path_patterns::add(places& to, place where) const {
  const auto& segments = patterns_[where.pattern].segments;
  while (where.segment < segments.size() && std::find(to.begin(), to.end(), where) == to.end()) {
    to.push_back(where);
    // As the last segment it stands for something, or the directory itself would match.
    if (segments[where.segment] != any_depth)
      return;
    ++where.segment;
  }
}

path_patterns::step_result path_patterns::step(const places& from, const std::string& name) {
  step_result result;
  for (const auto& at : from) {
    auto& each = patterns_[at.pattern];
    const auto& segment = each.segments[at.segment];
    const bool last = at.segment + 1U == each.segments.size();
    const bool deep = segment == any_depth;
    if (deep ? name.starts_with('.') : ::fnmatch(segment.c_str(), name.c_str(), FNM_PERIOD) != 0)
      continue;
    if (last)
      each.matched = result.matched = true;
    else
      add(result.inside, {at.pattern, static_cast<std::uint16_t>(deep ? at.segment : at.segment + 1)});
  }
  return result;
}

std::vector<std::string> path_patterns::unmatched() const {
  std::vector<std::string> texts;
  for (const auto& each : patterns_)
    if (!each.matched)
      texts.push_back(each.text);
  return texts;
}

} // namespace kcx
