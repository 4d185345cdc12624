#include "actors/http/api/line_cutter.hpp"

namespace kcx::http {

bool is_line_upload(const request& ask) {
  const auto type = ask.headers.find("Content-Type").value_or("");
  return ask.method == "POST" && ask.path == "/v1/jobs" &&
         same_text(trimmed(type.substr(0, type.find(';'))), "application/x-ndjson");
}

void line_cutter::put(std::string_view bytes, bool last) {
  held_.erase(0, at_);
  at_ = 0;
  held_.append(bytes);
  last_ = last_ || last;
}

std::optional<body_line> line_cutter::next() {
  for (;;) {
    auto line = cut();
    if (!line || line->too_long || !line->text.empty())
      return line;
  }
}

std::optional<body_line> line_cutter::cut() {
  const auto rest = std::string_view{held_}.substr(at_);
  const auto end = rest.find('\n');
  if (end == std::string_view::npos && !(last_ && (!rest.empty() || skipping_))) {
    // What nobody wants is not held: a line may be longer than memory.
    if (rest.size() > longest_) {
      skipping_ = true;
      at_ = held_.size();
    }
    return std::nullopt;
  }
  auto text = rest.substr(0, end);
  at_ += text.size() + (end == std::string_view::npos ? 0 : 1);
  if (text.ends_with('\r'))
    text.remove_suffix(1);
  body_line line{++number_, {}, skipping_ || text.size() > longest_};
  skipping_ = false;
  // Blanks in front stay, so that a column is that of the line.
  if (!line.too_long && !trimmed(text).empty())
    line.text = text;
  return line;
}

} // namespace kcx::http
