#include "actors/inspector/web_page.hpp"

#include "actors/inspector/web_files.hpp"

namespace kcx::http {

namespace {

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html"))
    return "text/html; charset=utf-8";
  if (name.ends_with(".js"))
    return "text/javascript; charset=utf-8";
  if (name.ends_with(".css"))
    return "text/css; charset=utf-8";
  return "application/octet-stream";
}

} // namespace

std::optional<response> web_page(std::string_view path) {
  const auto wanted = path == "/" ? std::string_view{"index.html"} : path.substr(path.empty() ? 0 : 1);
  for (const auto& file : web_files()) {
    if (file.name != wanted)
      continue;
    response answer;
    answer.headers.add("Content-Type", type_of(file.name));
    answer.headers.add("Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    answer.headers.add("X-Content-Type-Options", "nosniff");
    answer.headers.add("Referrer-Policy", "no-referrer");
    answer.headers.add("Cache-Control", "no-cache");
    answer.body = file.bytes;
    return answer;
  }
  return std::nullopt;
}

} // namespace kcx::http
